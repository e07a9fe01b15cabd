"""What the benchmarks' nodes measure of an episode, without ROS."""

import json
import math
import os
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="they are nodes of ROS 2")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from lifecycle_msgs.msg import Transition
from lone_node import alone
from manifest_factory import write_manifest
from ros_harness import tick_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray

from hucrl_ros.benchmarks.nodes import episode_logger, loop_source
from hucrl_ros.nodes import realtime

PERIOD_NS = 12_500_000


@pytest.fixture
def bundle(tmp_path):
    return str(write_manifest(tmp_path / "bundle_001", 1))


def look(node):
    node.ring(episode_logger.POLL_S)


def state(k, position=0.0, effort=0.0):
    names, values = ["other", "pendulum_joint"], [9.0, position]
    message = JointState(name=names, position=values, velocity=[0.0, 2 * position])
    message.effort = [0.0, effort]
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(k * PERIOD_NS, 10**9)
    return message


def answer(node, **values):
    """The newest request gets its answer; returns its name and itself."""
    name, request, future = node.asked[-1]
    future.set_result(SimpleNamespace(**values))
    look(node)
    return name, request


def begin(node):
    """From the configuration of the controller to the first message that it is active."""
    look(node)
    name, request = answer(node, success=True)
    assert (name, request.transition.id) == (
        "controller/change_state",
        Transition.TRANSITION_CONFIGURE,
    )


def end(node, **diagnostics):
    node.heard["controller/active"](Bool(data=False))
    look(node)
    assert node.exit_code is None, "the counters of the whole episode are still to come"
    for name in ("watchdog", "controller"):
        values = [KeyValue(key=key, value=str(value)) for key, value in diagnostics.items()]
        status = DiagnosticStatus(name=f"/{name}", values=values)
        node.heard["/diagnostics"](DiagnosticArray(status=[status]))
        look(node)
        assert node.exit_code == (None if name == "watchdog" else 0)


def test_a_logged_effort_is_that_of_the_transition_that_it_caused(bundle, tmp_path):
    out = tmp_path / "out.json"
    with alone(episode_logger.EpisodeLogger, bundle=bundle, out=str(out)) as node:
        look(node)
        assert node.asked == [], "nobody publishes joint states yet"
        node.heard["joint_states"](state(1))
        begin(node)
        assert answer(node, success=True)[0] == "simulator/reset"
        assert answer(node, success=True)[1].transition.id == Transition.TRANSITION_ACTIVATE
        node.heard["controller/active"](Bool(data=True))
        look(node)
        for k in range(3, 6):  # a state from before the episode, and one after its last tick
            node.heard["joint_states"](state(k, 0.1 * k, 10.0 * k))
            if k in (4, 5):
                node.heard["controller/ticks"](tick_message(state(k), k - 4, (0.5,)))
        node.heard["joint_states"](state(6, 0.6, 60.0))
        end(node, compensated=2)
    found = json.loads(out.read_text())
    np.testing.assert_allclose(found["states"], [[0.4, 0.8], [0.5, 1.0]])
    assert found["actions"] == [[50.0], [60.0]]
    assert found["tick_ms"] == [1.0, 1.0]
    assert found["diagnostics"] == {"compensated": "2"}


def test_a_controller_that_refuses_ends_the_trial(bundle):
    with alone(episode_logger.EpisodeLogger, bundle=bundle) as node:
        node.heard["joint_states"](state(1))
        look(node)
        answer(node, success=False)
        assert node.exit_code == 1
        assert node.lines == ["the controller refused to start"]


def test_commands_are_matched_with_the_joint_states_that_they_answer(
    bundle, tmp_path, monkeypatch
):
    now = SimpleNamespace(monotonic=lambda: now.t, t=0.0)
    monkeypatch.setattr(loop_source, "time", now)
    monkeypatch.setattr(realtime, "pause_garbage_collection", lambda: None)
    out, own = tmp_path / "out.json", {"pid": os.getpid(), "out": None}
    own["out"] = str(out)
    with alone(loop_source.LoopSource, bundle=bundle, **own) as node:
        node._published = np.full(3, math.nan)
        node._answered, node._steps = node._published.copy(), 3
        begin(node)
        assert answer(node, success=True)[1].transition.id == Transition.TRANSITION_ACTIVATE
        node.heard["controller/active"](Bool(data=True))
        look(node)
        for k in range(4):  # one more, which ends the episode
            now.t = k / 80
            node.ring(1 / 80)
            now.t += 0.001 * (k + 1)
            if k == 1:  # of no joint state, and no answer to this one
                node.heard["controller/commands"](Float64MultiArray(data=[0.0]))
                continue
            node.heard["controller/commands"](Float64MultiArray(data=[0.1 * k]))
            if k < 3:
                tick = tick_message(state(k + 1), k, (0.1 * k,))
                node.heard["controller/ticks"](tick)
        end(node, overruns=0)
    found = json.loads(out.read_text())
    times = np.array(found["answered"], float) - np.array(found["published"], float)
    np.testing.assert_allclose(times, [0.001, math.nan, 0.003], atol=1e-12)
    assert found["unexpected_commands"] == 1
    stamps = [m.header.stamp for m in node.sent["joint_states"]]
    assert [s.sec * 10**9 + s.nanosec for s in stamps] == [k * PERIOD_NS for k in range(1, 5)]
    swing = [m.position[0] for m in node.sent["joint_states"]]
    expected = [loop_source.SWING * math.sin(2 * math.pi * k / 80) for k in range(4)]
    np.testing.assert_allclose(swing, expected)
