"""Backup policies bring a robot to rest, as quickly as they are asked to."""

from dataclasses import replace

import numpy as np
import pytest

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.controller.backup import BRAKING, PROBE, Joints, backups

SPEC = RobotSpec("arm", ("a", "free", "b"), ("b", "a"), (2.0, 5.0), 0.02)
JOINTS = Joints(SPEC, angles=(2,))
LIMITS = np.array([2.0, 4.0])
GAIN = np.array([[0.8, 0.1], [-0.2, 0.5]])
"""Speeds of b and a that a unit of each share adds in a period."""
PULL = np.array([0.1, -0.15])
"""What gravity adds to them."""
STATE = np.array([0.3, 9.0, 1.0, 0.2, -9.0, -0.4])


def expect(states, shares):
    """b is entry 2, a entry 0; the free joint does what it wants."""
    following = states.copy()
    following[:, [5, 3]] += shares @ GAIN.T + PULL
    following[:, 4] += 3.0
    return following


def found(state=STATE, home=(0.0, 0.0), model=expect, spec=SPEC, rate=np.inf):
    return backups(spec, JOINTS, state, np.array(home), model, LIMITS, rate)


@pytest.mark.parametrize(("rate", "share"), [(np.inf, BRAKING), (0.3, 0.3)])
def test_braking_takes_the_share_of_the_speed_that_it_should_and_holds_against_gravity(
    rate, share
):
    brake = found(rate=rate)[-1]
    shares = JOINTS.shares(brake, STATE)
    after = expect(STATE[None], shares[None])[0]
    before = STATE[[5, 3]]
    np.testing.assert_allclose(after[[5, 3]], (1.0 - share) * before, atol=1e-3)


def test_homing_does_not_overshoot():
    home = found(home=(1.2, 0.1))[0]
    state, places = STATE.copy(), []
    for _ in range(200):
        state = expect(state[None], JOINTS.shares(home, state)[None])[0]
        state[[0, 2]] += SPEC.period * state[[3, 5]]
        places.append(state[[2, 0]].copy())
    np.testing.assert_allclose(places[-1], [1.2, 0.1], atol=0.01)
    away = np.array(places) - [1.2, 0.1]
    assert np.abs(away[:, 1]).max() <= abs(STATE[0] - 0.1) + 0.05
    assert away[:, 1].min() > -0.02  # It comes from above.


def test_an_angle_is_pulled_by_its_sine():
    home = found(home=(1.0 + 2.0 * np.pi, 0.3))[0]
    near = found(home=(1.0, 0.3))[0]
    for state in (STATE, STATE + 0.4):
        np.testing.assert_allclose(
            JOINTS.shares(home, state), JOINTS.shares(near, state), atol=1e-9
        )


def test_gravity_is_held_by_no_more_than_the_probe():
    def heavy(states, shares):
        following = expect(states, shares)
        following[:, 5] -= 100.0
        return following

    assert np.abs(found(model=heavy)[-1].bias).max() == PROBE


@pytest.mark.parametrize(
    "model",
    [lambda states, shares: states, lambda states, shares: np.full_like(states, np.nan)],
    ids=["actions do nothing", "not finite"],
)
def test_of_a_model_that_knows_no_way_to_brake_nothing_is_asked(model):
    (still,) = found(model=model)
    np.testing.assert_array_equal(JOINTS.shares(still, STATE), [0.0, 0.0])


@pytest.mark.parametrize("rate", [np.inf, 0.3])
@pytest.mark.parametrize(("command", "share"), [("velocity", BRAKING), ("position", 1.0)])
def test_what_takes_no_efforts_is_sent_to_a_place_and_held_there(command, share, rate):
    """A position is the place itself; a velocity leads a share of the way there in a period."""
    spec = replace(SPEC, command=command)
    to_home, stay = found(home=(0.7, 0.5), spec=spec, rate=rate)
    np.testing.assert_array_equal(JOINTS.shares(stay, STATE), [0.0, 0.0])
    for backup, place in ((to_home, [0.7, 0.5]), (stay, STATE[[2, 0]])):
        away = STATE + 0.1
        left = place - away[[2, 0]]
        left[0] = np.sin(left[0])  # a joint that turns
        way = JOINTS.shares(backup, away) * LIMITS
        way *= SPEC.period if command == "velocity" else 1.0
        np.testing.assert_allclose(way, min(share, rate) * left)


def test_a_joint_that_nothing_moves_is_not_braked_by_the_others():
    def stuck(states, shares):
        following = states.copy()
        following[:, 5] += shares[:, 0]
        return following

    shares = JOINTS.shares(found(model=stuck)[-1], STATE)
    assert shares[0] == pytest.approx(-BRAKING * STATE[5], rel=1e-2)
    assert shares[1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("weaker", [1.0, 0.75])
@pytest.mark.parametrize("speed", [0.1, 1.0, 8.0, -8.0])
def test_the_way_to_rest_is_no_longer_than_is_told(speed, weaker):
    """Also where motors do a quarter less than the model says, all of which is against it."""
    brake = found()[-1]
    state, way = STATE.copy(), 0.0
    state[[5, 3]] = speed, 0.0
    told = float(brake.periods_to_rest(state[[5, 3]], np.zeros(2))) * abs(speed)
    for _ in range(400):
        shares = np.clip(JOINTS.shares(brake, state), -1.0, 1.0)
        state = expect(state[None], shares[None])[0]
        state[[5, 3]] -= (1.0 - weaker) * ((shares - brake.bias) @ GAIN.T)
        way += state[5]
    assert abs(way) <= told
    assert told < 10.0 * abs(way)


def test_what_does_not_brake_promises_nothing_about_its_way():
    *_, still = found(spec=replace(SPEC, command="velocity"))
    assert np.isinf(still.periods_to_rest(np.zeros((3, 2)), np.zeros((3, 2)))).all()

    def stuck(states, shares):
        following = states.copy()
        following[:, 5] += shares[:, 0]
        return following

    assert np.isinf(found(model=stuck)[-1].periods_to_rest(np.zeros(2), np.zeros(2)))


def test_what_has_to_be_held_is_no_action_left_to_brake():
    brake, speeds = found()[-1], np.array([80.0, 40.0])
    told = [float(brake.periods_to_rest(speeds, np.full(2, load))) for load in (0.0, 0.5, 0.9)]
    assert told[0] < told[1] < told[2] < np.inf
    assert brake.periods_to_rest(speeds, np.full(2, -0.5)) == told[1]
    assert np.isinf(brake.periods_to_rest(speeds, np.array([0.0, 1.0])))
    assert np.isfinite(brake.periods_to_rest(np.zeros(2), np.ones(2))), "it is at rest"


def test_a_load_is_what_moves_joints_beside_actions():
    brake, load = found()[-1], np.array([0.3, -0.2])
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (4, 9, 2))
    np.testing.assert_allclose(
        brake.load((actions + load) @ GAIN.T, actions), np.tile(load, (4, 1)), rtol=1e-3
    )
