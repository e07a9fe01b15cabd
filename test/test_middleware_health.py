"""A process whose middleware stands still ends and says so."""

import contextlib
import ctypes
import os
import time
from pathlib import Path

import pytest
from ros_harness import Harness

from hucrl_ros.nodes import middleware_health
from hucrl_ros.nodes.middleware_health import LOOKS, THREAD, EventThread

SEIZE, INTERRUPT = 0x4206, 0x4207
"""Requests of ptrace(2)."""
ANY_THREAD = 0x40000000
"""__WALL of waitpid(2)."""
STATUS = (
    "Name:\tdds.ev.0\nState:\t{} (x)\n"
    "voluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t1\n"
)


class Threads:
    """What /proc says of a process's threads, and a clock."""

    def __init__(self, folder, monkeypatch, name="dds.ev.0"):
        self.now = 0.0
        self._status = folder / "17" / "status"
        self._status.parent.mkdir()
        (folder / "17" / "comm").write_text(f"{name}\n")
        monkeypatch.setattr(middleware_health.time, "monotonic", lambda: self.now)
        self.tell("S", 0)
        self.watched = EventThread(folder)

    def tell(self, state, switches):
        self._status.write_text(STATUS.format(state, switches))

    def later(self, seconds=1.01):
        self.now += seconds
        return self.watched.stands_still()


@pytest.fixture
def threads(tmp_path, monkeypatch):
    return Threads(tmp_path, monkeypatch)


def test_a_thread_that_takes_no_step_stands_still(threads):
    seen = [threads.later() for _ in range(LOOKS + 1)]
    assert seen == [False] * LOOKS + [True]


def test_one_that_takes_a_step_now_and_then_does_not(threads):
    for number in range(5 * LOOKS):
        threads.tell("S", number // (LOOKS - 1))
        assert not threads.later()


def test_one_that_gets_no_processor_does_not(threads):
    threads.tell("R", 0)
    assert not any(threads.later() for _ in range(5 * LOOKS))


def test_a_process_that_was_stopped_for_long_has_not_looked(threads):
    assert not any(threads.later(0.1) for _ in range(10 * (LOOKS - 2)))
    assert not threads.later(1000.0), "the thread was stopped, too"


def test_of_another_middleware_nothing_is_known(tmp_path, monkeypatch):
    threads = Threads(tmp_path, monkeypatch, "recvMC")
    assert not any(threads.later() for _ in range(5 * LOOKS))


def test_who_announces_itself_as_somebody_else_wishes_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTDDS_DEFAULT_PROFILES_FILE", "/theirs.xml")
    threads = Threads(tmp_path, monkeypatch)
    assert not any(threads.later() for _ in range(5 * LOOKS))


def stop_thread(process):
    """Stop Fast DDS's thread of timed events alone, as a debugger would; returns its number."""
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    (found,) = [
        int(path.parent.name)
        for path in Path(f"/proc/{process.pid}/task").glob("*/comm")
        if path.read_text().startswith(THREAD)
    ]
    for request in (SEIZE, INTERRUPT):
        if trace(request, found, None, None):
            pytest.skip(f"no thread may be stopped here: {os.strerror(ctypes.get_errno())}")
    return found


def ended(process, thread):
    """A process ends only when who stopped its thread has taken note of the thread's end."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(thread, os.WNOHANG | ANY_THREAD)
    return process.poll() is not None


@pytest.mark.ros
@pytest.mark.parametrize("name", ["watchdog", "controller"])
def test_a_node_whose_middleware_stands_still_ends_in_one_line(name, ros_domain, tmp_path):
    with Harness(tmp_path) as harness:
        process = harness.start(name)
        harness.spin_until(lambda: name in harness.node.get_node_names())
        thread = stop_thread(process)
        began = time.monotonic()
        harness.spin_until(lambda: ended(process, thread))
        assert process.returncode == 1
        assert time.monotonic() - began > LOOKS - 2
        (line,) = harness.log(name).splitlines()[-1:]
        assert line.startswith(f"{name}: Fast DDS stands still")
        assert "Traceback" not in harness.log(name)
