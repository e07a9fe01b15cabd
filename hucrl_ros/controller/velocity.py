"""Velocities from positions, for robots that measure none, or poor ones."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SPAN = (0.9, 8.0)
"""Positions tell a velocity if they span so many windows: fewer would make much of an encoder's
steps, more may hold a reset. Without such positions a joint is taken to be at rest."""
KEPT = 1000
"""Positions that are remembered at least: half a second of a fast driver's."""


class VelocityEstimator:
    """The slope of the positions in a window that ends at a moment, by least squares.

    It tells the velocity in the middle of the window. A learner, which knows what came after,
    puts it there (`bags.course.centred`). A controller can't: it takes positions of that moment as
    well, and lets the model follow the commands that have been in force since
    (`controller.timing.DelayCompensation`).
    """

    def __init__(self, window: float) -> None:
        """Slopes over `window` [s] of the newest positions."""
        self._least, self._most = (round(1e9 * share * window) for share in SPAN)
        self._samples: deque[tuple[int, Array]] = deque(maxlen=KEPT)

    def reset(self) -> None:
        """Forget all positions: the clock may start again."""
        self._samples.clear()

    def add(self, stamp_ns: int, positions: Array) -> None:
        """Take in positions `(n,)` [rad or m]; those that aren't newer than the newest are old."""
        if not self._samples or stamp_ns > self._samples[-1][0]:
            self._samples.append((stamp_ns, positions))

    def at(self, stamp_ns: int) -> Array:
        """Velocities `(n,)` from the positions up to `stamp_ns` [rad/s or m/s]."""
        chosen: list[tuple[int, Array]] = []
        for sample in reversed(self._samples):
            if sample[0] > stamp_ns:
                continue
            if stamp_ns - sample[0] > self._most:
                break
            chosen.append(sample)
            if stamp_ns - sample[0] >= self._least:
                return _slope(chosen, stamp_ns)
        return np.zeros_like(self._samples[-1][1]) if self._samples else np.zeros(0)


def _slope(samples: list[tuple[int, Array]], stamp_ns: int) -> Array:
    times = np.array([stamp - stamp_ns for stamp, _ in samples]) / 1e9
    # An encoder may start again after a whole turn.
    positions = np.unwrap([position for _, position in samples], axis=0)
    times -= times.mean()
    slope: Array = times @ positions / (times @ times)
    return slope
