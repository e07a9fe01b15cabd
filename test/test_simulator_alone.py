"""How the simulator answers commands and resets, without ROS."""

import math
import os

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="the simulator is a node of ROS 2")

from lone_node import alone
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from hucrl_ros.errors import ConfigError
from hucrl_ros.nodes import simulator as module


@pytest.fixture
def node():
    with alone(module.Simulator, task="pendulum", mode="lockstep") as node:
        yield node


def states(node):
    found = node.sent["joint_states"]
    return [(m.header.stamp.sec, m.header.stamp.nanosec, *m.position, *m.velocity) for m in found]


def command(node, *efforts):
    node.heard["controller/commands"](Float64MultiArray(data=list(efforts)))


def reset(node):
    return node.answered["simulator/reset"](Trigger.Request(), Trigger.Response())


@pytest.mark.parametrize(
    ("efforts", "reason"),
    [
        ((1.0, 1.0), "2 efforts; expected 1 (pendulum_joint)"),
        ((), "0 efforts; expected 1 (pendulum_joint)"),
        ((math.nan,), "efforts [nan]; expected finite numbers"),
    ],
)
def test_a_command_that_makes_no_sense_is_none(node, efforts, reason):
    command(node, 0.0)
    idle = states(node)[-1]
    reset(node)
    command(node, *efforts)
    refused = states(node)[-1]
    assert refused[2:] == pytest.approx(idle[2:], abs=1e-12)
    assert node.lines[-1] == f"command refused, no effort applied instead: {reason}"
    health = node._health()
    assert (health.level, health.message) == (module.Level.WARN, "1 commands refused")


def test_a_joint_state_that_nobody_has_answered_is_repeated_as_it_was(node):
    command(node, 0.5)
    node.ring(module.REPEAT_PERIOD)
    node.ring(module.REPEAT_PERIOD)
    *_, first, second, third = states(node)
    assert first == second == third
    values = node._health().values
    assert (values["published"], values["repeated"]) == (2, 2)


def test_resets_are_numbered_by_themselves_or_by_the_episodes_of_the_run(node, run_folder):
    assert [reset(node).message for _ in range(2)] == [
        f"at the start of episode {k}" for k in range(2)
    ]
    for episode in range(3):
        folder = run_folder.bag(episode)
        folder.mkdir()
        (folder / "metadata.yaml").touch()
    with alone(module.Simulator, run=str(run_folder.root)) as of_run:
        assert [reset(of_run).message for _ in range(2)] == ["at the start of episode 3"] * 2


@pytest.mark.parametrize(
    ("task", "topic", "counts"), [("pusher", "object_pose", (5, 6)), ("reacher", "goal", (1, 2))]
)
def test_an_object_comes_with_each_joint_state_and_a_goal_with_the_first(task, topic, counts):
    with alone(module.Simulator, task=task, mode="lockstep") as node:
        for _ in range(3):
            command(node, *np.zeros(7))
        node.ring(module.REPEAT_PERIOD)
        assert len(node.sent["joint_states"]) == 5
        assert len(node.sent[topic]) == counts[0]
        reset(node)
        assert len(node.sent[topic]) == counts[1]
        place, state = node.sent[topic][-1], node.sent["joint_states"][-1]
        assert place.header.stamp == state.header.stamp


@pytest.mark.parametrize(
    ("mode", "delay", "reason"),
    [
        ("real_time", -0.1, "greater than or equal to 0"),
        ("real_time", 1.5, "less than or equal to 1"),
        ("lockstep", 0.1, "in real time only"),
    ],
)
def test_a_dead_time_that_makes_no_sense_is_refused(mode, delay, reason):
    with (
        pytest.raises(ConfigError, match=reason),
        alone(module.Simulator, mode=mode, simulator__dead_time=delay),
    ):
        pass


def test_a_physics_thread_that_has_ended_ends_the_node(node):
    assert node._health() and node.exit_code is None
    node._pacing.failure = RuntimeError("unstable")
    assert node._health() and node.exit_code == 1


# The goal that a person wishes for.


@pytest.fixture
def reacher():
    with alone(module.Simulator, task="reacher", mode="lockstep") as node:
        yield node


def goal(node):
    place = node.sent["goal"][-1].pose.position
    return [place.x, place.y, place.z]


def test_a_goal_that_is_wished_for_holds_from_the_next_reset_on(reacher):
    reset(reacher)
    drawn, start = goal(reacher), states(reacher)[-1][2:]
    assert reacher.asked_to_set("next.goal", [0.1, 0.25, -0.05]) == ""
    command(reacher, *np.zeros(7))
    assert goal(reacher) == drawn, "not in the episode under way"
    reset(reacher)
    assert goal(reacher) == pytest.approx([0.1, 0.25, -0.05])
    reset(reacher)
    assert goal(reacher) == pytest.approx([0.1, 0.25, -0.05]), "until it is changed"
    assert reacher.asked_to_set("next.goal", []) == ""
    reset(reacher)
    with alone(module.Simulator, task="reacher", mode="lockstep") as other:
        for _ in range(4):
            reset(other)
        assert goal(reacher) == goal(other), "the draws go on as if nobody had wished"
        assert states(reacher)[-1][2:] == states(other)[-1][2:] and len(start) == 14


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ([0.1, 0.25], "accepted: three numbers"),
        ([0.1, 0.25, math.nan], "the task's goals are within x -0.2 to 0.2, y 0.05 to 0.45"),
        ([0.1, 0.25, 9.0], "z -0.2 to 0.2 [m]"),
        ("[0.1, 0, 0.1]", "accepted: three numbers"),
        ([True, True, False], "accepted: three numbers"),
    ],
)
def test_a_goal_that_the_task_never_has_is_refused(reacher, wish, reason):
    refused = reacher.asked_to_set("next.goal", wish)
    assert refused.startswith("next.goal = ") and reason in refused and "\n" not in refused
    reset(reacher)
    assert reacher._plant.wanted_goal is None


def test_a_robot_without_a_goal_gets_none(node):
    assert node.asked_to_set("next.goal", [0.0, 0.0, 0.0]) == (
        "next.goal: the robot 'pendulum' has no goal"
    )
    assert node.asked_to_set("next.goal", []) == ""


@pytest.mark.parametrize(("mode", "given"), [("real_time", {52}), ("lockstep", set())])
def test_in_real_time_it_goes_before_a_loop_that_has_a_priority(mode, given, monkeypatch):
    calls = []
    monkeypatch.setattr(
        os, "sched_setscheduler", lambda *call: calls.append(call[2].sched_priority)
    )
    with alone(module.Simulator, task="pendulum", mode=mode, **{"control.realtime_priority": 50}):
        assert set(calls) == given
