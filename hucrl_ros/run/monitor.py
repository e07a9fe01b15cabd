"""What can be said of an episode while it is being played."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hucrl_ros.controller.state_reader import JointReading, PoseBuffer, StateReader
from hucrl_ros.controller.ticks import TickRecord
from hucrl_ros.errors import StateError
from hucrl_ros.robots.mujoco_robot import Array

if TYPE_CHECKING:
    from hucrl_ros.tasks import Task

_KEPT_STATES = 1000
"""Joint states kept until their tick arrives."""
_POSE_PERIODS = 10.0
"""Age of an object's pose up to which it does for the live return [control periods]."""


class EpisodeMonitor:
    """Return so far and tick times, from joint states, poses and ticks as they come.

    The live return takes the efforts that were sent, and the pose that had come when the tick
    came; the summary's return, from the bag, the efforts that were applied and the right pose.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self.poses = PoseBuffer()
        """What was heard of object and goal, at any time."""
        self._reader = StateReader(task.spec, self.poses, _POSE_PERIODS)
        self.start()

    def start(self) -> None:
        """Forget the last episode."""
        self._reader.reset()
        self._readings: dict[int, JointReading] = {}
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

    def see_joint_state(self, reading: JointReading) -> None:
        """Take in a joint state."""
        self._readings[reading.stamp_ns] = reading
        if len(self._readings) > _KEPT_STATES:
            del self._readings[next(iter(self._readings))]

    def see_tick(self, tick: TickRecord) -> None:
        """Take in a tick."""
        self._tick_ms.append(tick.tick_ms)
        self._steps = tick.step + 1
        self.misses += tick.missed
        reading = self._readings.pop(tick.stamp_ns, None)
        if reading is None:
            return
        try:
            self._pairs.append((self._reader.read(reading), tick.action))
        except StateError:
            return  # one that makes no sense is for the controller to report

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
