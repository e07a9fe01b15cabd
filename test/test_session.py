"""A session of a run with small stand-ins for its nodes: who is told what, and what it returns."""

import contextlib
import os
import resource
import shlex
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from waiting import PATIENCE

from hucrl_ros.config.schema import Config, DriverSettings
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run import session
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.processes import GAVE_UP
from hucrl_ros.run.session import (
    LARGEST_DOMAIN,
    Domain,
    Session,
    node_environment,
    resume_command,
    wished_domain,
)
from hucrl_ros.run.summary import Summary, read_summary, write_summary

SLEEP = "import time; time.sleep(3600)"
FAIL = "import sys; sys.stderr.write('no such robot\\n'); sys.exit(2)"
DIE = "import os; os.kill(os.getpid(), 9)"
NOTE = """
import json, pathlib, sys
path = pathlib.Path({summary!r})
def note(event):
    values = json.loads(path.read_text())
    values["events"].append(event)
    path.write_text(json.dumps(values))
"""


@pytest.fixture
def run(run_folder):
    summary = Summary.of(
        run_folder.config, optimum=None, episodes=[], wall_s=10.0, cpu_s=10.0, events=["earlier"]
    )
    write_summary(run_folder.summary, summary)
    return run_folder


@pytest.fixture
def play(run, monkeypatch):
    def play(supervisor, controller=SLEEP):
        codes = {"controller": controller, "supervisor": supervisor}
        prelude = NOTE.format(summary=str(run.summary))
        nodes = [
            SimpleNamespace(name=name, command=[sys.executable, "-S", "-c", prelude + code])
            for name, code in codes.items()
        ]
        monkeypatch.setattr(session, "learning_graph", lambda run, **how: nodes)
        return Session(run, 17).play()

    return play


def test_a_supervisor_that_has_finished_ends_the_session(play, run):
    assert play("pass") is None
    summary = read_summary(run.summary)
    assert summary.events == ("earlier",)
    assert 10.0 < summary.wall_s < 10.0 + PATIENCE
    assert summary.cpu_s > 10.0


def test_the_supervisors_event_is_the_error_and_says_how_to_go_on(play, run, monkeypatch):
    monkeypatch.chdir(run.root.parent)
    with pytest.raises(RunError) as caught:
        play(f"note('learner: loss is nan'); sys.exit({GAVE_UP})")
    assert str(caught.value) == (
        "learner: loss is nan; continue with: hucrl up pendulum --out run --resume"
    )
    assert read_summary(run.summary).events == ("earlier", "learner: loss is nan")


def test_a_full_disk_says_how_to_go_on_too(play, run):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (run.summary.stat().st_size - 1, limits[1]))
    try:
        with pytest.raises(RunError, match=r"can't be written: .*; continue with: "):
            play("pass")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert read_summary(run.summary).events == ("earlier",)


def test_a_supervisor_that_could_not_speak_is_quoted_from_its_log(play, run):
    with pytest.raises(RunError, match="supervisor ended with exit code 2: no such robot; "):
        play(FAIL)
    assert read_summary(run.summary).events[-1] == (
        "supervisor ended with exit code 2: no such robot"
    )


@pytest.mark.parametrize(
    ("end", "line"),
    [
        ("import os; os.kill(os.getpid(), 9)", "supervisor was killed by signal 9 (SIGKILL)"),
        (FAIL, "supervisor ended with exit code 2: no such robot"),
    ],
)
def test_an_event_before_the_supervisor_was_lost_is_not_the_reason(end, line, play, run):
    event = "episode 3, step 120: by a person: pause of the supervisor = True"
    with pytest.raises(RunError) as caught:
        play(f"note({event!r}); {end}")
    assert str(caught.value).startswith(line)
    assert read_summary(run.summary).events[-2:] == (event, line)


def test_a_supervisor_that_somebody_else_stops_has_not_finished(play, run):
    with pytest.raises(RunError, match="episode 1, step 3: stopped on request; continue with"):
        play("note('episode 1, step 3: stopped on request')")


def test_the_supervisor_is_told_of_a_lost_node_and_has_the_last_word(play, run):
    with pytest.raises(RunError, match="step 3: controller was killed by signal 9"):
        code = f"note('step 3: ' + sys.stdin.readline().strip()); sys.exit({GAVE_UP})"
        play(code, controller=DIE)
    assert read_summary(run.summary).events[-1] == (
        "step 3: controller was killed by signal 9 (SIGKILL)"
    )


def test_a_supervisor_that_does_not_react_is_not_waited_for(play, run, monkeypatch):
    monkeypatch.setattr(session, "REPORT_S", 0.2)
    with pytest.raises(RunError, match="controller was killed by signal 9"):
        play(SLEEP, controller=DIE)
    assert read_summary(run.summary).events[-1] == "controller was killed by signal 9 (SIGKILL)"


def test_a_node_that_ends_without_an_error_is_missed_as_well(play, monkeypatch):
    monkeypatch.setattr(session, "REPORT_S", 0.2)
    with pytest.raises(RunError, match="controller ended with exit code 0"):
        play(SLEEP, controller="pass")


def test_a_signal_before_the_supervisor_has_told_of_a_lost_node_hides_nothing(play, run):
    hang = f"sys.stdin.readline(); import os; os.kill(os.getppid(), {int(signal.SIGINT)}); {SLEEP}"
    with pytest.raises(RunError, match=r"^controller was killed by signal 9 .*; continue with: "):
        play(hang, controller=DIE)
    assert read_summary(run.summary).events[-1] == "controller was killed by signal 9 (SIGKILL)"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP])
def test_a_signal_ends_the_session_and_is_returned(play, run, number):
    before = signal.getsignal(number)
    kill = f"import os, time; os.kill(os.getppid(), {int(number)}); time.sleep(3600)"
    assert play(kill) == number
    assert signal.getsignal(number) == before
    assert read_summary(run.summary).events == ("earlier",)


@pytest.mark.parametrize(("how", "asks"), [("person", True), ("home", True), ("service", False)])
def test_enter_is_read_wherever_the_run_asks_for_it(how, asks, tmp_path):
    config = Config(mode="real_time", driver=DriverSettings(reset=how))
    run = RunFolder.create(tmp_path / "run", config)
    for simulated in (True, False):
        assert Session(run, 1, simulated=simulated)._asks == asks


def test_a_folder_with_a_space_is_one_word_of_the_command(tmp_path):
    run = RunFolder.create(tmp_path / "my runs" / "größe 1", Config())
    assert str(run.root) in shlex.split(resume_command(run))


@pytest.mark.parametrize("stdin", [None, "closed"])
def test_nobody_presses_enter_where_there_is_no_terminal(stdin, monkeypatch, tmp_path):
    if stdin == "closed":
        stdin = (tmp_path / "closed").open("w")
        stdin.close()
    monkeypatch.setattr(sys, "stdin", stdin)
    assert not session._pressed_enter()


def test_another_users_run_can_lock_the_same_domain_file(tmp_path):
    before = os.umask(0o077)
    try:
        with Domain(7, tmp_path):
            assert stat.S_IMODE((tmp_path / "hucrl_ros_domain_7.lock").stat().st_mode) == 0o666
    finally:
        os.umask(before)


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.touch(0o600)
    (tmp_path / "hucrl_ros_domain_7.lock").symlink_to(secret)
    (tmp_path / "hucrl_ros_domain_8.lock").hardlink_to(secret)
    for number in (7, 8):
        with Domain(number, tmp_path):
            assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_no_process_is_left_however_it_ends(play, run):
    before = psutil.Process().children()  # such as a resource tracker of another test
    for supervisor in ("pass", FAIL):
        with contextlib.suppress(RunError):
            play(supervisor)
        assert set(psutil.Process().children()) <= set(before)


def test_a_run_that_another_process_plays_is_left_alone(play, run):
    with run.locked(), pytest.raises(RunError, match=f"process {os.getpid()} is playing"):
        play("pass")


def test_nodes_find_the_package_and_only_their_own_domain(run, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.delenv("ROS_AUTOMATIC_DISCOVERY_RANGE", raising=False)
    environment = node_environment(run, 17)
    assert environment["ROS_DOMAIN_ID"] == "17"
    assert environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    assert environment["ROS_LOG_DIR"] == str(run.logs)
    assert environment["HUCRL_PARENT_PID"] == str(os.getpid())
    first, package = environment["PYTHONPATH"].split(os.pathsep)
    assert first == "/somewhere"
    assert (Path(package) / "hucrl_ros").is_dir()


def test_a_wider_discovery_range_is_the_users_choice(run, monkeypatch):
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")
    assert node_environment(run, 17)["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "SUBNET"


def test_the_name_of_the_parents_variable_is_the_one_that_nodes_read():
    runner = pytest.importorskip("hucrl_ros.nodes.runner", reason="needs rclpy")
    assert session.PARENT_VARIABLE == runner.PARENT_VARIABLE


def test_two_runs_get_different_domains_and_none_is_everybodys(tmp_path):
    with Domain(folder=tmp_path) as one, Domain(folder=tmp_path) as other:
        assert one.number != other.number
        assert 0 not in (one.number, other.number)


def test_a_wished_domain_is_given_even_everybodys(tmp_path):
    with Domain(0, folder=tmp_path) as one:
        assert one.number == 0


def test_a_wished_domain_that_another_run_has_is_replaced(tmp_path):
    with Domain(17, folder=tmp_path), Domain(17, folder=tmp_path) as other:
        assert other.number != 17


def test_a_closed_domain_is_free_again(tmp_path):
    Domain(17, folder=tmp_path).close()
    with Domain(17, folder=tmp_path) as again:
        assert again.number == 17


def test_a_killed_process_frees_its_domain(tmp_path):
    code = (
        "from pathlib import Path; from hucrl_ros.run.session import Domain; import time\n"
        f"Domain(17, folder=Path({str(tmp_path)!r})); print('ready', flush=True); time.sleep(3600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        with Domain(17, folder=tmp_path) as other:
            assert other.number != 17
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    with Domain(17, folder=tmp_path) as again:
        assert again.number == 17


def test_a_domain_whose_port_somebody_has_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "LARGEST_DOMAIN", 2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as foreign:
        with contextlib.suppress(OSError):  # Somebody else has it already: as good.
            foreign.bind(("", 7400 + 250 * 1 + 10))
        with pytest.raises(RunError, match="in use") as caught:
            while True:
                Domain(folder=tmp_path)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "hucrl_session_1.lock").exists()


@pytest.mark.parametrize(("text", "number"), [(None, None), ("", None), ("0", 0), ("232", 232)])
def test_the_environment_variable_is_read(text, number):
    assert wished_domain(text) == number


@pytest.mark.parametrize("text", ["-1", "233", "abc", "1.5"])
def test_a_wrong_environment_variable_is_named(text):
    with pytest.raises(ConfigError, match=f"ROS_DOMAIN_ID = '{text}': expected 0 to"):
        wished_domain(text)


def test_in_the_largest_domain_twenty_participants_keep_below_the_ephemeral_ports():
    assert 7400 + 250 * LARGEST_DOMAIN + 11 + 2 * 20 < 32768
