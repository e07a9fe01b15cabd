"""Time in the control loop: how long planning may take, when commands act, what an outage is.

Only the clocks that are handed in are read.
"""

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # the built-in one from 3.11 on
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.schema import ControlSettings, SafetySettings
from hucrl_ros.planners import Plan

Array = NDArray[np.float64]

LOCKSTEP_PATIENCE = 5.0
"""[s] In lockstep physics and controller wait for each other, so only what hangs is worth a trip:
a process that a loaded machine holds up is not."""
OUTAGE = "outage"
"""First word of the line that says why an episode is over, where it may be played again."""
STOPPED = "stopped on the topic"
"""What such a line says where somebody wished it; the topic's name follows."""
SHORTEST_OUTAGE = 0.5
"""[s] What is shorter ends no episode, however short the control period: a machine may be busy."""


def outage_limit(safety: SafetySettings, period: float) -> float:
    """How long an episode survives in real time in which nobody controls the robot [s].

    Args:
        safety: Its `outage_periods`, and `stale_periods`, after which the safe command is sent.
        period: Control period [s].
    """
    periods = max(safety.outage_periods, safety.stale_periods + 1)
    return max(SHORTEST_OUTAGE, periods * period)


REMEMBERED_ITERATIONS = 9
"""Iterations whose median duration is what the next one is expected to take."""


class Budget:
    """Allows an iteration only if it will probably end in time: of a planner, or a safety filter.

    The median ignores a single stall. Where not even one iteration fits, the oldest measurement
    is forgotten, so that planning is tried again when the machine may be faster.
    """

    def __init__(
        self, seconds: float | None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Allow `seconds` a tick; None: no limit, and the clock is never read."""
        self.seconds = seconds
        self._clock = clock
        self._durations: deque[float] = deque(maxlen=REMEMBERED_ITERATIONS)
        self._deadline = 0.0
        self._iteration_start: float | None = None
        self._least = 0
        self.granted = 0
        """Iterations allowed since `start`; not counted without a limit."""
        self.refused = False
        """Whether there was no time for another, or none was allowed."""
        self.most: int | None = None
        """Allow no more of them; for `replay`, where what time allowed is known."""

    def start(self, spent_s: float = 0.0) -> None:
        """A tick begins, `spent_s` [s] after what it answers."""
        self._iteration_start = None
        self._least, self.granted, self.refused = 0, 0, False
        if self.seconds is not None:
            self._deadline = self._clock() + self.seconds - spent_s

    def allow_one(self) -> None:
        """Allow the first iteration of this tick in any case: nobody waits for it."""
        self._least = 1

    def left(self) -> float:
        """Time until the budget is spent [s]; 0 without a limit."""
        return 0.0 if self.seconds is None else self._deadline - self._clock()

    def go_on(self) -> bool:
        """The last iteration ended, if there was one; is there time for another?"""
        if self.seconds is None:
            return True
        first = self._iteration_start is None
        now = self.stop()
        expected = self.expected
        self.refused = self.granted == self.most
        if self.refused:
            return False
        if self.granted < self._least or now + expected <= self._deadline:
            self._iteration_start = now
            self.granted += 1
            return True
        self.refused = True
        if first and self._durations:
            self._durations.popleft()
        return False

    @property
    def expected(self) -> float:
        """What an iteration takes [s]; 0: nothing is known."""
        return statistics.median(self._durations) if self._durations else 0.0

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


PLANNING_THREAD = "planning"
"""Begin of the names of the Python threads that plan; a controller gives them its priority."""


class Planned(NamedTuple):
    """What came of planning in a tick."""

    plan: Plan | None
    """None: no time for a single iteration, nothing finite came out, or not in time."""
    in_time: bool
    begun: bool = True
    """Planning began: its random numbers were drawn."""


class DeadlinePlanner:
    """Waits for a plan no longer than a tick may take.

    The budget is only looked at between iterations, so a single one that stalls (a page fault, a
    core taken away) would hold up the tick and the ones after it. Here it goes on beside them:
    they send the previous plan, and what it finds late serves as such from then on. So does one
    of which it is known that it takes too long.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        """Plan in the one thread of `executor`; None: in the calling one, without a deadline."""
        self._executor = executor
        self._job: Future[Plan | None] | None = None

    @property
    def beside(self) -> bool:
        """Whether plans are made beside the calling thread."""
        return self._executor is not None

    @property
    def pending(self) -> bool:
        """Whether a plan wasn't ready in time, and hasn't been taken or dropped since."""
        return self._job is not None

    @property
    def busy(self) -> bool:
        """Whether a plan that wasn't ready in time is still being made."""
        return self._job is not None and not self._job.done()

    def run(self, work: Callable[[], Plan | None], patience_s: float | None) -> Planned:
        """Plan, and wait for it for `patience_s` [s] at most, None: not at all; not while `busy`.

        A plan that hasn't even begun after some patience never will.
        """
        if self._executor is None:
            return Planned(work(), True)
        self._job = self._executor.submit(work)
        if patience_s is None:
            return Planned(None, False)
        try:
            plan = self._job.result(max(patience_s, 0.0))
        except FutureTimeoutError:
            # It may not have, behind what an earlier agent left running.
            begun = not self._job.cancel()
            if not begun:
                self._job = None
            return Planned(None, False, begun)
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


NOTICEABLE = 0.1
"""Share of the control period above which `auto` compensates a delay."""
REMEMBERED_TICKS = 25
"""Ticks whose median duration is what the next one is expected to take."""
SLACK = 0.1
"""Share of a period by which a command may be in force longer and still be one step of the
model: the model is asked once a period, not twice because a command was a little late."""
NEGLIGIBLE = 1e-3
"""Share of a period that is left out."""


class InForce(NamedTuple):
    """A command that the robot is under before the next one takes effect."""

    command: Array
    """`(q,)` as it was sent."""
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

    def __init__(
        self, period: float, action_dim: int, settings: ControlSettings, age: float = 0.0
    ) -> None:
        """Compensate as `settings.latency_compensation` says.

        Args:
            period: Control period [s].
            action_dim: Length q of an action.
            settings: What to do, and the delay that the loop can't see.
            age: How much older than its joint state the state is that is planned from [s].
        """
        self.age = age
        self._period = period
        self._mode = settings.latency_compensation
        self._extra = settings.extra_delay
        self._ticks: deque[float] = deque(maxlen=REMEMBERED_TICKS)
        self._none = np.zeros(action_dim)
        self.shares: tuple[float, ...] = ()
        """For how long each command acts that the last `coming` told of, the newest one last and
        none left out [control periods]."""
        self._commands: deque[tuple[float, Array]] = deque()

    @property
    def delay(self) -> float:
        """d, from the receipt of a joint state until its command takes effect [s]."""
        return (statistics.median(self._ticks) if self._ticks else 0.0) + self._extra

    @property
    def active(self) -> bool:
        """Whether states are predicted."""
        if self._mode == "auto":
            return self.delay + self.age > NOTICEABLE * self._period
        return self._mode == "always"

    def reset(self) -> None:
        """The robot is under no command and none is on its way."""
        self._commands.clear()

    def ticked(self, duration: float) -> None:
        """A tick took `duration` [s]."""
        self._ticks.append(duration)

    def sent(self, command: Array, now: float) -> None:
        """A command `(q,)` was sent at `now` [s]; it holds until the next one."""
        self._forget_before(now - self.age)
        self._commands.append((now + self._extra, command))

    def coming(self, received: float, before: Array | None = None) -> tuple[InForce, ...]:
        """The commands in force from `received` [s] less the age to `received` + d, oldest first.

        Args:
            received: When the joint state came.
            before: `(q,)` what the robot is under until the first command acts; None: zero.
        """
        self.shares = ()
        if not self.active:
            return ()
        begin, end = received - self.age, received + self.delay
        self._forget_before(begin)
        starts = [(-np.inf, self._none if before is None else before), *self._commands]
        ends = [start for start, _ in starts[1:]] + [end]
        shares = [
            (min(until, end) - max(start, begin)) / self._period
            for (start, _), until in zip(starts, ends, strict=True)
        ]
        first = next((k for k, share in enumerate(shares) if share > NEGLIGIBLE), len(shares))
        self.shares = tuple(shares[first:])
        return in_force([command for _, command in starts], self.shares)

    def _forget_before(self, now: float) -> None:
        """Drop commands that were replaced before `now` [s]."""
        while len(self._commands) > 1 and self._commands[1][0] <= now:
            self._commands.popleft()


def in_force(commands: Sequence[Array], shares: Sequence[float]) -> tuple[InForce, ...]:
    """The newest of `commands` `(q,)`, for so many control periods each, in steps of about one."""
    coming: list[InForce] = []
    for command, share in zip(commands[len(commands) - len(shares) :], shares, strict=True):
        if share > NEGLIGIBLE:
            pieces = max(int(np.ceil(share - SLACK)), 1)
            coming += [InForce(command, share / pieces)] * pieces
    return tuple(coming)
