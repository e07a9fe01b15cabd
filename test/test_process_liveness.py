import signal
import subprocess
import sys

import pytest

from hucrl_ros.nodes.process_liveness import ProcessLiveness, ProcessWatcher, liveness_name

HOLD = """
import sys, time
from hucrl_ros.nodes.process_liveness import ProcessLiveness
lifeline = ProcessLiveness(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def name(tmp_path):
    return f"test{tmp_path}"


@pytest.fixture
def holder(name):
    process = subprocess.Popen([sys.executable, "-c", HOLD, name], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_killed_process_is_noticed_as_soon_as_it_is_gone(name, holder):
    watcher = ProcessWatcher(name)
    assert watcher.connect()
    assert not watcher.ended()
    holder.kill()
    holder.wait()
    assert watcher.ended()
    assert not watcher.ended(), "it is told once"
    assert not watcher.connect()


def test_a_killed_process_is_noticed_before_it_is_gone(name, holder):
    watcher = ProcessWatcher(name)
    assert watcher.connect()
    holder.send_signal(signal.SIGSTOP)
    assert not watcher.ended(), "it may go on"
    holder.kill()
    assert watcher.ended()


def test_a_new_process_is_watched_after_connecting_again(name, holder):
    watcher = ProcessWatcher(name)
    assert watcher.connect()
    holder.kill()
    holder.wait()
    assert watcher.ended()
    lifeline = ProcessLiveness(name)
    assert watcher.connect()
    assert not watcher.ended()
    lifeline.close()
    assert watcher.ended()


def test_without_a_lifeline_there_is_nothing_to_end(name):
    watcher = ProcessWatcher(name)
    assert not watcher.connect()
    assert not watcher.ended()


def test_connecting_again_and_again_does_no_harm(name, holder):
    watcher = ProcessWatcher(name)
    assert all(watcher.connect() for _ in range(2000))
    assert sum(ProcessWatcher(name).connect() for _ in range(100)) == 100


def test_a_name_in_use_is_left_alone(name, holder, caplog):
    ProcessLiveness(name).close()
    assert "is another controller running?" in caplog.text
    watcher = ProcessWatcher(name)
    assert watcher.connect()
    assert not watcher.ended()


def test_names_tell_domains_and_namespaces_apart():
    assert (
        len({liveness_name(d, t) for d in (1, 11) for t in ("/controller", "/1/controller")}) == 4
    )
