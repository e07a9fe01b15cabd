"""Whether joint states come once a control period, judged by their stamps."""

from collections import deque

from hucrl_ros.controller.ticks import NANOSECONDS

TOLERANCE = 0.2
"""Largest deviation of the joint states' period from the control period [control periods]."""
GAPS = 20
"""Times between two joint states that are looked at."""


class RateCheck:
    """Looks at the newest joint states until they have been found to come at the right rate.

    A controller may miss joint states, which makes the times between those that it hears longer
    but never shorter. So they come too often if half of these times are too short, and too
    seldom only if three quarters of them are too long.
    """

    def __init__(self) -> None:
        self._gaps: deque[int] = deque(maxlen=GAPS)
        self._newest_ns: int | None = None
        self._passed = False

    def see(self, stamp_ns: int) -> None:
        """Take in a joint state's stamp [ns]."""
        newest, self._newest_ns = self._newest_ns, stamp_ns
        if newest is None or stamp_ns == newest:
            return
        if stamp_ns < newest:  # the clock has started again
            self._gaps.clear()
        else:
            self._gaps.append(stamp_ns - newest)

    def problem(self, period: float) -> str:
        """What is wrong with the rate for a control period [s], in one line; empty if nothing is.

        It is empty also as long as too few joint states have been seen.
        """
        if self._passed or len(self._gaps) < GAPS:
            return ""
        gaps = sorted(self._gaps)
        median, quartile = (gaps[len(gaps) * k // 4] / NANOSECONDS for k in (2, 1))
        self._passed = median >= (1 - TOLERANCE) * period and quartile <= (1 + TOLERANCE) * period
        if self._passed:
            return ""
        measured = min(median, max(quartile, period))
        return (
            f"joint_states: one every {1e3 * measured:.3g} ms ({1 / measured:.3g} Hz) by their "
            f"stamps; the control period is {1e3 * period:.3g} ms ({1 / period:.3g} Hz): have the "
            f"driver publish at {1 / period:.3g} Hz, or start a run with its period"
        )
