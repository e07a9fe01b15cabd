"""Plays a bundle on a robot whose commands arrive late and whose physics waits for nobody.

The clock is simulated, so that equal seeds give equal episodes on any machine.
"""

from collections import deque
from typing import NamedTuple

import numpy as np

from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.latency import DelayCompensation
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot
from hucrl_ros.tasks import Task

_ROUNDING = 1e-9
"""[s] Below it, two times are the same."""


class DelayedEpisode(NamedTuple):
    """One episode."""

    total: float
    """Return, of the efforts that acted."""
    states: Array
    """`(T, p)` at the beginning of each control period."""
    actions: Array
    """`(T, q)` mean effort that acted in each period [N m or N]."""
    compensated: int
    """Ticks that planned from a predicted state [1]."""


class SlowBus:
    """A robot behind a bus: each command acts from `delay` [s] after it was sent."""

    def __init__(self, robot: MujocoRobot, delay: float) -> None:
        self._robot = robot
        self._delay = delay
        self._substep_s: float = robot.spec.period / robot.substeps
        self._command: Array = np.zeros(robot.spec.action_dim)
        self._coming: deque[tuple[float, Array]] = deque()

    def send(self, effort: Array, now: float) -> None:
        """A command `(q,)` is sent at `now` [s]."""
        self._coming.append((now + self._delay, effort))

    def period(self, now: float) -> Array:
        """A control period from `now` [s] on passes; returns the mean effort `(q,)` in it."""
        applied = []
        for k in range(self._robot.substeps):
            while self._coming and self._coming[0][0] <= now + k * self._substep_s + _ROUNDING:
                self._command = self._coming.popleft()[1]
            self._robot.substep(self._command)
            applied.append(self._command)
        return np.asarray(np.mean(applied, axis=0))


def play_delayed(
    bundle: Bundle, task: Task, seed: int, delay: float, tick_s: float, control: ControlSettings
) -> DelayedEpisode:
    """Play an episode; planning has no time limit, so that the seed decides everything.

    Args:
        bundle: What to play.
        task: Its task.
        seed: Of the start and of planning.
        delay: From the sending of a command until it acts [s].
        tick_s: What a tick takes, on the simulated clock [s].
        control: Says whether and for how long a delay is compensated.
    """
    spec, robot = task.spec, task.robot()
    agent, guard = Agent(bundle, None), Guard(spec, bundle.manifest.safety)
    compensation = DelayCompensation(spec.period, spec.action_dim, control)
    bus = SlowBus(robot, delay)
    states, actions, compensated = [robot.reset(np.random.default_rng(seed))], [], 0
    agent.start_episode(seed)
    for step in range(task.steps):
        now, state = step * spec.period, states[-1]
        coming = compensation.coming(now)
        compensated += bool(coming)
        effort = guard.check(agent.act(state, coming=coming).action, state).effort
        compensation.ticked(tick_s)
        compensation.sent(effort, now + tick_s)
        bus.send(effort, now + tick_s)
        actions.append(bus.period(now))
        states.append(robot.state)
    played, applied = np.stack(states[:-1]), np.stack(actions)
    total = float(task.rewards(played, applied).sum())
    return DelayedEpisode(total, played, applied, compensated)
