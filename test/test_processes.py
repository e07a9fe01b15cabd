"""Processes of a run: watched, reported by name, and ended within the bound, whatever they do."""

import os
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest
from waiting import wait_until

from hucrl_ros.run import processes
from hucrl_ros.run.processes import FIRST_S, GRACE_S, KILL_S, Exit, ProcessGroup

READY = "print('ready', flush=True); "
SLEEPER = READY + "import time; time.sleep(3600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER


@pytest.fixture
def group(tmp_path):
    group = ProcessGroup(tmp_path, os.environ)
    yield group
    group.stop()


def test_logs_that_somebody_tidied_away_are_begun_anew(tmp_path):
    group = ProcessGroup(tmp_path / "logs", os.environ)
    group.start("one", python("print('here')"))
    wait_until(lambda: "here" in (tmp_path / "logs" / "one.log").read_text())
    group.stop()


def python(code: str) -> list[str]:
    # -S: the environment's start-up hooks would only slow the test down.
    return [sys.executable, "-S", "-c", code]


def is_zombie(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def start_ready(group, tmp_path, name, code):
    pid = group.start(name, python(code))
    wait_until(lambda: "ready" in (tmp_path / f"{name}.log").read_text())
    return pid


def test_output_goes_to_the_log_of_that_name(group, tmp_path):
    group.start("speaker", python("import sys; print('out'); print('err', file=sys.stderr)"))
    wait_until(lambda: "speaker" not in group.alive())
    assert set((tmp_path / "speaker.log").read_text().split()) == {"out", "err"}


def test_a_log_is_continued_not_replaced(group, tmp_path):
    (tmp_path / "speaker.log").write_text("earlier\n")
    group.start("speaker", python("print('later')"))
    wait_until(lambda: "speaker" not in group.alive())
    assert (tmp_path / "speaker.log").read_text() == "earlier\nlater\n"


def test_an_ended_process_is_reported_once_with_its_exit_code_and_last_line(group):
    group.start(
        "failing", python("import sys; sys.stderr.write('first\\nno robot\\n'); sys.exit(3)")
    )
    wait_until(lambda: "failing" not in group.alive())
    (end,) = group.ended()
    assert end == Exit("failing", 3, "no robot")
    assert end.description == "failing ended with exit code 3: no robot"
    assert group.ended() == []


@pytest.mark.parametrize(("free", "why"), [(0, "no space is left on the disk of"), (2**30, "")])
def test_who_ended_without_a_word_may_have_had_no_room_for_it(group, monkeypatch, free, why):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    group.start("mute", python("raise SystemExit(1)"))
    wait_until(lambda: "mute" not in group.alive())
    (end,) = group.ended()
    assert end.last_line.startswith(why) and bool(end.last_line) == bool(why)


def test_a_log_that_was_tidied_away_meanwhile_hides_no_end(group, tmp_path):
    """Whoever needs room on the disk doesn't wait for the end of the run."""
    pid = start_ready(group, tmp_path, "lonely", SLEEPER)
    (tmp_path / "lonely.log").unlink()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: "lonely" not in group.alive())
    (end,) = group.ended()
    assert end.code == -9 and end.last_line == f"{tmp_path}/lonely.log: No such file or directory"


def test_what_is_said_before_this_process_goes_on_is_of_this_start(group, monkeypatch):
    begin = subprocess.Popen

    def begin_and_wait(*arguments, **options):
        process = begin(*arguments, **options)
        process.wait()
        return process

    monkeypatch.setattr(subprocess, "Popen", begin_and_wait)
    group.start("quick", python("raise SystemExit('too soon')"))
    assert [end.last_line for end in group.ended()] == ["too soon"]


def test_last_line_are_of_this_start_not_of_an_earlier_one(group, tmp_path):
    (tmp_path / "mute.log").write_text("said long ago\n")
    group.start("mute", python("raise SystemExit(3)"))
    wait_until(lambda: "mute" not in group.alive())
    assert group.ended() == [Exit("mute", 3, "")]


def test_a_killed_process_is_reported_with_its_signal(group, tmp_path):
    pid = start_ready(group, tmp_path, "victim", SLEEPER)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: "victim" not in group.alive())
    (end,) = group.ended()
    assert end.description == "victim was killed by signal 9 (SIGKILL)"


def test_processes_that_run_are_alive_and_not_ended(group, tmp_path):
    start_ready(group, tmp_path, "sleeper", SLEEPER)
    assert group.alive() == ("sleeper",)
    assert group.ended() == []


def test_stop_ends_the_first_ones_before_it_signals_the_others(group, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "FIRST_S", 20.0)
    monkeypatch.setattr(processes, "GRACE_S", 40.0)
    order = tmp_path / "order"
    code = (
        "import signal, time\n"
        "def stop(*_):\n"
        "    time.sleep({delay})\n"
        f"    open({str(order)!r}, 'a').write('{{name}} ')\n"
        "    raise SystemExit\n"
        "signal.signal(signal.SIGTERM, stop)\n" + SLEEPER
    )
    start_ready(group, tmp_path, "other", code.format(name="other", delay=0))
    start_ready(group, tmp_path, "first", code.format(name="first", delay=0.2))
    assert group.stop(first=["first"]) == ()
    assert order.read_text().split() == ["first", "other"]


def test_a_process_that_ignores_sigterm_is_killed_within_the_bound(group, tmp_path):
    pid = start_ready(group, tmp_path, "stubborn", STUBBORN)
    assert group.stop(first=["stubborn"]) == ("stubborn",)
    wait_until(lambda: not psutil.pid_exists(pid) or is_zombie(pid))
    assert FIRST_S < GRACE_S
    assert GRACE_S + KILL_S < 5.0


def test_stop_reaches_what_a_process_started_itself(group, tmp_path):
    grandchild = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen({python('import time; time.sleep(3600)')!r})\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    start = group.start("parent", python(grandchild))
    log = tmp_path / "parent.log"
    wait_until(lambda: log.read_text().endswith("\n"))
    assert group.alive() == ("parent",)
    pid = int(log.read_text())
    group.stop()
    wait_until(lambda: not psutil.pid_exists(pid) or is_zombie(pid))
    assert not psutil.pid_exists(start)


def test_stop_of_nothing_does_nothing(group):
    assert group.stop(first=["absent"]) == ()


def test_a_line_told_to_a_foreground_process_arrives(group, tmp_path):
    code = "import sys; sys.stderr.write(sys.stdin.readline())"
    group.start("listener", python(code), foreground=True)
    group.tell("listener", "controller was killed")
    wait_until(lambda: "listener" not in group.alive())
    assert (tmp_path / "listener.log").read_text() == "controller was killed\n"


def test_telling_a_dead_process_does_nothing(group):
    group.start("deaf", python("pass"), foreground=True)
    wait_until(lambda: "deaf" not in group.alive())
    group.tell("deaf", "hello")
    group.tell("deaf", "hello?")


def test_children_die_with_a_parent_that_was_killed(tmp_path):
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from hucrl_ros.run.processes import ProcessGroup\n"
        f"group = ProcessGroup(Path({str(tmp_path)!r}), os.environ)\n"
        f"print(group.start('child', {python(SLEEPER)!r}), flush=True)\n"
        "time.sleep(3600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    wait_until(lambda: not psutil.pid_exists(pid) or is_zombie(pid))
