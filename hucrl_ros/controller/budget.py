"""Time that a control tick may plan for."""

import statistics
import time
from collections import deque
from collections.abc import Callable

REMEMBERED = 9
"""Iterations whose median duration is what the next one is expected to take."""


class Budget:
    """Allows an iteration only if it will probably end in time.

    The median ignores a single stall. Where not even one iteration fits, the oldest measurement
    is forgotten, so that planning is tried again when the machine may be faster.
    """

    def __init__(
        self, seconds: float | None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Allow `seconds` a tick; None: no limit, and the clock is never read."""
        self.seconds = seconds
        self._clock = clock
        self._durations: deque[float] = deque(maxlen=REMEMBERED)
        self._deadline = 0.0
        self._iteration_start: float | None = None

    def start(self, spent_s: float = 0.0) -> None:
        """A tick begins, `spent_s` [s] after what it answers."""
        self._iteration_start = None
        if self.seconds is not None:
            self._deadline = self._clock() + self.seconds - spent_s

    def left(self) -> float:
        """Time until the budget is spent [s]; 0 without a limit."""
        return 0.0 if self.seconds is None else self._deadline - self._clock()

    def go_on(self) -> bool:
        """The last iteration ended, if there was one; is there time for another?"""
        if self.seconds is None:
            return True
        first = self._iteration_start is None
        now = self.stop()
        expected = statistics.median(self._durations) if self._durations else 0.0
        if now + expected <= self._deadline:
            self._iteration_start = now
            return True
        if first and self._durations:
            self._durations.popleft()
        return False

    def stop(self) -> float:
        """The last iteration ended; returns the clock's time [s] (0 without a limit)."""
        if self.seconds is None:
            return 0.0
        now = self._clock()
        if self._iteration_start is not None:
            self._durations.append(now - self._iteration_start)
            self._iteration_start = None
        return now

    def forget(self) -> None:
        """Expect nothing of the next iteration."""
        self._durations.clear()
