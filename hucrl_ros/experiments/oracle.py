"""What a planner that knows the true dynamics reaches, to compare learned returns with."""

import csv
import os
import time
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
import torch
from mujoco.rollout import Rollout
from numpy.typing import NDArray

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.planners import Rollouts, make_planner
from hucrl_ros.robots import MujocoRobot
from hucrl_ros.robots.mujoco_robot import Array
from hucrl_ros.tasks import Task


class Planned(NamedTuple):
    """One episode of the planner."""

    states: Array
    """`(T + 1, p)`."""
    actions: Array
    """`(T, q)` efforts [N m or N]."""
    total: float
    """Return."""
    seconds: float
    """Time it took [s]."""


class TrueRollouts:
    """Rolls particles out in MuJoCo itself, from where a robot is now.

    Stands in for a bundle's engine, so that every planner plans on the true dynamics. It has
    no policies and no critic; the last state counts as if the robot could stay there for
    `tail` periods.
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
    """
    began = time.perf_counter()
    spec, robot = task.spec, task.robot()
    states = [robot.reset(np.random.default_rng(seed))]
    imagine = TrueRollouts(
        task, robot, settings.horizon, tail, threads or len(os.sched_getaffinity(0))
    )
    planner = make_planner(settings, spec.predicted_dim, spec.action_dim)
    planner.reset(np.random.default_rng((seed, 0)))
    limits, actions = np.asarray(spec.effort_limits), []
    for _ in range(task.steps):
        plan = planner.plan(imagine, lambda: True)
        share = plan.actions[0].astype(np.float64) if plan else np.zeros(spec.action_dim)
        actions.append(share * limits)
        states.append(robot.step(actions[-1]))
    imagine.close()
    played = np.stack(states), np.stack(actions)
    total = float(task.rewards(played[0][:-1], played[1]).sum())
    return Planned(*played, total, time.perf_counter() - began)


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
            seconds=round(planned.seconds, 1),
        )

    def line(self) -> str:
        """For the terminal."""
        end = "" if np.isnan(self.distance) else f", {100 * self.distance:.1f} cm from the goal"
        return (
            f"{self.task}, rho {self.action_penalty:g}, seed {self.seed}: return {self.total:.2f}"
            f"{end} ({self.planner}, {self.particles} particles x {self.horizon} steps "
            f"x {self.iterations} iterations, {self.seconds:.0f} s)"
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
