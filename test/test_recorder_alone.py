"""What the recorder waits for and what becomes of an episode's bag, without ROS."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="the recorder is a node of ROS 2")

from lone_node import LoneNode, alone
from std_srvs.srv import SetBool

from hucrl_ros.bags import messages
from hucrl_ros.bags.contents import read_contents
from hucrl_ros.controller.ticks import TickRecord
from hucrl_ros.errors import BagError
from hucrl_ros.nodes import recorder as module

PERIOD_NS = 12_500_000
TYPES = {
    "joint_states": "sensor_msgs/msg/JointState",
    "controller/active": "std_msgs/msg/Bool",
    "controller/setup": "std_msgs/msg/String",
    "controller/ticks": "std_msgs/msg/Float64MultiArray",
    "goal": "geometry_msgs/msg/PoseStamped",
}


class Request:
    """A call of the service, as the executor runs it: a step at each look of the node."""

    def __init__(self, node, on):
        request, self.response = SetBool.Request(data=on), SetBool.Response()
        self._node, self._steps = node, node.answered["recorder/record"](request, self.response)
        self.done = False
        self.go_on()

    def go_on(self, looks=1):
        for _ in range(looks):
            self._node.ring(module.POLL_PERIOD)
            try:
                self._steps.send(None)
            except StopIteration:
                self.done = True
                return


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    clock.monotonic, clock.time_ns = lambda: clock.now, lambda: round(clock.now * 1e9)
    clock.monotonic_ns = clock.time_ns
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def node(run_folder, clock):
    with alone(module.Recorder, run=str(run_folder.root)) as node:
        yield node


def hear(node, topic, message):
    node.heard[topic](messages.serialize(message, TYPES[topic]))


def hear_state(node, k):
    hear(node, "joint_states", messages.joint_state((k + 1) * PERIOD_NS, ["hinge"], [0.1], [0.2]))


def hear_tick(node, k):
    stamp = divmod((k + 1) * PERIOD_NS, 10**9)
    record = TickRecord(*stamp, k, 1.0, 0, False, False, False, 1, 0.0, 0.0, 0.0, 0.0, 1.0, (0.5,))
    hear(node, "controller/ticks", messages.tick(record))


def opened(node):
    request = Request(node, True)
    hear_state(node, -1)
    request.go_on(2)
    assert request.done and request.response.success
    return request.response.message


def topics_in(folder):
    return [message.topic for message in read_contents(folder).messages]


def test_a_bag_is_opened_when_a_joint_state_was_heard_and_begins_with_the_newest_goal(node):
    for place in (1.0, 2.0):
        hear(node, "goal", messages.pose(0, [place, 0.0, 0.0], "world"))
    request = Request(node, True)
    request.go_on(5)
    assert not request.done
    hear_state(node, 0)
    request.go_on(2)
    assert request.response.success
    node._interrupt()
    (folder,) = node._run.episodes.iterdir()
    (goal,) = (m for m in read_contents(folder).messages if m.topic == "/goal")
    assert messages.deserialize(goal.data, goal.type).pose.position.x == 2.0


def test_it_does_not_wait_for_ever_and_says_who_is_missing(node, clock, monkeypatch):
    monkeypatch.setattr(LoneNode, "count_publishers", lambda self, name: name != "/joint_states")
    request = Request(node, True)
    clock.now += module.PUBLISHERS_TIMEOUT + 0.1
    request.go_on(2)
    assert request.response.success
    assert node.lines == ["nobody publishes joint_states yet"]


def test_an_episode_is_finished_when_the_state_after_the_last_tick_is_there(node, run_folder):
    folder = opened(node)
    hear(node, "controller/active", messages.boolean(True))
    hear_state(node, 0)
    hear_tick(node, 0)
    hear(node, "controller/active", messages.boolean(False))
    request = Request(node, False)
    request.go_on(5)
    assert not request.done
    hear_state(node, 1)
    request.go_on(2)
    assert (request.response.success, request.response.message) == (True, folder)
    assert run_folder.finished_episodes() == 1
    heard = ["active", "joint_states", "ticks", "active", "joint_states"]
    assert [topic.split("/")[-1] for topic in topics_in(run_folder.bag(0))] == heard


def test_a_controller_that_never_ended_leaves_an_interrupted_episode(node, clock, run_folder):
    opened(node)
    hear(node, "controller/active", messages.boolean(True))
    request = Request(node, False)
    clock.now += module.COMPLETION_TIMEOUT + 0.1
    request.go_on(2)
    assert not request.response.success
    assert "interrupted: the controller never said that it ended" in request.response.message
    assert run_folder.finished_episodes() == 0
    assert (run_folder.episodes / "episode_000_interrupted_1").is_dir()


def test_what_has_come_when_it_is_ended_is_in_the_bag(run_folder, clock):
    with alone(module.Recorder, run=str(run_folder.root)) as node:
        opened(node)
        for k in range(3):
            message = messages.joint_state((k + 1) * PERIOD_NS, ["hinge"], [0.1], [0.2])
            data = messages.serialize(message, TYPES["joint_states"])
            node._recorded["joint_states"].handle.messages.append(data)
    (folder,) = run_folder.episodes.iterdir()
    assert folder.name == "episode_000_interrupted_1"
    assert topics_in(folder) == ["/joint_states"] * 3


def test_the_bag_of_an_episode_that_was_stopped_does_not_grow_until_it_goes_on(node, clock):
    """It stays open until the next try, for which a person may come in the morning."""
    opened(node)
    hear_state(node, 0)
    clock.now += 2 * module.AFTERMATH  # a reset takes as long as it takes
    for active in (True, False):
        hear_state(node, 1)
        hear(node, "controller/active", messages.boolean(active))
    clock.now += module.AFTERMATH - 1.0
    hear_state(node, 2)
    clock.now += 2.0
    for k in range(3, 100):
        hear_state(node, k)
    assert node._recording.message_count == 6
    hear(node, "controller/active", messages.boolean(True))
    hear_state(node, 100)
    assert node._recording.message_count == 8


def test_one_request_at_a_time_and_no_end_without_a_beginning(node):
    first = Request(node, True)
    second = Request(node, True)
    assert second.done and not second.response.success
    assert second.response.message == "still busy with another request"
    hear_state(node, 0)
    first.go_on(2)
    node._interrupt()
    third = Request(node, False)
    assert (third.response.success, third.response.message) == (False, "no bag is open")


def test_a_new_episode_interrupts_one_that_was_not_closed(node, run_folder):
    opened(node)
    request = Request(node, True)
    assert node.lines[0] == "a new episode begins before the last one was closed"
    hear_state(node, 0)
    request.go_on(2)
    assert request.response.success
    names = {path.name for path in run_folder.episodes.iterdir()}
    assert names == {"episode_000", "episode_000_interrupted_1"}


@pytest.mark.parametrize("at", ["message", "flush"])
def test_a_disk_that_can_not_be_written_ends_the_recording_not_the_node(node, monkeypatch, at):
    folder = opened(node)

    def full(*unused):
        raise BagError(f"{folder}: No space left on device")

    monkeypatch.setattr(node._recording, "add" if at == "message" else "flush", full)
    if at == "message":
        hear_state(node, 0)
    else:
        node.ring(module.POLL_PERIOD)
    hear_state(node, 1)
    health = node._health()
    assert health.level is module.Level.ERROR
    assert health.message == f"{folder}: No space left on device"
    request = Request(node, False)
    assert (request.response.success, request.response.message) == (False, health.message)


@pytest.mark.parametrize(("mode", "given"), [("real_time", {1}), ("lockstep", set())])
def test_in_real_time_it_goes_before_ordinary_processes(mode, given, run_folder, monkeypatch):
    calls = []
    monkeypatch.setattr(
        os, "sched_setscheduler", lambda *call: calls.append(call[2].sched_priority)
    )
    settings = {"run": str(run_folder.root), "mode": mode, "control.realtime_priority": 50}
    with alone(module.Recorder, **settings):
        assert set(calls) == given


def test_a_bag_opened_and_closed_within_an_episode_does_not_count(node, clock, run_folder):
    """What is latched was heard once, before the bag was opened."""
    hear(node, "controller/setup", messages.string('{"step": 0, "bundle": "bundle_007"}'))
    hear(node, "controller/active", messages.boolean(True))
    opened(node)
    for k in range(3):
        hear_state(node, k)
        hear_tick(node, k)
    hear_state(node, 3)
    request = Request(node, False)  # the controller goes on playing
    clock.now += module.COMPLETION_TIMEOUT + 0.1
    request.go_on(2)
    assert run_folder.finished_episodes() == 0 and not request.response.success
    (folder,) = run_folder.episodes.iterdir()
    assert {"/controller/active", "/controller/setup"} <= set(topics_in(folder))


def test_a_bug_in_an_answer_does_not_end_the_process(node, monkeypatch):
    def broken(*_):
        raise ValueError("no such thing")

    monkeypatch.setattr(module, "Recording", broken)
    request = Request(node, True)
    hear_state(node, 0)
    request.go_on(2)
    assert request.done and request.response.message == "no such thing"


def test_who_sets_the_clock_moves_no_message(node, clock):
    folder = opened(node)
    hear_state(node, 0)
    clock.now += 1.0
    monotonic = clock.now
    clock.monotonic_ns = lambda: round(monotonic * 1e9)
    clock.time_ns = lambda: round(monotonic * 1e9) - 3600 * 10**9
    hear_state(node, 1)
    node._interrupt()
    (kept,) = node._run.episodes.iterdir()
    times = [m.received_ns for m in read_contents(kept).messages if m.topic == "/joint_states"]
    assert np.diff(times).tolist() == [10**9], folder
