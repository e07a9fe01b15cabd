"""Plans in a thread of its own, so that a tick ends in time whatever happens to planning."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # the built-in one from 3.11 on
from typing import NamedTuple

from hucrl_ros.planners import Plan

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
