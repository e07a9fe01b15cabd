"""The best achievable return: by dynamic programming, or by planning on the true dynamics.

Dynamic programming needs a task whose equation of motion is known; a planner needs none. A third
way is in `trajectory_optimum.py`.
"""

import csv
import itertools
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
import torch
from mujoco.rollout import Rollout
from numpy.typing import NDArray

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.evaluation import roll_out
from hucrl_ros.planners import Rollouts, make_planner
from hucrl_ros.planners.exact import Axis, Grid, Step, ValueTable, backward_induction
from hucrl_ros.robots import MujocoRobot
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
    periods = itertools.count(1)

    def choose(state: Array) -> Array:
        following, rewards = step(np.repeat(state[None], len(choices), axis=0), choices)
        best: Array = choices[int(np.argmax(rewards + table.at(next(periods), following)))]
        return best

    return roll_out(task.robot(), task.steps, np.random.default_rng(0), choose)


class Planned(NamedTuple):
    """One episode of the planner."""

    states: Array
    """`(T + 1, p)`."""
    actions: Array
    """`(T, q)` efforts [N m or N]."""
    total: float
    """Return."""
    outside: int
    """States beyond a constraint [1]."""
    seconds: float
    """Time it took [s]."""


class TrueRollouts:
    """Rolls particles out in MuJoCo itself, from where a robot is now.

    Stands in for a bundle's engine, so that every planner plans on the true dynamics. It has
    no policies and no critic; the last state counts as if the robot could stay there for
    `tail` periods. A state beyond a constraint costs as much as a whole trajectory may earn, and
    as much again a margin further, so that no reward is worth one.
    """

    def __init__(
        self, task: Task, robot: MujocoRobot, horizon: int, tail: int, threads: int
    ) -> None:
        """Imagine `horizon` control periods of `robot`.

        Args:
            task: Gives the rewards.
            robot: Where to start.
            horizon: H.
            tail: How often the reward of the last state counts, without effort [periods].
            threads: Threads that MuJoCo runs particles in.
        """
        self._task, self._robot = task, robot
        self._horizon, self._tail = horizon, tail
        self._rollout = Rollout(nthread=threads)
        self._data = [mujoco.MjData(robot.model) for _ in range(threads)]
        self._limits = np.asarray(robot.spec.effort_limits)
        kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
        self._start = np.empty(mujoco.mj_stateSize(robot.model, kind))
        self._kind = kind

    @property
    def state(self) -> NDArray[np.float32]:
        """Where the robot is now `(p,)`."""
        return self._robot.state.astype(np.float32)

    def __call__(
        self, offsets: NDArray[np.float32], noise: NDArray[np.float32], feedback: float
    ) -> Rollouts:
        """The outcome of `clip(offsets, -1, 1)`; see `planners.Imagine`."""
        robot, substeps = self._robot, self._robot.substeps
        shares = np.clip(offsets, -1.0, 1.0)
        efforts = shares.astype(np.float64) * self._limits
        mujoco.mj_getState(robot.model, robot.data, self._start, self._kind)
        physics, _ = self._rollout.rollout(
            robot.model, self._data, self._start, np.repeat(efforts, substeps, axis=1)
        )
        coordinates = physics[:, substeps - 1 :: substeps, 1:]  # the first is time
        states = np.empty((len(shares), self._horizon + 1, robot.spec.state_dim))
        states[:, 0] = robot.state
        nq, nv = robot.model.nq, robot.model.nv
        states[:, 1:] = robot.states(coordinates[..., :nq], coordinates[..., nq : nq + nv])
        returns = self._task.rewards(states[:, :-1], efforts).sum(axis=1)
        if self._tail:
            idle = np.zeros((len(shares), len(self._limits)))
            returns = returns + self._tail * self._task.rewards(states[:, -1], idle)
        if self._task.constraint_names:
            rooms = _rooms(self._task, states, efforts)
            beyond = ((rooms < 0) + np.clip(-rooms, 0.0, 1.0)).sum(axis=(1, 2))
            returns -= (self._horizon + self._tail) * self._task.reward_range * beyond
        return Rollouts(returns.astype(np.float32), states.astype(np.float32), shares)

    def close(self) -> None:
        """End the threads."""
        self._rollout.close()


def plan_episode(
    task: Task, settings: PlannerSettings, tail: int, seed: int, threads: int | None = None
) -> Planned:
    """Play an episode by planning anew in each control period on the true dynamics.

    Args:
        task: What to play.
        settings: The planner.
        tail: See `TrueRollouts`.
        seed: Decides the start and what the planner draws.
        threads: For MuJoCo; None: as many as this process may use.

    Raises:
        ConfigError: the robot takes positions.
    """
    if task.spec.command == "position":
        raise ConfigError(
            f"task: {task.name!r} takes positions, whose commands depend on where its joints come "
            "to be; --method planner knows efforts and velocities"
        )
    began = time.perf_counter()
    spec, robot = task.spec, task.robot()
    imagine = TrueRollouts(
        task, robot, settings.horizon, tail, threads or len(os.sched_getaffinity(0))
    )
    planner = make_planner(settings, spec.predicted_dim, spec.action_dim)
    planner.reset(np.random.default_rng((seed, 0)))

    def choose(state: Array) -> Array:
        plan = planner.plan(imagine, lambda: True)
        share = plan.actions[0].astype(np.float64) if plan else np.zeros(spec.action_dim)
        return np.asarray(share * spec.effort_limits)

    states, actions = roll_out(robot, task.steps, np.random.default_rng(seed), choose)
    imagine.close()
    total = float(task.rewards(states[:-1], actions).sum())
    outside = count_outside(task, states, actions)
    return Planned(states, actions, total, outside, time.perf_counter() - began)


def count_outside(task: Task, states: Array, actions: Array) -> int:
    """How many of `states` `(T + 1, p)` are beyond a constraint, under `actions` `(T, q)`."""
    return int((_rooms(task, states, actions) < 0).any(axis=-1).sum())


def _rooms(task: Task, states: Array, actions: Array) -> Array:
    """`(..., T + 1, K)` in margins: `Task.rooms`, with no effort in the last state."""
    return task.rooms(states, np.concatenate([actions, np.zeros_like(actions[..., :1, :])], -2))


class OracleRow(NamedTuple):
    """One episode in a table."""

    task: str
    action_penalty: float
    planner: str
    particles: int
    horizon: int
    iterations: int
    tail: int
    noise: float
    seed: int
    total: float
    """Return."""
    distance: float
    """Between goal and what has to get there at the end [m]; NaN where a task has none."""
    outside: int
    """States beyond a constraint [1]."""
    seconds: float

    @classmethod
    def of(
        cls, task: Task, settings: PlannerSettings, tail: int, seed: int, planned: Planned
    ) -> "OracleRow":
        """The row of an episode."""
        distance = float(task.distance(torch.as_tensor(planned.states[-1])))
        return cls(
            task=task.name,
            action_penalty=task.action_penalty,
            planner=settings.algorithm,
            particles=settings.particles,
            horizon=settings.horizon,
            iterations=settings.iterations,
            tail=tail,
            noise=settings.noise,
            seed=seed,
            total=round(planned.total, 3),
            distance=round(distance, 4),
            outside=planned.outside,
            seconds=round(planned.seconds, 1),
        )

    def line(self) -> str:
        """For the terminal."""
        end = "" if np.isnan(self.distance) else f", {100 * self.distance:.1f} cm from the goal"
        outside = f", {self.outside} states beyond a constraint" if self.outside else ""
        return (
            f"{self.task}, rho {self.action_penalty:g}, seed {self.seed}: return {self.total:.2f}"
            f"{end}{outside} ({self.planner}, {self.particles} particles x {self.horizon} steps "
            f"x {self.iterations} iterations, {self.seconds:.0f} s)"
        )


def check_columns(path: Path) -> None:
    """Look whether rows can be appended to a CSV file, which may not be there yet.

    Raises:
        ConfigError: it has other columns.
    """
    if not path.exists():
        return
    with path.open(newline="", encoding="utf-8") as stream:
        found = next(csv.reader(stream), [])
    if found != list(OracleRow._fields):
        raise ConfigError(
            f"--csv {path}: its columns are {', '.join(found) or 'none'}; expected "
            f"{', '.join(OracleRow._fields)}, or a file that isn't there yet"
        )


def append_row(path: Path, row: OracleRow) -> None:
    """Append a row to a CSV file, which begins with the names of the columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        if new:
            writer.writerow(row._fields)
        writer.writerow(row)
