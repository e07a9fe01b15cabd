"""What a robot did from one state to the next, and what acted, as the loop sees it.

`bags/course.py` puts the same together from a bag, for the learner: what a bundle claims is about
transitions of that kind, and can be compared only with such.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.controller.pace import GAPS
from hucrl_ros.controller.state_reader import derived_entries
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.controller.velocity import SPAN

Array = NDArray[np.float64]
Stamps = NDArray[np.int64]
MIN_GAP_PERIODS = 0.5
"""A transition that took less time is not one of a single control period."""
MAX_GAP_PERIODS = 1.5
"""A transition that took longer is not one of a single control period, and an object's pose that
is older than its joint state by more is not one of the same period."""
LATENESS = 10
"""[%] Quantile of how late joint states were recorded: more was the recorder's own."""


class Signal(NamedTuple):
    """Commands over time: each holds from its time until the next one's."""

    times_ns: Stamps
    """`(n,)` rising [ns]."""
    efforts: Array
    """`(n, q)` commands, or efforts [N m or N]."""
    before: Array | None = None
    """`(q,)` before the first; None: zero."""

    def means(self, stamps_ns: Stamps) -> Array:
        """Means `(N, q)` between neighbours of `stamps_ns` `(N + 1,)`."""
        begin = min(int(self.times_ns[0]), int(stamps_ns[0])) if len(self.times_ns) else 0
        times = np.concatenate([[begin], self.times_ns, [max(begin, int(stamps_ns[-1])) + 1]])
        before = np.zeros(self.efforts.shape[1]) if self.before is None else self.before
        values = np.concatenate([before[None], self.efforts])
        seconds = np.maximum.accumulate(times - begin) / NANOSECONDS
        sums = np.concatenate(
            [np.zeros_like(values[:1]), np.cumsum(values * np.diff(seconds)[:, None], axis=0)]
        )
        at = (stamps_ns - begin) / NANOSECONDS
        integral = np.stack([np.interp(at, seconds, column) for column in sums.T], axis=1)
        means: Array = np.diff(integral, axis=0) / np.diff(at)[:, None]
        return means


class Transition(NamedTuple):
    """What a robot did in one control period."""

    state: Array
    """`(p,)` at its beginning."""
    action: Array
    """`(q,)` mean of what acted, in the unit of the robot's actions."""
    following: Array
    """`(p,)` at its end."""
    irregular: float
    """By how much it was longer or shorter than usual [shares of the usual time]."""
    later: Array | None = None
    """`(q,)` the mean if commands act `TIMING` later; None: it is known when they do."""

    def error(self, mean: NDArray[np.float32], angles: Sequence[int]) -> Array:
        """By how much `(m,)` it ended elsewhere than where `mean` `(m,)` says.

        Args:
            mean: Of a prediction.
            angles: Entries that are the same after a whole turn.
        """
        error = self.following[: len(mean)] - mean
        turning = list(angles)
        with np.errstate(invalid="ignore"):
            error[turning] = (error[turning] + math.pi) % (2 * math.pi) - math.pi
        return error


TIMING = 0.1
"""[control periods] How well it is known when a command begins to act."""
KEPT_COMMANDS = 1000
"""Half a second of the fastest control rate, and as many again."""


class Passage:
    """Puts transitions together from states and commands as they come.

    Where physics waits, a command acts from its state to the next one. Otherwise it acts from its
    sending on, plus a dead time, by the clock of the stamps. Derived velocities hold some time
    before their joint state; so a transition is complete only when its last ones are known.
    """

    def __init__(
        self, spec: RobotSpec, stepped: bool = True, age: float = 0.0, dead_time: float = 0.0
    ) -> None:
        """Begin with nothing.

        Args:
            spec: The robot.
            stepped: Physics waits for each command.
            age: How long before its stamp derived velocities in a state held; 0: none are [s].
            dead_time: From the sending of a command until it acts [s].
        """
        self._spec, self._stepped = spec, stepped
        self._age_ns, self._dead_ns = (round(time * NANOSECONDS) for time in (age, dead_time))
        self._derived = derived_entries(spec) if age else []
        self._stamps: deque[int] = deque()
        self._states: deque[Array] = deque()
        self._gaps: deque[int] = deque(maxlen=GAPS)
        self._late: deque[int] = deque(maxlen=GAPS)
        self._commands: deque[tuple[int, Array]] = deque(maxlen=KEPT_COMMANDS)
        # So long after a gap that is longer, positions tell derived velocities again.
        self._blind_ns = round(SPAN[0] * 2.0 * age * NANOSECONDS)
        self._newest_ns = self._read_ns = self._known_ns = 0
        self._before: Array | None = None

    def reset(self) -> None:
        """An episode begins, with the robot under no command."""
        self._forget_states()
        for heard in (self._gaps, self._late, self._commands):
            heard.clear()
        self._before, self._known_ns = None, 0

    def see(self, stamp_ns: int, state: Array | None, received: float) -> list[Transition]:
        """Take in the state of a tick, before its command; returns the transitions now complete.

        Args:
            stamp_ns: Its stamp [ns].
            state: `(p,)`; None: it made no sense.
            received: When it came, by the clock of `sent` [s].
        """
        self._newest_ns = stamp_ns
        self._late.append(round(received * NANOSECONDS) - stamp_ns)
        if state is None:
            self._forget_states()
            return []
        gap, self._read_ns = stamp_ns - self._read_ns, stamp_ns
        period = self._spec.period * NANOSECONDS
        usual = MIN_GAP_PERIODS * period <= gap <= MAX_GAP_PERIODS * period
        if self._before is None:
            self._before = self._spec.to_command(np.zeros(self._spec.action_dim), state)
        elif not usual:
            self._forget_states()
            self._known_ns = stamp_ns + self._blind_ns * (gap > self._blind_ns)
        if stamp_ns < self._known_ns:
            return []
        if self._stamps:
            self._gaps.append(gap)
        self._stamps.append(stamp_ns)
        self._states.append(state)
        return self._complete()

    def sent(self, command: Array, at: float) -> None:
        """A command `(q,)` was sent at `at` [s]; it holds until the next one."""
        time_ns = self._newest_ns if self._stepped else round(at * NANOSECONDS) + self._dead_ns
        self._commands.append((time_ns, command))

    def _forget_states(self) -> None:
        self._stamps.clear()
        self._states.clear()

    def _complete(self) -> list[Transition]:
        found: list[Transition] = []
        while len(self._stamps) > 1 and self._stamps[1] + self._age_ns <= self._stamps[-1]:
            found.append(self._first())
            self._stamps.popleft()
            self._states.popleft()
        return found

    def _first(self) -> Transition:
        """From the oldest state to the next one."""
        stamps = np.array(self._stamps, np.int64)
        state, following = self._held(0, stamps), self._held(1, stamps)
        # By the clock of the stamps, less what most joint states take.
        behind = 0 if self._stepped else sorted(self._late)[len(self._late) * LATENESS // 100]
        doubt = 0 if self._stepped else round(TIMING * self._spec.period * NANOSECONDS)
        # Where commands act later than assumed, the one before is in force until then.
        while len(self._commands) > 1 and self._commands[1][0] - behind + doubt <= stamps[0]:
            self._commands.popleft()
        times = np.array([time for time, _ in self._commands], np.int64) - behind
        sent = np.reshape(
            [command for _, command in self._commands], (len(times), self._spec.action_dim)
        )
        signal = Signal(times, sent, self._before)
        late = signal._replace(times_ns=times + doubt)
        action, later = (
            self._spec.to_action(each.means(stamps[:2])[0], state) for each in (signal, late)
        )
        irregular = abs(float(stamps[1] - stamps[0]) * len(self._gaps) / sum(self._gaps) - 1.0)
        return Transition(state, action, following, irregular, None if self._stepped else later)

    def _held(self, index: int, stamps: Stamps) -> Array:
        """The state at a stamp, with the derived velocities that held then."""
        state = self._states[index].copy()
        for entry in self._derived:
            values = [each[entry] for each in self._states]
            state[entry] = np.interp(
                stamps[index] - stamps[0] + self._age_ns, stamps - stamps[0], values
            )
        return state
