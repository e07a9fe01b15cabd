"""Plans in a thread of its own, so that a tick ends in time whatever happens to planning."""

import statistics
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # the built-in one from 3.11 on
from typing import NamedTuple

from hucrl_ros.planners import Plan

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


Work = Callable[[], Plan | None]
PLANNING_THREAD = "planning"
"""Begin of the names of the Python threads that plan; a controller gives them its priority."""


class Planned(NamedTuple):
    """What came of planning in a tick."""

    plan: Plan | None
    """None: no time for a single iteration, nothing finite came out, or not in time."""
    in_time: bool


class DeadlinePlanner:
    """Waits for a plan no longer than a tick may take.

    The budget is only looked at between iterations, so a single one that stalls (a page fault, a
    core taken away) would hold up the tick and the ones after it. Here it goes on beside them:
    they send the previous plan, and what it finds late serves as such from then on.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        """Plan in the one thread of `executor`; None: in the calling one, without a deadline."""
        self._executor = executor
        self._job: Future[Plan | None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a plan that wasn't ready in time is still being made."""
        return self._job is not None and not self._job.done()

    def run(self, work: Work, patience_s: float) -> Planned:
        """Plan, and wait for it for `patience_s` [s] at most; not while `busy`."""
        if self._executor is None:
            return Planned(work(), True)
        self._job = self._executor.submit(work)
        try:
            plan = self._job.result(max(patience_s, 0.0))
        except FutureTimeoutError:
            # Behind what an earlier agent left running, it may not have begun: then it never will.
            if self._job.cancel():
                self._job = None
            return Planned(None, False)
        self._job = None
        return Planned(plan, True)

    def late(self) -> Plan | None:
        """The plan that wasn't ready in time, once, if it has been finished since."""
        if self._job is None or not self._job.done():
            return None
        job, self._job = self._job, None
        return job.result()

    def finish(self) -> None:
        """Wait until nothing runs, and drop what came out."""
        if self._job is not None:
            self._job.exception()
            self._job = None
