"""What random efforts do to a robot: units for the networks' inputs, and how far it gets."""

import math
from typing import NamedTuple

import mujoco
import numpy as np

from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot

EPISODES = 16
MOST_STEPS = 250
"""Control periods in one of them."""
LONGEST_HOLD = 25
"""Control periods for which an effort is held."""
USUAL = 0.9
"""Share of the values that don't exceed a scale."""


class Measured(NamedTuple):
    """Of each entry of the state, in its unit."""

    usual: Array
    """`(p,)` absolute value that a tenth exceeds."""
    largest: Array
    """`(p,)` largest absolute value."""


def measure(robot: MujocoRobot, steps: int) -> Measured:
    """Simulate efforts that are drawn and held, from starts and from poses anywhere.

    The draws have a seed of their own, so that a robot gives the same numbers every time.

    Args:
        robot: To be moved.
        steps: Control periods in an episode.

    Raises:
        ConfigError: the simulation is unstable.
    """
    rng = np.random.default_rng(0)
    visited = []
    for episode in range(EPISODES):
        state = robot.initial_state(rng)
        if episode % 2:
            state = elsewhere(robot, state, rng)
        visited.append(_play(robot, state, min(steps, MOST_STEPS), rng))
    values = np.abs(np.concatenate(visited))
    return Measured(np.quantile(values, USUAL, axis=0), values.max(axis=0))


def round_up(value: float) -> float:
    """The next larger number of two decimal digits."""
    if value <= 0.0:
        return 0.0
    power = 1 - math.floor(math.log10(value))
    return float(f"{math.ceil(round(value * 10.0**power, 9)) / 10.0**power:.12g}")


def elsewhere(robot: MujocoRobot, state: Array, rng: np.random.Generator) -> Array:
    """The state, its joints anywhere within their limits; without limits up to half a turn.

    What slides without limits is where episodes start on average: a base of which it says how
    high it is would be hurled out of the floor from zero.
    """
    spec, ranges = robot.spec, robot.ranges
    middle, half = np.zeros(len(ranges)), np.full(len(ranges), math.pi)
    kinds = np.array([robot.model.joint(name).type[0] for name in spec.joint_names])
    slides = kinds == mujoco.mjtJoint.mjJNT_SLIDE
    half[slides] = 0.0
    middle[slides] = np.mean([robot.drawn[name] for name in spec.joint_names], axis=1)[slides]
    low = np.where(np.isfinite(ranges[:, 0]), ranges[:, 0], middle - half)
    high = np.where(np.isfinite(ranges[:, 1]), ranges[:, 1], middle + half)
    moved = state.copy()
    moved[: len(ranges)] = rng.uniform(low, high)
    return robot.led(moved)


def _play(robot: MujocoRobot, state: Array, steps: int, rng: np.random.Generator) -> Array:
    """States `(T, p)`, as far as they are finite."""
    robot.set_state(state)
    limits = np.asarray(robot.spec.effort_limits)
    states, hold, effort = [robot.state], 0, limits
    for _ in range(steps):
        if hold == 0:
            hold, effort = int(rng.integers(1, LONGEST_HOLD)), rng.uniform(-limits, limits)
        hold -= 1
        following = robot.step(effort)
        if not np.isfinite(following).all():
            break
        states.append(following)
    return np.array(states)
