"""The best achievable return of a task whose equation of motion is known."""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hucrl_ros.errors import ConfigError
from hucrl_ros.planners.exact import (
    Axis,
    Grid,
    Step,
    ValueTable,
    backward_induction,
)
from hucrl_ros.robots.mujoco_robot import Array
from hucrl_ros.tasks import Task


def pendulum_step(state: Array, action: Array) -> Array:
    """θ̈ = (g/l) sin θ + u/(ml²) − (c/(ml²)) θ̇ over 1/80 s by one Runge-Kutta step.

    Args:
        state: θ [rad] and ω [rad/s] `(N, 2)`.
        action: Torque `(N, 1)` [N m].
    """
    gravity, length, mass, friction, period = 9.81, 0.5, 0.3, 0.005, 1 / 80
    inertia = mass * length**2

    def slope(s: Array) -> Array:
        torque = action[:, 0] - friction * s[:, 1]
        return np.stack([s[:, 1], gravity / length * np.sin(s[:, 0]) + torque / inertia], axis=-1)

    k1 = slope(state)
    k2 = slope(state + period / 2 * k1)
    k3 = slope(state + period / 2 * k2)
    k4 = slope(state + period * k3)
    return state + period / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


MAX_SPEED = 10.0
"""[rad/s] An optimal swing-up stays below 2·sqrt(g/l) = 8.9, the speed of a fall from upright."""

EQUATIONS: dict[str, Callable[[Array, Array], Array]] = {"pendulum": pendulum_step}
"""Tasks whose equation of motion is known, by name."""


class Optimum(NamedTuple):
    """What dynamic programming found."""

    value: float
    """Value of the start by interpolation on the grid; slightly low, linear interpolation of a
    peak being below it."""
    achieved: float
    """Return of the table's greedy policy in the MuJoCo robot."""
    states: Array
    """States it visited `(T + 1, p)`."""
    actions: Array
    """What it did `(T, q)` [N m]."""
    seconds: float
    """Time it took [s]."""


def find_optimum(task: Task, grid_points: int = 401, torques: int = 41) -> Optimum:
    """Solve a task by dynamic programming, then play the solution in its robot.

    Args:
        task: A task of `EQUATIONS`.
        grid_points: Grid points along each entry of the state [1].
        torques: Torques to choose from, zero and both limits included [1].

    Raises:
        ConfigError: the task's equation of motion is not known here, or the grid is too coarse.
    """
    if task.name not in EQUATIONS:
        known = ", ".join(sorted(EQUATIONS))
        raise ConfigError(
            f"task: {task.name!r} has no known equation of motion; known: {known}; "
            "--method planner needs none"
        )
    if grid_points < 11:
        raise ConfigError(f"grid = {grid_points}: at least 11 points along each axis")
    if torques < 3 or torques % 2 == 0:
        raise ConfigError(f"torques = {torques}: an odd number from 3 on, to have zero among them")
    began = time.perf_counter()
    limit = task.spec.effort_limits[0]
    grid = Grid(
        Axis(-math.pi, math.pi, grid_points, periodic=True),
        Axis(-MAX_SPEED, MAX_SPEED, grid_points),
    )
    motion = EQUATIONS[task.name]

    def step(states: Array, actions: Array) -> tuple[Array, Array]:
        return motion(states, actions), task.rewards(states, actions)

    choices = np.linspace(-limit, limit, torques, dtype=np.float64)[:, None]
    table = backward_induction(step, grid, choices, task.steps)
    states, actions = play(table, step, task, choices)
    achieved = float(task.rewards(states[:-1], actions).sum())
    value = float(table.at(0, states[:1])[0])
    return Optimum(value, achieved, states, actions, time.perf_counter() - began)


def play(table: ValueTable, step: Step, task: Task, choices: Array) -> tuple[Array, Array]:
    """One episode of the table's greedy policy in the task's robot.

    Args:
        table: Values over the episode's `T` steps.
        step: Equation of motion and reward, to look one period ahead.
        task: Reward, robot and start.
        choices: Actions to choose from `(A, 1)`.

    Returns:
        States `(T + 1, 2)` and actions `(T, 1)`.
    """
    robot = task.robot()
    states = [robot.reset(np.random.default_rng(0))]
    actions = []
    for k in range(task.steps):
        here = np.repeat(states[-1][None], len(choices), axis=0)
        following, rewards = step(here, choices)
        gains = rewards + table.at(k + 1, following)
        actions.append(choices[int(np.argmax(gains))])
        states.append(robot.step(actions[-1]))
    return np.stack(states), np.stack(actions)
