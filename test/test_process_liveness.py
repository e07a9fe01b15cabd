import os
import signal
import socket
import subprocess
import sys

import pytest
from waiting import wait_until

from hucrl_ros.errors import RunError
from hucrl_ros.nodes import process_liveness
from hucrl_ros.nodes.process_liveness import (
    MOST_WATCHERS,
    ProcessLiveness,
    ProcessWatcher,
    liveness_name,
)

HOLD = """
import sys, time
from hucrl_ros.nodes.process_liveness import ProcessLiveness
lifeline = ProcessLiveness(sys.argv[1])
print("held", flush=True)
time.sleep(3600)
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


def test_a_killed_process_is_noticed_before_its_sockets_are_gone(name, holder, monkeypatch):
    watcher = ProcessWatcher(name)
    monkeypatch.setattr(watcher, "_receive", lambda: False)
    assert watcher.connect()
    assert not watcher.stopped
    holder.send_signal(signal.SIGSTOP)
    wait_until(lambda: not watcher.ended() and watcher.stopped)  # it may go on
    holder.kill()
    wait_until(watcher.ended)  # it has the signal for a moment before it acts on it


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


def test_who_has_to_be_watched_refuses_a_name_in_use(name, holder):
    held = f"process {holder.pid} of the user with the number {os.getuid()} has the name"
    with pytest.raises(RunError, match=held):
        ProcessLiveness(name, alone=True)
    holder.kill()
    holder.wait()
    ProcessLiveness(name, alone=True).close()  # at once: nothing of a killed one is left


def test_a_name_that_is_bound_and_not_answered_for_is_refused_as_well(name):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as squatter:
        squatter.bind(b"\0" + name.encode())
        with pytest.raises(RunError, match="another process has the name"):
            ProcessLiveness(name, alone=True)


def test_names_tell_domains_and_namespaces_apart():
    assert (
        len({liveness_name(d, t) for d in (1, 11) for t in ("/controller", "/1/controller")}) == 4
    )


@pytest.fixture
def pair(name):
    told, watcher = ProcessLiveness(name), ProcessWatcher(name)
    yield told, watcher
    watcher.close()
    told.close()


def heard(watcher):
    assert not watcher.ended()
    return watcher.heard()


def test_what_is_told_is_heard_in_order_up_to_the_end(pair):
    told, watcher = pair
    assert watcher.connect()
    told.greet()
    for k in range(3):
        told.tell("topic", bytes([0, k]))
    assert not watcher.ended()
    told.tell("topic", b"last", lasting=True)
    told.close()
    assert watcher.ended()
    assert watcher.heard() == [("topic", bytes([0, k])) for k in range(3)] + [("topic", b"last")]


def test_who_watches_can_answer_and_misses_nothing_by_it(pair):
    told, watcher = pair
    watcher.tell("topic", b"nobody")
    assert watcher.connect()
    told.greet()
    assert told.heard() == []
    for k in range(3):
        watcher.tell("topic", bytes([0, k]))
    assert told.heard() == [("topic", bytes([0, k])) for k in range(3)]
    for _ in range(20_000):
        watcher.tell("topic", bytes(100))  # and isn't held up by who reads nothing
    told.tell("topic", b"last")
    told.close()
    assert watcher.ended()
    assert watcher.heard() == [("topic", b"last")]
    watcher.tell("topic", b"nobody")


def test_a_flood_of_answers_holds_nobody_up(name, pair, monkeypatch):
    told, watcher = pair
    assert watcher.connect()
    told.greet()
    monkeypatch.setattr(process_liveness, "MOST_HELD", 2)
    for k in range(3):
        watcher.tell("topic", bytes([k]))
    assert [len(told.heard()) for _ in range(3)] == [2, 1, 0]
    watcher.close()
    assert told.heard() == []


def test_who_comes_late_hears_the_last_of_what_lasts(pair):
    told, watcher = pair
    for word in (b"one", b"two"):
        told.tell("lasting", word, lasting=True)
        told.tell("passing", word)
    assert watcher.connect()
    assert heard(watcher) == []
    told.greet()
    assert heard(watcher) == [("lasting", b"two")]


def test_who_is_held_up_holds_nobody_up_and_misses_nothing_that_lasts(pair):
    told, watcher = pair
    assert watcher.connect()
    told.greet()
    for _ in range(20_000):
        told.tell("passing", bytes(100))
    for k in range(5):
        told.tell("lasting", bytes([k]), lasting=True)
    assert 0 < len(heard(watcher)) < 20_000
    told.greet()
    told.tell("passing", b"again")
    assert heard(watcher) == [("lasting", bytes([k])) for k in range(5)] + [("passing", b"again")]
    assert not watcher.ended()


def test_watchers_that_left_are_forgotten_and_too_many_are_not_told(name, pair):
    told, watcher = pair
    for _ in range(3):
        crowd = [ProcessWatcher(name) for _ in range(MOST_WATCHERS)]
        assert all(each.connect() for each in crowd)
        told.greet()
        for each in crowd:
            each.close()
        told.tell("topic", b"x")
    assert watcher.connect()
    told.greet()
    told.tell("topic", b"y")
    assert heard(watcher) == [("topic", b"y")]


def test_watchers_of_another_user_take_no_place(monkeypatch, name, pair):
    told, watcher = pair
    strangers = [ProcessWatcher(name) for _ in range(2 * MOST_WATCHERS)]
    assert all(each.connect() for each in strangers)
    monkeypatch.setattr(process_liveness, "_ROOT", -1)
    monkeypatch.setattr(process_liveness.os, "geteuid", lambda: os.getuid() + 1)
    told.greet()
    monkeypatch.undo()
    assert all(each.ended() for each in strangers)
    assert watcher.connect()
    told.greet()
    told.tell("topic", b"y")
    assert heard(watcher) == [("topic", b"y")]


def test_a_process_of_another_user_is_not_believed(monkeypatch, pair):
    _, watcher = pair
    monkeypatch.setattr(process_liveness, "_ROOT", -1)
    monkeypatch.setattr(process_liveness.os, "geteuid", lambda: os.getuid() + 1)
    assert not watcher.connect()
