"""What a fan leaves of a constraint on the way to rest after it, in closed form."""

import numpy as np
import pytest
from sliding_mass import Knocked, Slide, filter_of

from hucrl_ros.controller.backup import backups
from hucrl_ros.controller.engines.fan import Fan
from hucrl_ros.controller.rooms import FOR_EVER

MARGIN, HORIZON, PERIOD = 0.05, 10, 0.05


def left_of(room, speeds, rate=np.inf, robot=Slide):
    """Room that is left of a mass under no effort, and periods of its speed that rest is away."""
    found = filter_of(robot(gain=0.5), room, rate=rate)
    place, speed = found.joints.positions[0], found.joints.velocities[0]
    states = np.zeros((1, 1, HORIZON + 1, found.spec.state_dim))
    states[..., speed] = speeds
    states[..., 1:, place] = PERIOD * np.cumsum(states[..., 1:, speed], axis=-1)
    actions = np.zeros((1, 1, HORIZON, 1))
    asked = np.zeros(found.spec.state_dim), np.zeros(1), found._expect, found._limits, rate
    backup = backups(found.spec, found.joints, *asked)[-1]
    load = backup.load(np.diff(states[..., [speed]], axis=2), actions)
    left, _ = found._rooms.left(Fan(states, actions), backup, np.full(1, 9.0))
    return left[0], float(backup.periods_to_rest(states[:, :, -1, [speed]], load).max())


def until(high):
    return lambda states, actions: (high - states[:, :1]) / MARGIN


@pytest.mark.parametrize(("rate", "longer"), [(np.inf, 0), (0.1, HORIZON)])
def test_who_still_turns_brakes_only_from_then_on(rate, longer):
    """A margin in each period; it asks for a fifth of the effort and may change it by a tenth."""
    left, periods = left_of(until(9.0), np.ones(HORIZON + 1), rate)
    assert left == pytest.approx((9.0 - HORIZON * PERIOD) / MARGIN - periods - longer, abs=0.01)


def test_a_speed_that_grows_at_the_end_grows_on():
    def room(states, actions):
        return (1.0 - abs(states[:, 1:2])) / MARGIN

    left, periods = left_of(room, 0.5 + 0.03 * np.arange(HORIZON + 1))
    assert left == pytest.approx((0.2 - 0.03 * periods) / MARGIN, abs=1e-3)


def test_no_way_to_rest_leads_where_room_is_no_number():
    def room(states, actions):
        return np.where(states[:, :1] > 0.6, np.nan, 9.0)

    assert left_of(room, np.ones(HORIZON + 1))[0] == -np.inf


@pytest.mark.parametrize(("robot", "ends"), [(Slide, False), (Knocked, True)])
def test_who_is_pushed_as_strongly_as_its_motor_comes_to_no_rest(robot, ends):
    """But what swings pushes back and forth."""
    speeds = 0.6 * np.arange(HORIZON + 1)
    left, _ = left_of(until(0.5 * FOR_EVER * PERIOD * speeds[-1]), speeds, robot=robot)
    assert (left > 0.0) == ends


def test_a_motor_s_power_is_of_states_and_its_effort_is_not():
    for room, moves in (
        (lambda states, actions: 1.0 - abs(actions * states[:, 1:]), True),
        (lambda states, actions: 1.0 - abs(actions), False),
        (lambda states, actions: 1.0 - abs(states[:, 1:]), True),
    ):
        assert filter_of(Slide(), room)._rooms.moves.tolist() == [moves]
