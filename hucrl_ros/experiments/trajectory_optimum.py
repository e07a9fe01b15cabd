"""The best efforts of a whole episode at once, by iLQR on MuJoCo's own dynamics.

Where rewards slope and nothing strikes anything, that comes nearer to the best achievable return
than planning anew in each period does. It is a local optimum of one start.
"""

import os
import time

import mujoco
import numpy as np
from mujoco.rollout import Rollout
from numpy.typing import NDArray

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.optimum import Planned, count_outside
from hucrl_ros.planners import Rollouts
from hucrl_ros.planners.ilqr import Ilqr
from hucrl_ros.robots import MujocoRobot
from hucrl_ros.robots.mujoco_robot import Array
from hucrl_ros.tasks import Task

KNOTS = 8
"""Efforts to begin from are lines between so many random ones, spread over the episode."""
LEAST_SHARE = 0.03
"""Their standard deviation is that share of the limits at least, and 1 at most."""
AGAIN = 10
"""Refinements between two looks whether it goes on getting better."""
ENOUGH = 1e-4
"""Share of the return by which it has to, or that was the last."""


class TrueSystem:
    """A robot in MuJoCo as what iLQR plans on: `planners.base.System`, and `Imagine`."""

    discount = 1.0
    angles: tuple[int, ...] = ()
    state_bounds: NDArray[np.float32]

    def __init__(self, task: Task, robot: MujocoRobot, begin: Array, threads: int) -> None:
        """Plan from where `robot` is now.

        Args:
            task: Gives the rewards.
            robot: Where to start.
            begin: `(T, q)` efforts to begin from, in shares of the limits.
            threads: Threads that MuJoCo runs states in.
        """
        self.steps = task.steps
        self.state_bounds = np.full((2, robot.spec.predicted_dim), np.inf, np.float32)
        self.state = robot.state.astype(np.float32)
        self._task, self._robot, self._begin = task, robot, begin
        self._limits = np.asarray(robot.spec.effort_limits)
        self._rollout = Rollout(nthread=threads)
        self._data = [mujoco.MjData(robot.model) for _ in range(threads)]
        kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
        self._physics = np.empty(mujoco.mj_stateSize(robot.model, kind))
        mujoco.mj_getState(robot.model, robot.data, self._physics, kind)

    def __call__(
        self, offsets: NDArray[np.float32], noise: NDArray[np.float32], feedback: float
    ) -> Rollouts:
        """Of the particles iLQR asks for the actions of its first trajectory alone."""
        none = np.empty(0, np.float32)
        return Rollouts(none, none, self._begin[None].astype(np.float32))

    def step(
        self, states: Array, actions: Array, noise: Array | float = 0.0
    ) -> tuple[Array, Array]:
        """Next states `(N, p)` and rewards `(N,)`; there is no noise."""
        robot, nq = self._robot, self._robot.model.nq
        end = 1 + nq + robot.model.nv  # Time comes first.
        physics = np.repeat(self._physics[None], len(states), axis=0)
        robot.write_joints(states, physics[:, 1 : 1 + nq], physics[:, 1 + nq : end])
        efforts = np.repeat((actions * self._limits)[:, None], robot.substeps, axis=1)
        following, _ = self._rollout.rollout(robot.model, self._data, physics, efforts)
        reached = robot.states(following[:, -1, 1 : 1 + nq], following[:, -1, 1 + nq : end])
        return reached, self.rewards(states, actions)

    def rewards(self, states: Array, actions: Array) -> Array:
        """Rewards `(N,)`."""
        return self._task.rewards(states, actions * self._limits)

    def values(self, states: Array) -> Array:
        """The episode's end is the end `(N,)`."""
        return np.zeros(len(states))

    def close(self) -> None:
        """End the threads."""
        self._rollout.close()


def optimise_episode(
    task: Task, iterations: int, tries: int, seed: int, threads: int | None = None
) -> Planned:
    """Improve all efforts of an episode together, and keep the best of some tries.

    Args:
        task: What to play.
        iterations: Refinements of each try, at most.
        tries: The first begins without any effort, the others from smooth random ones.
        seed: Decides the start and what the tries begin from.
        threads: For MuJoCo; None: as many as this process may use.

    Raises:
        ConfigError: the robot takes positions, or its state isn't all that moves.
    """
    robot, spec = task.robot(), task.spec
    others = [*spec.observed, *robot.unseen]
    if spec.command == "position" or others:
        reason = f"{', '.join(others)} moves besides its joints" if others else "takes positions"
        raise ConfigError(
            f"task: {task.name!r}: {reason}; --method ilqr knows robots of efforts or velocities "
            "whose joints are all that moves; --method planner needs none of it"
        )
    began, rng = time.perf_counter(), np.random.default_rng((seed, 0))
    robot.reset(np.random.default_rng(seed))
    settings = PlannerSettings(algorithm="ilqr", horizon=task.steps)
    nothing = np.zeros((task.steps, spec.action_dim))
    best = -np.inf
    states: Array = np.empty(0)
    actions: Array = np.empty(0)
    for number in range(tries):
        begin = _smooth(rng, task.steps, spec.action_dim) if number else nothing
        system = TrueSystem(task, robot, begin, threads or len(os.sched_getaffinity(0)))
        planner = Ilqr(settings, spec.predicted_dim, spec.action_dim)
        planner.prepare(system)
        planner.reset(rng)
        last = -np.inf
        for done in range(0, iterations, AGAIN):
            more = {"iterations": min(AGAIN, iterations - done)}
            planner.settings = settings.model_copy(update=more)
            plan = planner.plan(system, lambda: True, periods=0)
            if plan is None:
                break
            found = plan.planned_return
            if found > best:
                best, states = found, plan.states.astype(np.float64)
                actions = plan.actions * np.asarray(spec.effort_limits)
            if found - last < ENOUGH * abs(found):
                break
            last = found
        system.close()
    if not len(actions):
        raise ConfigError(f"task: {task.name!r}: no finite return from the start of seed {seed}")
    outside = count_outside(task, states, actions)
    return Planned(states, actions, best, outside, time.perf_counter() - began)


def _smooth(rng: np.random.Generator, steps: int, width: int) -> Array:
    """Random actions `(steps, width)` in [-1, 1], of a random size."""
    size = LEAST_SHARE ** rng.uniform()
    knots = size * rng.standard_normal((KNOTS, width))
    places = np.linspace(0.0, KNOTS - 1.0, steps)
    lines = [np.interp(places, range(KNOTS), knots[:, k]) for k in range(width)]
    return np.clip(np.stack(lines, axis=1), -1.0, 1.0)
