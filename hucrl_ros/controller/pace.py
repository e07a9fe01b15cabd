"""Which joint states get a command, and whether they come often enough, by their stamps."""

import statistics
from collections import deque

from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.controller.timing import OUTAGE

TOLERANCE = 0.2
"""Largest deviation of the joint states' period from the control period at which each of them
gets a command [control periods]."""
GAPS = 20
"""Times between two joint states that are looked at."""
OVERTAKEN = 2.0
"""[control periods] A joint state that is older than the newest one by less was overtaken on its
way; beyond, the clock has started again."""


class Pace:
    """Keeps commands in step with the control period, however fast joint states come.

    Of a driver that publishes once in a control period each joint state is due. Of a faster one
    it is the joint state closest to the next multiple of the control period.

    A controller may miss joint states, which makes the times between those that it hears longer
    but never shorter. So they come too seldom only if three quarters of these times are too long.
    """

    def __init__(self) -> None:
        self._gaps: deque[int] = deque(maxlen=GAPS)
        self._newest_ns: int | None = None
        self._next_ns: int | None = None
        self._passed = False
        self._unstamped = 0
        self._back_ns = 0
        self.overtaken = 0
        """Joint states that a newer one had overtaken."""

    def see(self, stamp_ns: int) -> bool:
        """Take in a joint state's stamp [ns]; returns whether it is newer than all before."""
        newest = self._newest_ns
        if stamp_ns == newest:
            self._unstamped += stamp_ns == 0
            return False
        if newest is not None and stamp_ns > newest:
            self._gaps.append(stamp_ns - newest)
        elif newest is not None:  # the clock has started again
            self._gaps.clear()
            self._back_ns = newest - stamp_ns
        self._newest_ns = stamp_ns
        return True

    def is_overtaken(self, stamp_ns: int, period: float) -> bool:
        """Whether a newer joint state came before this one; a control period is `period` [s]."""
        newest = self._newest_ns
        if newest is None or not 0 < newest - stamp_ns < OVERTAKEN * period * NANOSECONDS:
            return False
        self.overtaken += 1
        return True

    def start(self) -> None:
        """An episode begins: the next joint state is due."""
        self._next_ns = None
        self._back_ns = 0

    def is_due(self, stamp_ns: int, period: float) -> bool:
        """Whether a joint state that was seen gets a command, one a control period [s]."""
        if self._next_ns is None or not self._gaps:
            return True
        gap = statistics.median_low(self._gaps)
        if gap >= (1 - TOLERANCE) * period * NANOSECONDS:
            return True
        return stamp_ns >= self._next_ns - gap // 2

    def answered(self, stamp_ns: int, period: float) -> None:
        """A joint state got its command."""
        period_ns = round(period * NANOSECONDS)
        # In step with the multiples of the period, until one was missed.
        late = 0 if self._next_ns is None else stamp_ns - self._next_ns
        self._next_ns = stamp_ns + period_ns - (late if 2 * abs(late) < period_ns else 0)

    @property
    def outage(self) -> str:
        """Why the episode is over: nobody could tell later what came when; empty if it isn't."""
        if not self._back_ns:
            return ""
        return f"{OUTAGE}: stamps of joint_states went back by {self._back_ns / NANOSECONDS:.3g} s"

    def problem(self, period: float) -> str:
        """Why joint states can't be controlled at a period [s], in one line; empty if they can.

        It is empty also as long as too few joint states have been seen.
        """
        if self._unstamped >= GAPS:
            return (
                "joint_states: their stamps are 0, so nobody can tell when they were measured: "
                "have the driver fill in header.stamp"
            )
        if self._passed or len(self._gaps) < GAPS:
            return ""
        quartile = sorted(self._gaps)[len(self._gaps) // 4] / NANOSECONDS
        self._passed = quartile <= (1 + TOLERANCE) * period
        if self._passed:
            return ""
        return (
            f"joint_states: one every {1e3 * quartile:.3g} ms ({1 / quartile:.3g} Hz) by their "
            f"stamps; the control period is {1e3 * period:.3g} ms ({1 / period:.3g} Hz): have the "
            f"driver publish at {1 / period:.3g} Hz or faster, or start a run with a longer period"
        )
