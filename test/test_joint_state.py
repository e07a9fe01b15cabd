import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hucrl_ros.controller.state_reader import JointReading, JointStateReader
from hucrl_ros.errors import StateError

NAMES = ["shoulder", "elbow", "wrist"]


@pytest.fixture
def reader():
    return JointStateReader(NAMES)


def test_positions_come_first_then_velocities(reader):
    state = reader.read(JointReading(NAMES, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], 0))
    np.testing.assert_array_equal(state, [1, 2, 3, 4, 5, 6])
    assert state.dtype == np.float64


@given(st.permutations([*NAMES, "gripper", "head"]))
def test_joints_are_found_by_name_in_any_order_among_others(names):
    value = {name: float(i) for i, name in enumerate(NAMES)} | {"gripper": math.nan, "head": 9.0}
    positions = [value[name] for name in names]
    velocities = [10 + value[name] for name in names]
    reader = JointStateReader(NAMES)
    state = reader.read(JointReading(names, positions, velocities, 0))
    np.testing.assert_array_equal(state, [0, 1, 2, 10, 11, 12])
    assert sorted(reader.extra_joints) == ["gripper", "head"]


def test_the_order_may_change_from_one_message_to_the_next(reader):
    reader.read(JointReading(NAMES, [1.0, 2.0, 3.0], [0.0] * 3, 0))
    state = reader.read(JointReading(NAMES[::-1], [3.0, 2.0, 1.0], [0.0] * 3, 1))
    np.testing.assert_array_equal(state[:3], [1, 2, 3])


def test_a_missing_joint_is_named(reader):
    with pytest.raises(StateError, match=r"no joint 'elbow' among \['shoulder', 'wrist'\]"):
        reader.read(JointReading(["shoulder", "wrist"], [0.0] * 2, [0.0] * 2, 0))


def test_a_renamed_joint_is_named_every_time(reader):
    for stamp in range(2):
        with pytest.raises(StateError, match=r"no joint 'elbow' among .*'ellbow'"):
            reader.read(JointReading(["shoulder", "ellbow", "wrist"], [0.0] * 3, [0.0] * 3, stamp))


def test_a_joint_that_appears_twice_is_named(reader):
    with pytest.raises(StateError, match="'elbow' appears 2 times"):
        reader.read(JointReading([*NAMES, "elbow"], [0.0] * 4, [0.0] * 4, 0))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_named_with_its_joint(reader, bad):
    with pytest.raises(StateError, match=f"velocity of joint 'elbow' is {bad}"):
        reader.read(JointReading(NAMES, [0.0] * 3, [0.0, bad, 0.0], 0))
    with pytest.raises(StateError, match=f"position of joint 'wrist' is {bad}"):
        reader.read(JointReading(NAMES, [0.0, 0.0, bad], [0.0] * 3, 1))


@pytest.mark.parametrize(
    ("positions", "velocities", "reason"),
    [
        ([0.0] * 2, [0.0] * 3, "2 positions for 3 joints"),
        ([0.0] * 3, [], "0 velocities for 3 joints"),
        ([0.0] * 3, [0.0] * 4, "4 velocities for 3 joints"),
    ],
)
def test_wrong_sizes_are_named(reader, positions, velocities, reason):
    with pytest.raises(StateError, match=reason):
        reader.read(JointReading(NAMES, positions, velocities, 0))


def test_an_empty_message_is_refused(reader):
    with pytest.raises(StateError, match="no joint 'shoulder'"):
        reader.read(JointReading([], [], [], 0))


def test_time_running_backwards_is_refused_then_goes_on_from_there(reader):
    reader.read(JointReading(NAMES, [0.0] * 3, [0.0] * 3, 2_000_000_000))
    with pytest.raises(StateError, match=r"stamp 1\.5\d* s after 2\.0\d* s"):
        reader.read(JointReading(NAMES, [0.0] * 3, [0.0] * 3, 1_500_000_000))
    reader.read(JointReading(NAMES, [1.0] * 3, [0.0] * 3, 1_600_000_000))


def test_a_reset_lets_the_clock_start_again(reader):
    reader.read(JointReading(NAMES, [0.0] * 3, [0.0] * 3, 2_000_000_000))
    reader.reset()
    reader.read(JointReading(NAMES, [0.0] * 3, [0.0] * 3, 0))


def test_a_repeated_stamp_is_recognised_even_of_a_refused_message(reader):
    assert not reader.is_repetition(0)
    with pytest.raises(StateError):
        reader.read(JointReading(NAMES, [math.nan] * 3, [0.0] * 3, 0))
    assert reader.is_repetition(0)
    assert not reader.is_repetition(1)


def test_good_messages_are_read_after_bad_ones(reader):
    with pytest.raises(StateError):
        reader.read(JointReading(["elbow"], [0.0], [0.0], 0))
    np.testing.assert_array_equal(
        reader.read(JointReading(NAMES, [1.0] * 3, [2.0] * 3, 1)), [1.0] * 3 + [2.0] * 3
    )
