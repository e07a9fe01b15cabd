"""In what order the controller hears things, without DDS: a node that only takes callbacks."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("geometry_msgs", reason="what is heard are ROS 2's messages")

from lone_node import subscription
from sensor_msgs.msg import JointState

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.controller.pace import GAPS
from hucrl_ros.controller.state_reader import StateReader
from hucrl_ros.controller.timing import LOCKSTEP_PATIENCE
from hucrl_ros.errors import StateError
from hucrl_ros.nodes import controller_topics as module
from hucrl_ros.nodes.controller_topics import (
    ControllerInputs,
    ControllerOutputs,
    pose_message,
    to_pose,
)

PERIOD_NS = 10_000_000
SPEC = RobotSpec(
    "table", ("hinge",), ("hinge",), (1.0,), 0.01, observed=("puck_x",), context=("hole_x",)
)
STEPS = 3


class FakeNode:
    """Keeps callbacks by topic; its only timer rings when a test says so."""

    def __init__(self):
        self.callbacks, self.subscriptions = {}, {}
        self.ring = None

    def create_subscription(self, kind, topic, callback, qos):
        self.callbacks[topic] = callback
        self.subscriptions[topic] = subscription(topic, kind)
        return self.subscriptions[topic]

    def create_timer(self, period, callback, clock):
        self.ring = callback
        return SimpleNamespace(reset=lambda: None, cancel=lambda: None)


class Ear:
    """ControllerInputs in an episode, and the states and silences that come out of them."""

    def __init__(self, lockstep):
        self.node, self.states, self.silences = FakeNode(), [], []
        self.problems = []
        self.inputs = ControllerInputs(self.node, lockstep, self._hear, self.silences.append)
        pose_periods = 0.0 if lockstep else 3.0
        self.reader = StateReader(SPEC, self.inputs.poses, pose_periods)
        self.inputs.set_period(SPEC.period, 3.0)
        self.inputs.begin(self.reader)

    def _hear(self, heard):
        if self.reader.joints.is_repetition(heard.reading.stamp_ns):
            return False
        try:
            self.states.append(self.reader.read(heard.reading).tolist())
        except StateError as error:
            self.problems.append(str(error))
        return True

    def say(self, topic, k, value=None):
        stamp_ns = (k + 1) * PERIOD_NS
        if topic == "joint_states":
            message = JointState(name=["hinge"], position=[float(k)], velocity=[-float(k)])
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
        else:
            value = {"goal": 100.0, "object_pose": 10.0 * k}[topic] if value is None else value
            message = pose_message([value, 0.0, 0.0], stamp_ns)
        self.node.callbacks[topic](message)


EXPECTED = [[float(k), -float(k), 10.0 * k, 100.0] for k in range(STEPS)]


def moments():
    """For each step, a permutation of what the simulator publishes, some of it repeatedly."""
    first = st.permutations(["goal", "object_pose", "joint_states", "joint_states"])
    other = st.permutations(["object_pose", "joint_states", "object_pose", "joint_states"])
    return st.tuples(first, *[other] * (STEPS - 1))


@given(moments())
def test_in_lockstep_any_order_of_arrival_gives_the_same_states(order):
    ear = Ear(lockstep=True)
    for k, topics in enumerate(order):
        for topic in topics:
            ear.say(topic, k)
        assert len(ear.states) == k + 1, "one state for each joint state, before the next comes"
    assert ear.states == EXPECTED
    assert ear.problems == []


def test_in_lockstep_the_goal_of_the_last_episode_is_not_taken_for_this_ones():
    ear = Ear(lockstep=True)
    ear.say("goal", -1, value=5.0)
    ear.say("object_pose", 0)
    ear.say("joint_states", 0)
    assert ear.states == []
    ear.say("goal", 0)
    assert ear.states == EXPECTED[:1]


def test_in_real_time_nothing_waits_and_the_newest_pose_counts():
    ear = Ear(lockstep=False)
    ear.say("goal", 0)
    ear.say("object_pose", 0)
    ear.say("joint_states", 0)
    ear.say("joint_states", 1)  # its pose comes later
    ear.say("object_pose", 1)
    ear.say("joint_states", 2)
    assert [state[2] for state in ear.states] == [0.0, 0.0, 10.0]
    ear.say("joint_states", 5)
    assert ear.problems[0].startswith("object_pose: the newest is 40.0 ms older")


# A driver that publishes five times in a control period.


def fast_state(k):
    """Joint state k of a driver at 500 Hz."""
    message = JointState(name=["hinge"], position=[float(k)], velocity=[0.0])
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(10**9 + 2_000_000 * k, 10**9)
    return message


def quiet_ear():
    ear = Ear(lockstep=False)
    ear.say("goal", -1)
    for k in range(2 * GAPS):
        ear.node.callbacks["object_pose"](pose_message([0.0] * 3, 10**9 + k * 10_000_000))
    return ear


def test_of_a_fast_driver_one_joint_state_a_period_is_answered():
    ear = quiet_ear()
    for k in range(51):
        ear.node.callbacks["joint_states"](fast_state(k))
    assert [state[0] for state in ear.states] == [float(k) for k in range(0, 51, 5)]
    assert ear.inputs.wrong_rate() == ""


def test_after_a_long_tick_the_newest_joint_state_is_answered():
    ear = quiet_ear()
    for k in range(11):
        ear.node.callbacks["joint_states"](fast_state(k))
    backlog = ear.node.subscriptions["joint_states"].handle.messages
    backlog += [fast_state(k) for k in range(12, 29)]
    ear.node.callbacks["joint_states"](fast_state(11))
    assert [state[0] for state in ear.states] == [0.0, 5.0, 10.0, 28.0]
    for k in range(29, 40):
        ear.node.callbacks["joint_states"](fast_state(k))
    assert [state[0] for state in ear.states][4:] == [33.0, 38.0], "a period apart"


def test_joint_states_between_two_commands_are_no_silence(clock):
    ear = quiet_ear()
    for k in range(100):
        clock.now += 0.002
        ear.node.callbacks["joint_states"](fast_state(k))
        ear.node.ring()
    assert ear.silences == []


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def let_pass(clock, ear, seconds):
    """Time passes, and the timer rings every period."""
    for _ in range(round(seconds / SPEC.period)):
        clock.now += SPEC.period
        ear.node.ring()


def test_in_lockstep_a_pose_that_does_not_come_is_a_problem_after_a_while(clock):
    ear = Ear(lockstep=True)
    ear.say("goal", 0)
    for _ in range(10):  # repetitions are no sign of life of what is missing
        ear.say("joint_states", 0)
        let_pass(clock, ear, 0.9 * LOCKSTEP_PATIENCE / 10)
    assert ear.problems == ear.silences == []
    let_pass(clock, ear, 0.2 * LOCKSTEP_PATIENCE)
    assert ear.problems == ["object_pose: none up to the joint state of 0.010 s"]
    assert ear.silences == []
    ear.say("object_pose", 1)
    ear.say("joint_states", 1)
    assert ear.states == EXPECTED[1:2]


def test_silence_is_told_once_in_lockstep_and_every_period_in_real_time(clock):
    for lockstep, told in ((True, 0), (False, 3)):
        ear = Ear(lockstep)
        patience = LOCKSTEP_PATIENCE if lockstep else 3 * SPEC.period
        let_pass(clock, ear, patience + 2 * SPEC.period)
        first = len(ear.silences)
        assert first == 1 if lockstep else first > 0
        let_pass(clock, ear, 3 * SPEC.period)
        assert len(ear.silences) - first == told
        ear.inputs.end()
        ear.node.ring()
        ear.say("joint_states", 0)
        assert len(ear.silences) - first == told and ear.states == []


def test_in_lockstep_a_process_that_was_held_up_has_heard_no_silence(clock):
    for lockstep, told in ((True, 0), (False, 1)):
        ear = Ear(lockstep)
        let_pass(clock, ear, 2 * SPEC.period)
        clock.now += 2 * LOCKSTEP_PATIENCE
        ear.node.ring()
        assert len(ear.silences) == told


def test_what_comes_before_an_episode_is_kept_for_it():
    ear = Ear(lockstep=True)
    ear.inputs.end()
    ear.say("goal", 0)
    ear.say("object_pose", 0)
    ear.inputs.begin(ear.reader)
    ear.say("joint_states", 0)
    assert ear.states == EXPECTED[:1]


@given(st.tuples(*[st.floats(allow_nan=False)] * 3), st.integers(0, 2**31 * 10**9 - 1))
def test_a_place_comes_back_from_its_message_exactly(position, stamp_ns):
    place = to_pose(pose_message(position, stamp_ns))
    assert (place.stamp_ns, place.frame) == (stamp_ns, "world")
    np.testing.assert_array_equal(place.position, position)


@pytest.mark.parametrize("lockstep", [False, True])
@pytest.mark.parametrize("held_up", [False, True])
def test_the_end_is_published_after_what_it_ends_and_told_at_once(lockstep, held_up):
    done = []

    def publisher(kind, topic, qos):
        def wait(patience):
            done.append(f"wait for {topic.removeprefix('controller/')}")
            return not held_up

        publish = lambda message: done.append(f"{topic} {message.data}")  # noqa: E731
        return SimpleNamespace(publish=publish, wait_for_all_acked=wait)

    liveness = SimpleNamespace(tell=lambda *told: done.append("told"))
    outputs = ControllerOutputs(SimpleNamespace(create_publisher=publisher), liveness, lockstep)
    outputs.began()
    assert done == ["told", "controller/active True"]
    done.clear()
    outputs.ended()
    waits = ["wait for ticks", "wait for commands"][: 1 if held_up else 2]
    assert done == ["told", *(waits if lockstep else []), "controller/active False"]
