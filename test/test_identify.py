"""What tiny pulses say of simulated joints whose gain, friction and delays are known; no ROS."""

import math

import numpy as np
import pytest
from pushed import pushed, pushed_arm
from test_inertia import planar_mass

from hucrl_ros.doctor.identify import identify
from hucrl_ros.doctor.pulses import REVOLUTE, Bounds

COUNT = 2 * math.pi / 4096
PENDULUM = {"stiffness": 19.62, "damping": 0.067}
MS = 1e-3


def found(**how):
    record = pushed(**how)
    assert record.stopped == ""
    motion = identify(record, 0, 0)
    assert motion is not None
    return motion


@pytest.mark.parametrize(
    ("how", "gain", "dead_time"),
    [
        ({}, 0.01, 1.0),
        (PENDULUM, 0.01, 1.0),
        ({"gain": -13.3, **PENDULUM}, 0.01, 1.0),
        ({"gain": 1.0}, 0.01, 1.0),
        ({"gain": 100.0}, 0.02, 1.0),
        ({"dead_time": 0.01, **PENDULUM}, 0.01, 1.0),
        ({"dead_time": 0.03, "rate": 80, **PENDULUM}, 0.02, 1.5),
        ({"friction": 0.02, **PENDULUM}, 0.03, 1.5),
        ({"friction": 0.1, "dead_time": 0.01, **PENDULUM}, 0.05, 2.0),
        ({"friction": 0.1, "rate": 80, **PENDULUM}, 0.05, 1.5),
        ({"friction": 0.05, **PENDULUM}, 0.05, 1.5),
        ({"step": COUNT, "rate": 500, **PENDULUM}, 0.03, 2.0),
        ({"step": COUNT, "rate": 500, "dead_time": 0.01, "friction": 0.02, **PENDULUM}, 0.05, 3.0),
        ({"step": COUNT, "rate": 500, "friction": 0.02, "creep": 0.02, **PENDULUM}, 0.05, 3.0),
        ({"step": COUNT, "rate": 80, "dead_time": 0.01, **PENDULUM}, 0.06, 6.0),
        ({"noise": 1e-3, "rate": 500, "dead_time": 0.01, **PENDULUM}, 0.1, 8.0),
        ({"start": (0.0, 0.02), **PENDULUM}, 0.02, 1.0),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_gain_friction_and_dead_time_are_those_of_the_joint(how, gain, dead_time):
    motion = found(**how)
    assert motion.gain == pytest.approx(how.get("gain", 13.3), rel=gain)
    friction = how.get("friction", 0.0)
    assert motion.friction == pytest.approx(friction, abs=0.1 * friction + gain * 0.2)
    expected = how.get("dead_time", 0.0)
    assert motion.dead_time == pytest.approx(expected, abs=dead_time * MS)


def test_friction_that_would_drive_is_none_and_known_no_better():
    motion = found(step=COUNT, rate=80, dead_time=0.01, **PENDULUM)
    assert motion.friction == 0.0
    assert motion.friction_error > 1e-3


@pytest.mark.parametrize(
    ("friction", "how", "off"),
    [
        ((0.0, 0.0), {}, 0.05),
        ((0.01, 0.003), {}, 0.1),
        ((0.2, 0.1), {}, 0.25),
        ((0.0, math.inf), {}, 0.05),  # the elbow's gear can't be turned from outside
        ((0.01, 0.003), {"step": COUNT / 4, "rate": 500}, 0.15),
    ],
    ids=["both free", "both rub", "a tenth of the limit", "the other is held", "an encoder"],
)
def test_other_joints_may_follow_or_be_held_by_their_friction(friction, how, off):
    mass = planar_mass(0.0)
    record = pushed_arm(mass, friction=friction, **how)
    assert record.stopped == ""
    coupling = mass / np.diag(mass)[:, None] - np.eye(2)
    for joint in range(2):
        motion = identify(record, joint, joint, coupling[joint])
        if math.isinf(friction[joint]):
            assert motion is None, "the largest effort doesn't move it"
            continue
        assert motion.gain == pytest.approx(1 / mass[joint, joint], rel=off)
        assert motion.dead_time == pytest.approx(5 * MS, abs=5 * MS)


def test_the_first_efforts_leave_no_joint_fast():
    """A light elbow would be thrown by what the shoulder may take."""
    mass = planar_mass(0.0)
    record = pushed_arm(mass, limits=(10.0, 5.0))
    assert record.stopped == ""
    assert np.abs(record.velocities).max() < 0.5 * REVOLUTE.speed


def test_a_dead_time_holds_transport_but_no_clock():
    motion = found(dead_time=0.01, transport=0.003, rate=500, **PENDULUM)
    assert motion.dead_time == pytest.approx(0.013, abs=1 * MS)
    # What is late at times counts for nothing.
    late = found(dead_time=0.01, transport=0.003, jitter=0.004, rate=500, **PENDULUM)
    assert late.dead_time == pytest.approx(0.0134, abs=1 * MS)


def test_a_swing_that_was_there_before_is_no_answer():
    """Passive motion as large as the pulses' is taken away."""
    still, swinging = found(**PENDULUM), found(start=(0.005, 0.0), **PENDULUM)
    assert swinging.gain == pytest.approx(still.gain, rel=0.01)
    assert swinging.explained > 0.99


@pytest.mark.parametrize("rate", [80, 500])
@pytest.mark.parametrize("timeout", [0.1, 0.2, math.inf])
def test_a_drivers_own_timeout_is_found_where_it_has_one(rate, timeout):
    motion = found(timeout=timeout, rate=rate, **PENDULUM)
    assert motion.silence > 0.3
    if math.isinf(timeout):
        assert motion.timeout is None
    else:
        assert motion.timeout == pytest.approx(timeout, abs=0.01)


def test_friction_that_stops_a_joint_is_no_timeout():
    assert found(friction=0.1, **PENDULUM).timeout is None
    assert found(friction=0.02).timeout is None


def test_efforts_grow_until_the_joint_moves_and_no_further():
    easy, hard, never = (
        pushed(gain=13.3, friction=friction, most=0.2) for friction in (0.0, 0.12, 0.5)
    )
    largest = [np.abs(record.commands).max() for record in (easy, hard, never)]
    assert largest[0] == pytest.approx(0.05)
    assert 0.12 < largest[1] <= 0.2
    assert largest[2] == pytest.approx(0.2)
    assert identify(never, 0, 0) is None
    assert np.ptp(never.positions) == 0.0


def test_efforts_end_at_zero_and_move_to_and_fro():
    record = pushed(**PENDULUM)
    commands = np.array(record.commands)[:, 0]
    assert commands[0] == commands[-1] == 0.0
    assert commands.max() == -commands.min()
    assert abs(np.sum(commands)) < 0.05 * np.sum(np.abs(commands))
    assert np.abs(record.positions).max() < REVOLUTE.way


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"gain": 1000.0}, "moves at"),
        ({"gain": 100.0, "bounds": Bounds(0.005, 100.0)}, "from where it was, beyond 0.005"),
        ({"start": (0.0, 0.5), **PENDULUM}, "without effort; bring the robot to rest"),
        ({"gain": math.nan}, "nan"),
    ],
    ids=["too fast", "too far", "falls by itself", "no number"],
)
def test_the_motion_ends_where_it_is_out_of_bounds(how, said):
    record = pushed(**how)
    assert said in record.stopped
    assert record.stopped.startswith("joint 'hinge' ")
    assert "\n" not in record.stopped
