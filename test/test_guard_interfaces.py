"""The guard of robots that take velocities or positions; `test_guard.py` is of efforts."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.controller.braking import BrakingRule
from hucrl_ros.controller.guard import REACH, Guard
from hucrl_ros.controller.motors import limits_under
from hucrl_ros.errors import ConfigError

ONE = RobotSpec("one", ("hinge",), ("hinge",), (0.5,), 0.1, command="velocity")
# The passive joint stands between the actuated ones, which are listed in another order.
ARM = RobotSpec("arm", ("a", "passive", "b"), ("b", "a"), (1.0, 4.0), 0.1, command="velocity")
WINDOW = (-1.0, 1.0, -math.pi, math.pi, -2.0, 2.0)
SPEEDS = (3.0, 1.0, 5.0)
ACTUATED = [2, 0]

any_float = st.floats(allow_nan=True, allow_infinity=True, width=64)
near = st.floats(-6.0, 6.0)
ticks = st.lists(
    st.tuples(
        st.lists(any_float | near, min_size=2, max_size=2),
        st.lists(any_float | near, min_size=6, max_size=6),
    ),
    min_size=1,
    max_size=6,
)
settings = st.builds(
    SafetySettings,
    effort_rate=st.sampled_from([0.0, 0.05, 0.5]),
    position_margin=st.just(0.25),
    position_limits=st.sampled_from([WINDOW, ()]),
    velocity_limits=st.sampled_from([SPEEDS, ()]),
)


def guard(command, spec=ONE, **safety):
    return Guard(replace(spec, command=command), SafetySettings(**safety))


def state(position, velocity=0.0):
    return np.array([position, velocity])


def sent(made):
    """The one number of a command."""
    assert made.command is not None
    return float(made.command[0])


# Velocities


def test_a_velocity_within_all_limits_passes_unchanged():
    made = guard("velocity").check(np.array([0.4]), state(9.0, 0.3))
    assert sent(made) == 0.4 and made.action == 0.4
    assert not made.clamped and not made.safe


def test_a_velocity_is_saturated_at_the_commands_limit_and_at_the_joints():
    assert sent(guard("velocity").check(np.array([9.0]), state(0))) == 0.5
    limited = guard("velocity", velocity_limits=(0.2,))
    assert sent(limited.check(np.array([-9.0]), state(0))) == -0.2
    # A servo may overshoot a little: what is asked for stays within the limit, and nothing jumps.
    assert sent(limited.check(np.array([0.1]), state(0, 0.21))) == pytest.approx(0.1)


def test_a_velocity_leads_to_a_position_limit_at_most():
    limited = guard("velocity", position_limits=(-1.0, 1.0), position_margin=0.25)
    assert sent(limited.check(np.array([0.5]), state(0.70))) == pytest.approx(0.5)
    assert sent(limited.check(np.array([0.5]), state(0.73))) == pytest.approx(0.2)
    assert sent(limited.check(np.array([0.5]), state(0.80))) == 0.0
    assert sent(limited.check(np.array([-0.5]), state(0.80))) == -0.5
    assert sent(limited.check(np.array([-0.5]), state(-0.80))) == 0.0


def test_the_rate_limit_of_velocities_is_an_acceleration():
    limited = guard("velocity", effort_rate=0.25)
    speeds = [sent(limited.check(np.array([0.5]), state(0))) for _ in range(5)]
    assert speeds == pytest.approx([0.125, 0.25, 0.375, 0.5, 0.5])


@pytest.mark.parametrize(("command", "largest"), [("velocity", 0.2), ("position", 0.02)])
def test_a_step_is_a_share_of_the_largest_action_that_filter_and_braking_rule_know(
    command, largest
):
    """They reckon with steps of their own limits; a larger one was never looked at."""
    safety = SafetySettings(velocity_limits=(0.2,), effort_rate=0.25)
    spec = replace(ONE, command=command)
    rule = BrakingRule(
        spec,
        lambda states, _: np.full((len(states), 1), 9.0),
        limits_under(spec, safety),
        rate=0.25,
    )
    limited, wanted = Guard(spec, safety), np.array(limits_under(spec, safety))
    for step in range(1, 6):
        wanted = rule.check(state(0.0), wanted).action
        reckoned = rule._sent
        assert limited.check(wanted, state(0.0)).action == pytest.approx(reckoned)
        assert reckoned == pytest.approx(min(0.25 * step, 1.0) * largest)


def test_the_safe_velocity_is_zero():
    limited = guard("velocity")
    limited.check(np.array([0.5]), state(0))
    assert limited.safe_command(state(0, 3.0)) == 0.0
    assert limited.safe_command(None) == 0.0
    assert limited.last_command(None) == 0.0


@given(settings, ticks)
def test_whatever_comes_in_a_velocity_that_goes_out_is_within_all_limits(safety, played):
    limited = Guard(ARM, safety)
    limits, last = np.array(ARM.effort_limits), np.zeros(2)
    if safety.velocity_limits:
        limits = np.minimum(limits, np.array(SPEEDS)[ACTUATED])
    for wanted, present in played:
        made = limited.check(np.array(wanted), np.array(present))
        command = made.command
        assert np.isfinite(command).all() and (np.abs(command) <= limits).all()
        np.testing.assert_array_equal(command, made.action)
        known = np.isfinite(present).all()
        assert made.safe == (not known or not np.isfinite(wanted).all())
        assert made.clamped == (not made.safe and not np.array_equal(command, wanted))
        stopped = np.zeros(2, dtype=bool)
        if made.safe:
            assert not command.any()
        elif safety.position_limits:
            position = np.array(present)[ACTUATED]
            outer = np.array([2.0, 1.0]) - safety.position_margin
            after = position + command * ARM.period
            with np.errstate(over="ignore"):
                edge = np.maximum(outer, np.abs(position)) * (1 + 1e-9) + 1e-9
            assert (np.abs(after) <= edge).all()
            stopped = np.abs(position + last * ARM.period) >= outer - limits * ARM.period
        if safety.effort_rate > 0 and not made.safe:
            step = safety.effort_rate * np.array(ARM.effort_limits) * (1 + 1e-9) + 1e-9
            assert (np.abs(command - last) <= step)[~stopped].all()
        last = command


# Positions


def test_what_is_sent_is_the_position_to_go_to():
    made = guard("position").check(np.array([0.4]), state(7.0))
    assert sent(made) == 7.4 and made.action == pytest.approx(0.4)
    assert not made.clamped and not made.safe


def test_the_way_to_a_position_is_limited():
    assert sent(guard("position").check(np.array([9.0]), state(7.0))) == 7.5
    slow = guard("position", velocity_limits=(2.0,))  # 0.2 in a period
    made = slow.check(np.array([-9.0]), state(7.0))
    assert sent(made) == 6.8 and made.clamped and made.action == pytest.approx(-0.2)


def test_the_rate_limit_of_positions_is_of_the_way():
    limited = guard("position", effort_rate=0.25)
    ways = [float(limited.check(np.array([0.5]), state(7.0)).action[0]) for _ in range(5)]
    assert ways == pytest.approx([0.125, 0.25, 0.375, 0.5, 0.5])


def test_no_position_is_commanded_beyond_its_limit():
    limited = guard("position", position_limits=(-1.0, 1.0), position_margin=0.25)
    assert sent(limited.check(np.array([0.5]), state(0.5))) == 0.75
    assert sent(limited.check(np.array([0.5]), state(0.9))) == 0.75
    fresh = guard("position", position_limits=(-1.0, 1.0), position_margin=0.25)
    # It begins outside: it may stay and come in, but not go further.
    assert sent(fresh.check(np.array([0.5]), state(0.9))) == pytest.approx(0.9)
    assert sent(fresh.check(np.array([-0.1]), state(0.9))) == pytest.approx(0.8)


def test_an_encoder_that_errs_for_a_moment_makes_no_joint_jump():
    limited = guard("position")
    assert sent(limited.check(np.array([0.1]), state(0.0))) == 0.1
    made = limited.check(np.array([0.1]), state(100.0))
    assert sent(made) == pytest.approx(0.1 + REACH * 0.5) and made.clamped
    assert limited.safe_command(state(-100.0)) == pytest.approx(0.1)


def test_the_safe_command_of_positions_is_to_hold_where_the_joint_was_when_it_began():
    limited = guard("position")
    limited.check(np.array([0.5]), state(0.0))
    assert limited.safe_command(state(0.2)) == 0.2
    # It sags, and what is held doesn't follow.
    assert limited.safe_command(state(0.1)) == 0.2
    assert limited.safe_command(None) == 0.2
    assert sent(limited.check(np.array([0.1]), state(0.1))) == 0.2
    assert limited.safe_command(state(0.15)) == 0.15


def test_in_an_unknown_state_the_last_commanded_position_is_held():
    limited = guard("position")
    limited.check(np.array([0.5]), state(0.0))
    assert limited.safe_command(None) == 0.5
    made = limited.check(np.array([0.5]), state(math.nan))
    assert made.safe and sent(made) == 0.5 and made.action == 0.0


def test_nothing_is_sent_where_no_position_is_known():
    limited = guard("position")
    assert limited.safe_command(None) is None
    made = limited.check(np.array([0.1]), state(math.nan))
    assert made.safe and made.command is None
    assert limited.safe_command(state(0.3)) == 0.3, "it holds only now"
    limited.check(np.array([0.1]), state(0.0))
    limited.reset()  # the robot has been moved elsewhere since
    assert limited.safe_command(None) is None


def test_a_position_that_is_held_already_is_not_sent_again_at_the_end():
    limited = guard("position")
    limited.check(np.array([0.5]), state(0.0))
    assert limited.last_command(state(0.2)) == 0.2
    assert limited.last_command(state(0.2)) is None


def test_a_guard_holds_what_somebody_else_has_sent():
    limited = guard("position")
    limited.hear(np.array([0.7]))
    for nonsense in ([math.nan], [1.0, 2.0], []):
        limited.hear(np.array(nonsense))
    assert limited.safe_command(None) == 0.7
    limited.hear(np.array([0.8]))
    assert limited.safe_command(state(0.9)) == 0.9, "it moved since"


def test_a_position_that_somebody_else_has_sent_is_no_way():
    limited = guard("position", effort_rate=0.2)
    limited.hear(np.array([7.0]))
    assert limited.check(np.array([0.5]), state(7.0)).action == pytest.approx(0.1)


@pytest.mark.parametrize("command", ["effort", "velocity"])
def test_the_rate_limit_goes_on_from_what_somebody_else_has_sent(command):
    limited = guard(command, effort_rate=0.1)
    for _ in range(20):
        limited.check(np.array([1.0]), state(0.0))
    assert limited.sent == pytest.approx(limited._largest)
    assert limited.hear(np.zeros(1)) and not limited.hear(np.array([math.nan]))
    assert limited.check(np.array([1.0]), state(0.0)).command == pytest.approx(limited._rate)


def test_a_guard_goes_on_where_another_one_stood():
    first, second = guard("position", effort_rate=0.2), guard("position", effort_rate=0.2)
    first.check(np.array([0.5]), state(7.0))
    second.reset(first)
    assert second.check(np.array([0.5]), state(7.0)).action == pytest.approx(0.2)
    third = guard("position")
    third.reset(second)
    assert third.safe_command(None) == pytest.approx(7.2)
    fourth = guard("position")
    fourth.reset(third)
    assert fourth.safe_command(state(7.0)) == pytest.approx(7.2), "it holds already"


@given(settings, ticks)
def test_whatever_comes_in_a_position_that_goes_out_is_near_and_within_its_limits(safety, played):
    spec = replace(ARM, command="position")
    limited, limits = Guard(spec, safety), np.array(spec.effort_limits)
    if safety.velocity_limits:
        limits = np.minimum(limits, np.array(SPEEDS)[ACTUATED] * spec.period)
    outer = np.full(2, np.inf)
    if safety.position_limits:
        outer = np.array([2.0, 1.0]) - safety.position_margin
    last = None
    for wanted, present in played:
        made = limited.check(np.array(wanted), np.array(present))
        known = np.isfinite(present).all()
        assert made.safe == (not known or not np.isfinite(wanted).all())
        if made.command is None:
            assert last is None and not known
            continue
        command, position = made.command, np.array(present)[ACTUATED]
        assert np.isfinite(command).all() and np.isfinite(made.action).all()
        before, reach = (position, limits) if last is None else (last, REACH * limits)
        with np.errstate(over="ignore"):
            slack = 1e-9 * (1 + np.abs(before))
        assert (np.abs(command - before) <= reach + slack).all()
        if known:
            np.testing.assert_array_equal(made.action, command - position)
        assert (np.abs(command) <= np.maximum(outer, np.abs(before)) + slack).all()
        if not known:
            np.testing.assert_array_equal(command, before)
        elif (np.abs(position - before) <= limits).all() and (np.abs(position) <= outer).all():
            # As long as the joint is where it was sent, more or less.
            assert (np.abs(command - position) <= limits + slack).all()
        last = command


# What both refuse


@pytest.mark.parametrize(
    ("command", "kind"), [("velocity", "velocities"), ("position", "positions")]
)
def test_damping_is_for_efforts(command, kind):
    with pytest.raises(ConfigError, match=f"damping: only for efforts; one takes {kind}"):
        guard(command, safe_command="damping", damping=1.0)


@pytest.mark.parametrize("command", ["velocity", "position"])
def test_settings_only_tighten_the_limits(command):
    assert guard(command, effort_limits=(0.3,)).check(np.array([9.0]), state(0)).action == 0.3
    assert guard(command, effort_limits=(9.0,)).check(np.array([9.0]), state(0)).action == 0.5
