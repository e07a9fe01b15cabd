"""Time that a control tick may plan for."""

import time
from collections.abc import Callable


class Budget:
    """Allows an iteration only if it will probably end in time.

    The duration of an iteration is a running average of those measured. Where not even one
    fits, the average is slowly forgotten, so that one long stall doesn't end planning for good.
    """

    WEIGHT = 0.1
    """Of a new measurement, and of forgetting."""

    def __init__(
        self, seconds: float | None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Allow `seconds` a tick; None: no limit, and the clock is never read."""
        self.seconds = seconds
        self._clock = clock
        self._estimate = 0.0
        self._deadline = 0.0
        self._iteration_start: float | None = None

    def start(self, spent_s: float = 0.0) -> None:
        """A tick begins, `spent_s` [s] after what it answers."""
        self._iteration_start = None
        if self.seconds is not None:
            self._deadline = self._clock() + self.seconds - spent_s

    def go_on(self) -> bool:
        """The last iteration ended, if there was one; is there time for another?"""
        if self.seconds is None:
            return True
        first = self._iteration_start is None
        now = self.stop()
        if now + self._estimate <= self._deadline:
            self._iteration_start = now
            return True
        if first:
            self._estimate *= 1.0 - self.WEIGHT
        return False

    def stop(self) -> float:
        """The last iteration ended; returns the clock's time [s] (0 without a limit)."""
        if self.seconds is None:
            return 0.0
        now = self._clock()
        if self._iteration_start is not None:
            duration = now - self._iteration_start
            weight = self.WEIGHT if self._estimate > 0.0 else 1.0
            self._estimate += weight * (duration - self._estimate)
            self._iteration_start = None
        return now
