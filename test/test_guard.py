import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.controller.guard import Guard
from hucrl_ros.errors import ConfigError

ONE = RobotSpec("one", ("hinge",), ("hinge",), (2.0,), 0.01)
# The passive joint stands between the actuated ones, which are listed in another order.
ARM = RobotSpec("arm", ("a", "passive", "b"), ("b", "a"), (1.0, 4.0), 0.01)
LIMITS = {
    "position_limits": (-1.0, 1.0, -math.pi, math.pi, -2.0, 2.0),
    "velocity_limits": (3.0, 1.0, 5.0),
    "position_margin": 0.25,
}

any_float = st.floats(allow_nan=True, allow_infinity=True, width=64)
near = st.floats(-6.0, 6.0)
actions = st.lists(any_float | near, min_size=2, max_size=2)
states = st.lists(any_float | near, min_size=6, max_size=6)
settings = st.builds(
    SafetySettings,
    effort_rate=st.sampled_from([0.0, 0.05, 0.5]),
    safe_command=st.sampled_from(["zero", "damping"]),
    damping=st.sampled_from([0.0, 0.5, 1e6]),
    **{key: st.sampled_from([value, type(value)()]) for key, value in LIMITS.items()},
)


def guard(spec=ONE, **safety):
    return Guard(spec, SafetySettings(**safety))


def state(position, velocity):
    return np.array([position, velocity])


def test_an_effort_within_all_limits_passes_unchanged():
    command = guard().check(np.array([1.5]), state(0.0, 0.0))
    assert command.action == 1.5
    assert not command.clamped and not command.safe


def test_an_effort_is_saturated_at_the_limit():
    command = guard().check(np.array([-7.0]), state(0.0, 0.0))
    assert command.action == -2.0
    assert command.clamped and not command.safe


def test_the_rate_limit_is_in_effort_limits_a_period():
    limited = guard(effort_rate=0.25)
    efforts = [limited.check(np.array([2.0]), state(0, 0)).action[0] for _ in range(5)]
    assert efforts == [0.5, 1.0, 1.5, 2.0, 2.0]
    limited.reset()
    assert limited.check(np.array([-2.0]), state(0, 0)).action == -0.5


def test_no_push_outward_inside_the_margin_of_a_position_limit():
    limited = guard(position_limits=(-1.0, 1.0), position_margin=0.25)
    assert limited.check(np.array([2.0]), state(0.74, 0)).action == 2.0
    assert limited.check(np.array([2.0]), state(0.76, 0)).action == 0.0
    assert limited.check(np.array([-2.0]), state(0.76, 0)).action == -2.0
    assert limited.check(np.array([-2.0]), state(-0.76, 0)).action == 0.0
    assert limited.check(np.array([2.0]), state(-0.76, 0)).action == 2.0


def test_only_brakes_above_a_velocity_limit():
    limited = guard(velocity_limits=(3.0,))
    assert limited.check(np.array([2.0]), state(0, 2.9)).action == 2.0
    assert limited.check(np.array([2.0]), state(0, 3.1)).action == 0.0
    assert limited.check(np.array([-2.0]), state(0, 3.1)).action == -2.0
    assert limited.check(np.array([-2.0]), state(0, -3.1)).action == 0.0
    limited, full = guard(ARM, velocity_limits=(3.0, 1.0, 5.0)), np.array([1.0, 4.0])
    slow, fast = np.array([0, 0, 0, 2.9, 9, 4.9]), np.array([0, 0, 0, 3.1, 0, 5.1])
    np.testing.assert_array_equal(limited.check(full, slow).action, full)
    np.testing.assert_array_equal(limited.check(full, fast).action, [0.0, 0.0])


def test_position_limits_win_over_the_rate_limit():
    limited = guard(effort_rate=0.1, position_limits=(-1.0, 1.0))
    for _ in range(10):
        limited.check(np.array([2.0]), state(0.0, 0.0))
    assert limited.check(np.array([2.0]), state(1.0, 0.0)).action == 0.0


def test_a_larger_effort_of_somebody_else_is_no_excuse():
    limited = guard(effort_rate=0.1)
    assert limited.hear(np.array([9.0]))
    assert limited.check(np.array([9.0]), state(0.0, 0.0)).action == 2.0


def test_the_safe_command_damps_the_actuated_joints_within_limits():
    damped = guard(ARM, safe_command="damping", damping=0.5)
    effort = damped.safe_command(np.array([0.0, 0.0, 0.0, 2.0, 9.0, -1.0]))
    np.testing.assert_array_equal(effort, [0.5, -1.0])
    effort = damped.safe_command(np.array([0.0, 0.0, 0.0, -100.0, 9.0, -100.0]))
    np.testing.assert_array_equal(effort, [1.0, 4.0])


def test_damping_pushes_nothing_outward():
    damped = guard(safe_command="damping", damping=1.0, position_limits=(-1.0, 1.0))
    assert damped.safe_command(state(1.1, -0.5)) == 0.0
    assert damped.safe_command(state(1.1, 0.5)) == -0.5


def test_where_nobody_follows_up_nothing_is_damped():
    damped = guard(safe_command="damping", damping=1.0)
    assert damped.last_command(state(0.0, 5.0)) == 0.0


def test_the_safe_command_is_zero_where_the_state_is_unknown():
    damped = guard(safe_command="damping", damping=0.5)
    assert damped.safe_command(None) == 0.0
    assert damped.safe_command(state(0.0, math.nan)) == 0.0
    assert not guard(ARM, safe_command="damping", damping=0.5).safe_command(np.ones(5)).any()
    assert guard().safe_command(state(0.0, 5.0)) == 0.0


@pytest.mark.parametrize("action", [[math.nan], [math.inf], [], [0.0, 0.0], [[0.0]]])
def test_an_action_that_makes_no_sense_becomes_the_safe_command(action):
    command = guard().check(np.array(action), state(0.0, 0.0))
    assert command.safe
    assert command.action == 0.0


@pytest.mark.parametrize("bad", [[math.nan, 0.0], [0.0, math.inf], [0.0], [1.0] * 3])
def test_a_state_that_makes_no_sense_becomes_the_safe_command(bad):
    damped = guard(safe_command="damping", damping=1.0)
    command = damped.check(np.array([1.0]), np.array(bad))
    assert command.safe
    assert command.action == 0.0


def test_the_rate_limit_starts_from_the_safe_command():
    limited = guard(effort_rate=0.5)
    limited.check(np.array([1.0]), state(0, 0))
    assert limited.check(np.array([math.nan]), state(0, 0)).action == 0.0
    assert limited.check(np.array([2.0]), state(0, 0)).action == 1.0


def test_what_the_guard_returns_is_not_its_memory():
    limited = guard(effort_rate=0.5)
    limited.check(np.array([1.0]), state(0, 0)).action[:] = 2.0
    assert limited.check(np.array([2.0]), state(0, 0)).action == 2.0
    limited.safe_command(None)[:] = 2.0
    assert limited.check(np.array([2.0]), state(0, 0)).action == 1.0


@given(settings, st.lists(st.tuples(actions, states), min_size=1, max_size=6))
def test_whatever_comes_in_what_goes_out_is_within_all_limits(safety, ticks):
    limited = Guard(ARM, safety)
    limits = np.array(ARM.effort_limits)
    last = np.zeros(2)
    for wanted, present in ticks:
        effort, clamped, safe, _ = limited.check(np.array(wanted), np.array(present))
        assert np.isfinite(effort).all()
        assert (np.abs(effort) <= limits).all()
        known = np.isfinite(present).all()
        assert safe == (not known or not np.isfinite(wanted).all())
        assert clamped == (not safe and not np.array_equal(effort, wanted))
        position = np.array(present)[[2, 0]]
        velocity = np.array(present)[[5, 3]]
        changed = np.zeros(2, dtype=bool)
        if known and safety.position_limits:
            outer = np.array([2.0, 1.0]) - safety.position_margin
            changed |= np.abs(position) >= outer
            assert (effort[position >= outer] <= 0).all()
            assert (effort[position <= -outer] >= 0).all()
        if known and safety.velocity_limits:
            fast = np.abs(velocity) > np.array([5.0, 3.0])
            changed |= fast
            assert (effort * np.sign(velocity) <= 0)[fast].all()
        if safety.effort_rate > 0 and not safe:
            step = safety.effort_rate * limits * (1 + 1e-12) + 1e-12
            assert (np.abs(effort - last) <= step)[~changed].all()
        last = effort


def test_effort_limits_of_the_settings_only_tighten_the_robot_s():
    limited = guard(ARM, effort_limits=(0.5, 100.0))
    effort, clamped, _, _ = limited.check(np.array([9.0, 9.0]), np.zeros(6))
    assert clamped and effort.tolist() == [0.5, 4.0]
    slow = guard(ARM, effort_limits=(0.5, 100.0), effort_rate=0.1)
    assert slow.check(np.array([9.0, 9.0]), np.zeros(6)).action.tolist() == [0.05, 0.4]
    with pytest.raises(ConfigError, match=r"effort_limits.*1 numbers, expected 2"):
        guard(ARM, effort_limits=(1.0,))


@given(states, st.sampled_from([0.0, 0.5, 1e6]))
def test_damping_never_drives(present, damping):
    damped = guard(ARM, safe_command="damping", damping=damping)
    effort = damped.safe_command(np.array(present))
    assert (np.abs(effort) <= ARM.effort_limits).all()
    if np.isfinite(present).all():
        velocity = np.array(present)[[5, 3]]
        assert (effort * np.sign(velocity) <= 0).all()
    else:
        np.testing.assert_array_equal(effort, [0.0, 0.0])


@pytest.mark.parametrize(
    ("safety", "reason"),
    [
        ({"position_limits": (1.0,)}, "1 numbers, expected 2"),
        ({"position_limits": (1.0, -1.0)}, "no room .* 'hinge'"),
        ({"position_limits": (-1.0, 1.0), "position_margin": 1.0}, "position_margin of 1.0"),
        ({"velocity_limits": (1.0, 2.0)}, "2 numbers, expected 1"),
        ({"velocity_limits": (0.0,)}, "must be positive"),
    ],
)
def test_limits_that_do_not_fit_the_robot_are_refused(safety, reason):
    with pytest.raises(ConfigError, match=reason):
        guard(**safety)
