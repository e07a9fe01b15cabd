"""Where the robot will be when a command takes effect."""

import statistics
from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.schema import ControlSettings

Array = NDArray[np.float64]

NOTICEABLE = 0.1
"""Share of the control period above which `auto` compensates a delay."""
REMEMBERED = 25
"""Ticks whose median duration is what the next one is expected to take."""
SLACK = 0.1
"""Share of a period by which a command may be in force longer and still be one step of the
model: the model is asked once a period, not twice because a command was a little late."""
NEGLIGIBLE = 1e-3
"""Share of a period that is left out."""


class InForce(NamedTuple):
    """A command that the robot is under before the next one takes effect."""

    effort: Array
    """`(q,)` [N m or N]."""
    share: float
    """For how long [control periods]: up to 1 + `SLACK`."""


class DelayCompensation:
    """Remembers the commands that were sent, and tells which of them are still to come.

    A command for the joint state received at time t takes effect at t + d, where the delay d is
    what a tick usually takes (measured here: the median of the recent ones) plus `extra_delay`
    for what the loop can't see: transport in both directions and the actuator. Until then the
    robot is under the commands sent before, each from its own sending time + `extra_delay` on,
    whoever chose it: planner, fallback, or guard. So the state to plan from is the measured one,
    moved by the model through these commands one after the other, the oldest first.
    """

    def __init__(self, period: float, action_dim: int, settings: ControlSettings) -> None:
        """Compensate as `settings.latency_compensation` says.

        Args:
            period: Control period [s].
            action_dim: Length q of an action.
            settings: What to do, and the delay that the loop can't see.
        """
        self._period = period
        self._mode = settings.latency_compensation
        self._extra = settings.extra_delay
        self._ticks: deque[float] = deque(maxlen=REMEMBERED)
        self._none = np.zeros(action_dim)
        self._commands: deque[tuple[float, Array]] = deque()

    @property
    def delay(self) -> float:
        """d, from the receipt of a joint state until its command takes effect [s]."""
        return (statistics.median(self._ticks) if self._ticks else 0.0) + self._extra

    @property
    def active(self) -> bool:
        """Whether states are predicted."""
        if self._mode == "auto":
            return self.delay > NOTICEABLE * self._period
        return self._mode == "always"

    def reset(self) -> None:
        """The robot is under no effort and no command is on its way."""
        self._commands.clear()

    def ticked(self, duration: float) -> None:
        """A tick took `duration` [s]."""
        self._ticks.append(duration)

    def sent(self, effort: Array, now: float) -> None:
        """A command `(q,)` was sent at `now` [s]; it holds until the next one."""
        self._forget_before(now)
        self._commands.append((now + self._extra, effort))

    def coming(self, received: float) -> tuple[InForce, ...]:
        """The commands in force between `received` [s] and `received` + d, the oldest first."""
        if not self.active:
            return ()
        self._forget_before(received)
        end = received + self.delay
        starts = [(-np.inf, self._none), *self._commands]
        ends = [start for start, _ in starts[1:]] + [end]
        coming: list[InForce] = []
        for (start, effort), until in zip(starts, ends, strict=True):
            coming += self._split(effort, min(until, end) - max(start, received))
        return tuple(coming)

    def _forget_before(self, now: float) -> None:
        """Drop commands that were replaced before `now` [s]."""
        while len(self._commands) > 1 and self._commands[1][0] <= now:
            self._commands.popleft()

    def _split(self, effort: Array, seconds: float) -> list[InForce]:
        """A command in steps of about a period."""
        share = seconds / self._period
        if share <= NEGLIGIBLE:
            return []
        pieces = max(int(np.ceil(share - SLACK)), 1)
        return [InForce(effort, share / pieces)] * pieces
