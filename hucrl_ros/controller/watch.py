"""When the watchdog must act in the controller's place, by the times of what it hears."""

from hucrl_ros.controller.pace import Pace
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.controller.timing import LOCKSTEP_PATIENCE

LABEL = "watchdog"
"""Label in the layout of the watchdog's commands, which tells them from the controller's."""
SENDING = "sending the safe command"
"""How the watchdog's line on a trip ends, if a command could be sent."""
FIRST_PATIENCE = 5.0
"""[s] Before an episode's first command the robot is under no effort, and DDS may need seconds
to make the watchdog hear commands at all."""
HEADROOM = 0.5
"""[periods] The watch trips earlier by this, so that the safe command is out in time."""


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

    def __init__(self, limit_s: float = LOCKSTEP_PATIENCE, period: float | None = None) -> None:
        self.limit_s = limit_s
        """[s] Longest wait of a joint state for its command."""
        self.period = period
        """[s] Control period, at which a faster driver's joint states wait for commands; None:
        each of them does."""
        self._armed = False
        self._dead = False
        self._tripped = False
        self._commanded = False
        self._pace = Pace()
        self._newest_ns = self._due_ns = 0
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
        self._pace, self._waiting_since = Pace(), None

    def disarm(self) -> None:
        """The episode is over."""
        self._armed = self._tripped = False

    def joint_state(self, stamp_ns: int, now: float) -> bool:
        """A joint state with stamp `stamp_ns` [ns] came at `now` [s]; returns whether it's new."""
        period = self.period
        if not self._armed or (period and self._pace.is_overtaken(stamp_ns, period)):
            return False
        if not self._pace.see(stamp_ns):
            return False
        self._newest_ns = stamp_ns
        if period is None or self._pace.is_due(stamp_ns, period):
            self._expect(stamp_ns)
            if self._waiting_since is None:
                self._waiting_since = now
        return True

    def _expect(self, stamp_ns: int) -> None:
        """The next command is due a control period after this joint state [ns]."""
        self._due_ns = stamp_ns
        if self.period is not None:
            self._pace.answered(stamp_ns, self.period)

    def command(self) -> bool:
        """The controller sent a command; returns whether that cleared a trip."""
        self._waiting_since = None
        self._commanded = True
        if self.period is not None:
            late = (self._newest_ns - self._due_ns) / NANOSECONDS
            if late > self.period / 2:  # It goes on from a later joint state than was thought.
                self._pace.start()
                self._expect(self._newest_ns)
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

    def check(self, now: float, stopped: bool = False) -> str:
        """Why the watch trips at `now` [s]; empty if it doesn't, or already did.

        Args:
            now: By the clock of all the times here [s].
            stopped: The controller's process was stopped by somebody, and sends nothing.
        """
        if not self._armed or self._tripped:
            return ""
        waited = self.waited(now)
        limit_s = self.limit_s if self._commanded else max(self.limit_s, FIRST_PATIENCE)
        if not self._dead and not stopped and waited < limit_s:
            return ""
        self._tripped = True
        if self._dead:
            after = f", {1e3 * waited:.1f} ms after a joint state that waits for a command"
            return f"the controller's process has ended{after if waited else ''}"
        if waited < limit_s:
            return "no command can come: the controller's process is stopped"
        return (
            f"no command {1e3 * waited:.1f} ms after a joint state (limit {1e3 * limit_s:.1f} ms)"
        )
