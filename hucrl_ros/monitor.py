"""What can be said of an episode while it is being played."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hucrl_ros.envs.base import Array
from hucrl_ros.errors import JointStateError
from hucrl_ros.runtime.joint_state import JointStateReader
from hucrl_ros.ticks import TickRecord

if TYPE_CHECKING:
    from hucrl_ros.tasks import Task

_KEPT_STATES = 1000
"""Joint states kept until their tick arrives."""


class EpisodeMonitor:
    """Return so far and tick times, from joint states and ticks as they come.

    The live return takes the efforts that were sent; the summary's return, from the bag, those
    that were applied.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._reader = JointStateReader(task.spec.joint_names)
        self.start()

    def start(self) -> None:
        """Forget the last episode."""
        self._reader.reset()
        self._states: dict[int, Array] = {}
        self._pairs: list[tuple[Array, tuple[float, ...]]] = []
        self._return = 0.0
        self._tick_ms: list[float] = []
        self._steps = 0
        self.misses = 0
        """Ticks later than the control period."""

    @property
    def steps(self) -> int:
        """Ticks so far, by their own count: a slow reader may lose some messages."""
        return self._steps

    def see_state(
        self,
        names: list[str],
        positions: list[float],
        velocities: list[float],
        stamp_ns: int,
    ) -> None:
        """Take in a joint state; one that makes no sense is for the controller to report."""
        if self._reader.is_repetition(stamp_ns):
            return
        try:
            self._states[stamp_ns] = self._reader.read(names, positions, velocities, stamp_ns)
        except JointStateError:
            return
        if len(self._states) > _KEPT_STATES:
            del self._states[next(iter(self._states))]

    def see_tick(self, tick: TickRecord) -> None:
        """Take in a tick."""
        self._tick_ms.append(tick.tick_ms)
        self._steps = tick.step + 1
        self.misses += tick.missed
        state = self._states.pop(tick.stamp_ns, None)
        if state is not None:
            self._pairs.append((state, tick.action))

    def return_so_far(self) -> float | None:
        """Sum of the rewards so far; None before the first."""
        if self._pairs:
            states, actions = zip(*self._pairs, strict=True)
            self._pairs = []
            self._return += float(self._task.rewards(np.array(states), np.array(actions)).sum())
        return self._return if self._tick_ms else None

    def tick_quantiles(self) -> tuple[float, float] | None:
        """Median and 99% quantile of the tick times [ms]; None before the first tick."""
        if not self._tick_ms:
            return None
        p50, p99 = np.percentile(self._tick_ms, [50, 99]).tolist()
        return p50, p99
