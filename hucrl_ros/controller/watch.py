"""What is judged of joint states and commands by their times; no clock is read.

When the watchdog must act in the controller's place, how long an outage an episode survives, and
whether joint states come once a control period.
"""

from collections import deque

from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.controller.ticks import NANOSECONDS

LOCKSTEP_PATIENCE = 5.0
"""[s] In lockstep physics and controller wait for each other, so only what hangs is worth a trip:
a process that a loaded machine holds up is not."""
FIRST_PATIENCE = 5.0
"""[s] Before an episode's first command the robot is under no effort, and DDS may need seconds
to make the watchdog hear commands at all."""
HEADROOM = 0.5
"""[periods] The watch trips earlier by this, so that the safe command is out in time."""

OUTAGE = "outage"
"""First word of the line that says why an episode is over, where it may be played again."""
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


def patience(stale_periods: float, period: float, lockstep: bool) -> float:
    """How long a joint state may wait for its command [s].

    Args:
        stale_periods: Setting `safety.stale_periods` [control periods].
        period: Control period [s].
        lockstep: Whether physics waits for each command.
    """
    limit = max(stale_periods - HEADROOM, 1.0) * period
    return max(limit, LOCKSTEP_PATIENCE) if lockstep else limit


class Watch:
    """Follows joint states and commands of an episode and tells when nobody controls the robot.

    While armed it trips when the controller's process has ended, or when a joint state waits for
    a command for longer than `limit_s`. A hung controller that sends a command again clears the
    trip; an ended one must be armed again.
    """

    def __init__(self, limit_s: float = LOCKSTEP_PATIENCE) -> None:
        self.limit_s = limit_s
        """[s] Longest wait of a joint state for its command."""
        self._armed = False
        self._dead = False
        self._tripped = False
        self._commanded = False
        self._stamp_ns: int | None = None
        self._waiting_since: float | None = None

    @property
    def armed(self) -> bool:
        """Whether an episode is under way."""
        return self._armed

    @property
    def tripped(self) -> bool:
        """Whether the safe command must be sent."""
        return self._tripped

    def arm(self) -> None:
        """An episode begins."""
        self._armed, self._dead, self._tripped, self._commanded = True, False, False, False
        self._stamp_ns, self._waiting_since = None, None

    def disarm(self) -> None:
        """The episode is over."""
        self._armed = self._tripped = False

    def joint_state(self, stamp_ns: int, now: float) -> bool:
        """A joint state with stamp `stamp_ns` [ns] came at `now` [s]; returns whether it's new."""
        if not self._armed or stamp_ns == self._stamp_ns:
            return False
        self._stamp_ns = stamp_ns
        if self._waiting_since is None:
            self._waiting_since = now
        return True

    def command(self) -> bool:
        """The controller sent a command; returns whether that cleared a trip."""
        self._waiting_since = None
        self._commanded = True
        cleared = self._tripped and not self._dead
        if cleared:
            self._tripped = False
        return cleared

    def ended(self) -> None:
        """The controller's process has ended."""
        self._dead = True

    def excuse(self, stall: float, now: float) -> None:
        """Up to `now` [s] the watch was held up for `stall` [s]; it may have missed a command."""
        if self._waiting_since is not None:
            self._waiting_since = min(self._waiting_since + stall, now)

    def waited(self, now: float) -> float:
        """How long a joint state has been waiting for a command at `now` [s]; 0 if none is."""
        return 0.0 if self._waiting_since is None else now - self._waiting_since

    def check(self, now: float) -> str:
        """Why the watch trips at `now` [s]; empty if it doesn't, or already did."""
        if not self._armed or self._tripped:
            return ""
        waited = self.waited(now)
        limit_s = self.limit_s if self._commanded else max(self.limit_s, FIRST_PATIENCE)
        if not self._dead and waited < limit_s:
            return ""
        self._tripped = True
        if self._dead:
            after = f", {1e3 * waited:.1f} ms after a joint state that waits for a command"
            return f"the controller's process has ended{after if waited else ''}"
        return (
            f"no command {1e3 * waited:.1f} ms after a joint state (limit {1e3 * limit_s:.1f} ms)"
        )


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
