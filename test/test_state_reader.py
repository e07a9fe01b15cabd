"""States put together from joint states, object poses and goals, alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hucrl_ros.config.robot import RobotSpec, sources
from hucrl_ros.config.schema import DriverSettings
from hucrl_ros.config.task_file import known_tasks
from hucrl_ros.controller.state_reader import (
    MOST_JOINTS,
    JointReading,
    JointStateReader,
    Pose,
    PoseBuffer,
    PoseHistory,
    StateReader,
    velocity_age,
)
from hucrl_ros.controller.velocity import VelocityEstimator
from hucrl_ros.errors import ConfigError, StateError
from hucrl_ros.robots import make_robot
from hucrl_ros.robots.mujoco_robot import RESET_PERIODS, Plant

PERIOD_NS = 10_000_000
SPEC = RobotSpec(
    name="table",
    joint_names=("hinge",),
    actuated_joints=("hinge",),
    effort_limits=(1.0,),
    period=0.01,
    observed=("puck_y", "belt_velocity", "puck_x"),
    context=("hole_z",),
)
"""The object's entries stand in another order than in a pose, with a joint's speed between."""


def place(stamp, x=1.0, y=2.0, z=3.0, frame="world"):
    return Pose(stamp, frame, (x, y, z))


def read(reader, stamp=PERIOD_NS):
    return reader.read(JointReading(["belt", "hinge"], [math.nan, 0.5], [7.0, -0.5], stamp))


@pytest.fixture
def around():
    return PoseBuffer()


@pytest.fixture
def reader(around):
    return StateReader(SPEC, around, pose_periods=2.0)


def test_every_entry_comes_from_where_its_name_says(reader, around):
    around.object.add(place(PERIOD_NS, x=10.0, y=20.0, z=30.0))
    around.goal.add(place(0, x=40.0, y=50.0, z=60.0))
    np.testing.assert_array_equal(read(reader), [0.5, -0.5, 20.0, 7.0, 10.0, 60.0])


MOVING = replace(SPEC, observed=("puck_y_velocity", "puck_x", "puck_x_velocity"), context=())
MOVING_NOWHERE = replace(MOVING, observed=("puck_x_velocity",))


def test_two_poses_tell_a_velocity(around):
    reader = StateReader(MOVING, around, pose_periods=2.0)
    around.object.add(place(PERIOD_NS, x=1.0, y=2.0))
    np.testing.assert_array_equal(read(reader), [0.5, -0.5, 0.0, 1.0, 0.0])
    around.object.add(place(3 * PERIOD_NS, x=1.5, y=1.0))
    moving = [0.5, -0.5, -50.0, 1.5, 25.0]
    np.testing.assert_allclose(read(reader, 3 * PERIOD_NS), moving)
    np.testing.assert_allclose(read(reader, 4 * PERIOD_NS), moving)  # No newer pose has come.
    around.object.add(place(3 * PERIOD_NS, x=1.5, y=1.0))  # Nor does a repetition tell one.
    np.testing.assert_allclose(read(reader, 5 * PERIOD_NS), moving)
    around.object.add(place(5 * PERIOD_NS, x=1.5, y=1.0))
    np.testing.assert_allclose(read(reader, 5 * PERIOD_NS), [0.5, -0.5, 0.0, 1.5, 0.0])


def test_a_pose_of_before_a_reset_tells_no_velocity(around):
    reader = StateReader(MOVING, around)
    around.object.add(place(PERIOD_NS, x=1.0))
    later = PERIOD_NS * (1 + RESET_PERIODS)
    around.object.add(place(later, x=5.0))
    np.testing.assert_array_equal(read(reader, later), [0.5, -0.5, 0.0, 5.0, 0.0])
    around.object.add(place(later + 8 * PERIOD_NS, x=5.8))
    assert read(reader, later + 8 * PERIOD_NS)[-1] == pytest.approx(10.0)
    around.object.add(place(later + 17 * PERIOD_NS, x=6.0))
    assert read(reader, later + 17 * PERIOD_NS)[-1] == 0.0


def test_a_fast_cameras_poses_of_a_period_ago_tell_the_velocity(around):
    reader = StateReader(MOVING, around, pose_periods=2.0)
    for quarter, x in enumerate((1.0, 1.2, 0.8, 1.1, 1.5)):
        around.object.add(place(PERIOD_NS + quarter * PERIOD_NS // 4, x=x))
    assert read(reader, 2 * PERIOD_NS)[-1] == pytest.approx(50.0)


@pytest.mark.parametrize("bad", [{"x": math.nan}, {"frame": "camera"}])
def test_a_bad_pose_is_not_held_against_the_next_one(around, bad):
    reader = StateReader(MOVING, around)
    around.object.add(place(PERIOD_NS, **bad))
    with pytest.raises(StateError):
        read(reader)
    around.object.add(place(2 * PERIOD_NS, x=1.0))
    np.testing.assert_array_equal(read(reader, 2 * PERIOD_NS), [0.5, -0.5, 0.0, 1.0, 0.0])


def test_a_robot_that_steps_says_what_its_poses_tell(around):
    plant = Plant(make_robot("pusher"), seed=0)
    reader = StateReader(make_robot("pusher").spec, around)
    robot, states, told = plant.robot, [], []
    start = robot.state
    start[17:] = 0.2, 0.1
    for step in (plant.period, lambda: states.append(robot.step(np.zeros(7)))):
        robot.set_state(start)
        for _ in range(4):
            step()
            if step == plant.period:
                sample = plant.sample()
                around.object.add(Pose(sample.stamp_ns, "world", sample.object.tolist()))
                joints = (sample.positions.tolist(), sample.velocities.tolist())
                told.append(reader.read(JointReading(plant.joints, *joints, sample.stamp_ns)))
    np.testing.assert_allclose(states[1:], told[1:], atol=1e-9)
    assert np.abs(told[1][17:]).min() > 0.01


def test_a_velocity_whose_place_is_not_in_the_state_is_a_joints():
    assert sources(MOVING).further == ()
    assert sources(MOVING_NOWHERE).further == ("puck_x",)


@pytest.mark.parametrize("task", known_tasks())
def test_every_robots_entries_have_a_source(task):
    spec = make_robot(task).spec
    told = sources(spec)
    assert len(told.order) == len(set(told.order)) == spec.state_dim


def test_the_papers_robots_need_what_the_contract_says():
    assert sources(make_robot("reacher").spec)[:3] == ((), "", "goal")
    assert sources(make_robot("pusher").spec)[:3] == ((), "object", "")
    assert sources(make_robot("half_cheetah").spec)[:3] == (("rootx",), "", "")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"observed": ("puck_x", "ball_x")}, "observed entry 'ball_x' has no topic"),
        ({"observed": ("puck_w",)}, "observed entry 'puck_w' has no topic"),
        ({"context": ("belt_velocity",)}, "context entry 'belt_velocity' has no topic"),
    ],
)
def test_an_entry_that_nobody_tells_is_named(changes, named):
    with pytest.raises(ConfigError, match=named):
        StateReader(RobotSpec("table", ("hinge",), ("hinge",), (1.0,), 0.01, **changes))


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(-1, 1)), max_size=30), st.integers(0, 20))
def test_the_newest_place_that_is_not_newer_holds(heard, moment):
    places = PoseHistory(kept=None)
    for stamp, x in heard:
        places.add(place(stamp, x=x))
    kept = {}  # what came after it with a smaller stamp shows that the clock has started again
    for index, (stamp, x) in enumerate(heard):
        if all(later > stamp for later, _ in heard[index + 1 :]):
            kept[stamp] = x
    holding = [stamp for stamp in kept if stamp <= moment]
    found = places.at(moment)
    if not holding:
        assert found is None
    else:
        assert (found.stamp_ns, found.position[0]) == (max(holding), kept[max(holding)])


def test_only_so_many_places_are_kept():
    places = PoseHistory(kept=3)
    for stamp in range(10):
        places.add(place(stamp))
    assert places.at(6) is None
    assert places.at(7).stamp_ns == 7
    assert places.newest_ns == 9


def test_a_goal_holds_from_its_stamp_on_whenever_it_comes(reader, around):
    around.object.add(place(3 * PERIOD_NS))
    around.goal.add(place(0, z=1.0))
    around.goal.add(place(3 * PERIOD_NS, z=2.0))
    around.object.add(place(2 * PERIOD_NS))
    assert read(reader, 2 * PERIOD_NS)[-1] == 1.0
    around.object.add(place(3 * PERIOD_NS))
    assert read(reader, 3 * PERIOD_NS)[-1] == 2.0
    assert read(reader, 4 * PERIOD_NS)[-1] == 2.0


@pytest.mark.parametrize(
    ("object_", "goal", "reason"),
    [
        (None, place(0), "object_pose: none up to the joint state of 0.050 s"),
        (place(6 * PERIOD_NS), place(0), "object_pose: none up to"),
        (
            place(2 * PERIOD_NS),
            place(0),
            "object_pose: the newest is 30.0 ms older than the joint state of 0.050 s; at most "
            "20.0 ms",
        ),
        (place(5 * PERIOD_NS, y=math.nan), place(0), "object_pose: y is nan; expected a finite"),
        (place(5 * PERIOD_NS, frame="camera"), place(0), "object_pose: frame 'camera'; expected"),
        (place(5 * PERIOD_NS), None, "goal: none holds yet at the joint state's 0.050 s"),
        (place(5 * PERIOD_NS), place(6 * PERIOD_NS), "goal: none holds yet"),
        (place(5 * PERIOD_NS), place(0, x=math.inf), "goal: x is inf; expected a finite number"),
        (place(5 * PERIOD_NS), place(0, frame="map"), "goal: frame 'map'; expected 'world'"),
    ],
)
def test_what_makes_no_sense_is_named_in_one_line(reader, around, object_, goal, reason):
    for places, found in ((around.object, object_), (around.goal, goal)):
        if found is not None:
            places.add(found)
    with pytest.raises(StateError) as caught:
        read(reader, 5 * PERIOD_NS)
    assert str(caught.value).startswith(reason)
    assert "\n" not in str(caught.value)


def test_a_frame_may_be_left_out(reader, around):
    around.object.add(place(PERIOD_NS, frame=""))
    around.goal.add(place(0, frame=""))
    assert read(reader).shape == (SPEC.state_dim,)


def test_a_pose_may_be_as_old_as_allowed(reader, around):
    around.object.add(place(2 * PERIOD_NS))
    around.goal.add(place(0))
    assert read(reader, 4 * PERIOD_NS)[2] == 2.0


def test_a_missing_further_joint_is_named(reader):
    with pytest.raises(StateError, match="no joint 'belt' among"):
        reader.read(JointReading(["hinge"], [0.0], [0.0], 0))


def test_the_age_that_is_allowed_only_ever_shrinks(reader, around):
    around.object.add(place(2 * PERIOD_NS))
    around.goal.add(place(0))
    for periods in (1.0, 5.0):
        reader.limit_age(periods)
        with pytest.raises(StateError, match=r"at most 10\.0 ms"):
            read(reader, 4 * PERIOD_NS)


def test_where_all_is_told_at_once_the_pose_and_the_first_goal_are_waited_for(reader, around):
    assert reader.lacks(PERIOD_NS) and reader.needs_goal
    around.object.add(place(PERIOD_NS))
    around.goal.add(place(0))
    assert not reader.needs_goal
    assert reader.lacks(PERIOD_NS), "the goal is that of another episode"
    around.goal.add(place(PERIOD_NS))
    assert not reader.lacks(PERIOD_NS)
    read(reader)
    assert not reader.lacks(PERIOD_NS), "a repetition needs nothing"
    assert reader.lacks(2 * PERIOD_NS)
    around.object.add(place(2 * PERIOD_NS))
    assert not reader.lacks(2 * PERIOD_NS), "the goal stays"
    reader.reset()
    assert reader.lacks(2 * PERIOD_NS), "another episode has a goal of its own"


def test_joints_alone_need_nothing():
    reader = StateReader(RobotSpec("arm", ("hinge",), ("hinge",), (1.0,), 0.01))
    assert not reader.lacks(0) and not reader.needs_goal
    np.testing.assert_array_equal(
        reader.read(JointReading(["hinge"], [1.0], [2.0], 0)), [1.0, 2.0]
    )


NAMES = ["shoulder", "elbow", "wrist"]


@pytest.fixture
def joints():
    return JointStateReader(NAMES)


def test_positions_come_first_then_velocities(joints):
    state = joints.read(JointReading(NAMES, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], 0))
    np.testing.assert_array_equal(state, [1, 2, 3, 4, 5, 6])
    assert state.dtype == np.float64


@given(st.permutations([*NAMES, "gripper", "head"]))
def test_joints_are_found_by_name_in_any_order_among_others(names):
    value = {name: float(i) for i, name in enumerate(NAMES)} | {"gripper": math.nan, "head": 9.0}
    positions = [value[name] for name in names]
    velocities = [10 + value[name] for name in names]
    joints = JointStateReader(NAMES)
    state = joints.read(JointReading(names, positions, velocities, 0))
    np.testing.assert_array_equal(state, [0, 1, 2, 10, 11, 12])
    assert sorted(joints.extra_joints) == ["gripper", "head"]


def test_the_order_may_change_from_one_message_to_the_next(joints):
    joints.read(JointReading(NAMES, [1.0, 2.0, 3.0], [0.0] * 3, 0))
    state = joints.read(JointReading(NAMES[::-1], [3.0, 2.0, 1.0], [0.0] * 3, 1))
    np.testing.assert_array_equal(state[:3], [1, 2, 3])


def test_a_missing_joint_is_named(joints):
    with pytest.raises(StateError, match=r"no joint 'elbow' among \['shoulder', 'wrist'\]"):
        joints.read(JointReading(["shoulder", "wrist"], [0.0] * 2, [0.0] * 2, 0))


def test_a_renamed_joint_is_named_every_time(joints):
    for stamp in range(2):
        with pytest.raises(StateError, match=r"no joint 'elbow' among .*'ellbow'"):
            joints.read(JointReading(["shoulder", "ellbow", "wrist"], [0.0] * 3, [0.0] * 3, stamp))


def test_a_message_of_too_many_joints_is_refused(joints):
    names = [*NAMES, *(f"joint_{k}" for k in range(MOST_JOINTS - 2))]
    zeros = [0.0] * len(names)
    with pytest.raises(StateError, match="1001 joints; at most 1000 are read"):
        joints.read(JointReading(names, zeros, zeros, 0))
    joints.read(JointReading(names[:-1], zeros[:-1], zeros[:-1], 1))


def test_derived_velocities_are_those_of_the_stamp_and_of_this_episode():
    joints = JointStateReader(("a",), ("b",), VelocityEstimator(0.01))
    for k in range(3):
        found = joints.read(JointReading(("a", "b"), [0.01 * k, 0.02 * k], (), k * PERIOD_NS))
    np.testing.assert_allclose(found, [0.02, 1.0, 2.0])
    joints.reset()
    found = joints.read(JointReading(("a", "b"), [1.0, 1.0], (), 3 * PERIOD_NS))
    np.testing.assert_array_equal(found, [1.0, 0.0, 0.0])


@pytest.mark.parametrize(("window", "age"), [(0.0, 0.01), (0.1, 0.05)])
def test_a_slope_is_half_a_window_old(window, age):
    derived = DriverSettings(velocity="derived", velocity_window=window)
    assert velocity_age(derived, 0.02) == pytest.approx(age)
    assert velocity_age(DriverSettings(), 0.02) == velocity_age(None, 0.02) == 0.0


def test_a_joint_that_appears_twice_is_named(joints):
    with pytest.raises(StateError, match="'elbow' appears 2 times"):
        joints.read(JointReading([*NAMES, "elbow"], [0.0] * 4, [0.0] * 4, 0))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_named_with_its_joint(joints, bad):
    with pytest.raises(StateError, match=f"velocity of joint 'elbow' is {bad}"):
        joints.read(JointReading(NAMES, [0.0] * 3, [0.0, bad, 0.0], 0))
    with pytest.raises(StateError, match=f"position of joint 'wrist' is {bad}"):
        joints.read(JointReading(NAMES, [0.0, 0.0, bad], [0.0] * 3, 1))


@pytest.mark.parametrize(
    ("positions", "velocities", "reason"),
    [
        ([0.0] * 2, [0.0] * 3, "2 positions for 3 joints"),
        ([0.0] * 3, [], "0 velocities for 3 joints"),
        ([0.0] * 3, [0.0] * 4, "4 velocities for 3 joints"),
    ],
)
def test_wrong_sizes_are_named(joints, positions, velocities, reason):
    with pytest.raises(StateError, match=reason):
        joints.read(JointReading(NAMES, positions, velocities, 0))


def test_an_empty_message_is_refused(joints):
    with pytest.raises(StateError, match="no joint 'shoulder'"):
        joints.read(JointReading([], [], [], 0))


def test_time_running_backwards_is_refused_then_goes_on_from_there(joints):
    joints.read(JointReading(NAMES, [0.0] * 3, [0.0] * 3, 2_000_000_000))
    with pytest.raises(StateError, match=r"stamp 1\.5\d* s after 2\.0\d* s"):
        joints.read(JointReading(NAMES, [0.0] * 3, [0.0] * 3, 1_500_000_000))
    joints.read(JointReading(NAMES, [1.0] * 3, [0.0] * 3, 1_600_000_000))


def test_a_reset_lets_the_clock_start_again(joints):
    joints.read(JointReading(NAMES, [0.0] * 3, [0.0] * 3, 2_000_000_000))
    joints.reset()
    joints.read(JointReading(NAMES, [0.0] * 3, [0.0] * 3, 0))


def test_a_repeated_stamp_is_recognised_even_of_a_refused_message(joints):
    assert not joints.is_repetition(0)
    with pytest.raises(StateError):
        joints.read(JointReading(NAMES, [math.nan] * 3, [0.0] * 3, 0))
    assert joints.is_repetition(0)
    assert not joints.is_repetition(1)


def test_good_messages_are_read_after_bad_ones(joints):
    with pytest.raises(StateError):
        joints.read(JointReading(["elbow"], [0.0], [0.0], 0))
    np.testing.assert_array_equal(
        joints.read(JointReading(NAMES, [1.0] * 3, [2.0] * 3, 1)), [1.0] * 3 + [2.0] * 3
    )


def test_a_pose_that_comes_late_or_twice_takes_no_newer_one_away():
    spec = RobotSpec("table", ("hinge",), ("hinge",), (1.0,), 0.05, observed=("puck_x",))
    poses, period = PoseBuffer(), 50_000_000
    reader = StateReader(spec, poses, 3.0)
    for k in (0, 1, 2, 4, 3, 3):
        poses.object.add(Pose(k * period, "world", (float(k), 0.0, 0.0)))
    for k in (2, 3, 4):
        assert reader.read(JointReading(("hinge",), (0.0,), (0.0,), k * period))[-1] == k
    poses.object.add(Pose(period, "world", (7.0, 0.0, 0.0)))  # its clock has started again
    reader.reset()
    assert reader.read(JointReading(("hinge",), (0.0,), (0.0,), 3 * period))[-1] == 7.0


def test_a_fast_camera_tells_speeds_over_long_periods():
    observed = ("puck_x", "puck_x_velocity")
    spec = RobotSpec("table", ("hinge",), ("hinge",), (1.0,), 0.15, observed=observed)
    poses = PoseBuffer()
    for t in range(1000):
        poses.object.add(Pose(t * 10**6, "world", (t * 1e-3, 0.0, 0.0)))
    state = StateReader(spec, poses, 3.0).read(
        JointReading(("hinge",), (0.0,), (0.0,), 999 * 10**6)
    )
    assert state[-1] == pytest.approx(1.0)
