"""The course of an episode: states one control period apart, and what acted between them.

In lockstep each joint state is a step. In real time joint states may come at any rate, and a
command takes effect between two of them; there the clock of the stamps decides.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.schema import DriverSettings
from hucrl_ros.controller.pace import TOLERANCE
from hucrl_ros.controller.passage import LATENESS, MAX_GAP_PERIODS, MIN_GAP_PERIODS, Signal
from hucrl_ros.controller.ticks import NANOSECONDS

Array = NDArray[np.float64]
Stamps = NDArray[np.int64]
REPORTED = "efforts that the robot reports"
IN_FORCE = "means of the commands in force"
SENT = "commands"
DEVIATION = 1.4826
"""Standard deviations of a normal distribution in its median absolute deviation."""
LONGEST_GAP = 0.5
"""Between two joint states of a driver faster than the control rate [control periods]: beyond,
nobody knows well enough what was in the middle."""
FAST_GAPS = 1.5
"""The same in units of the usual time between two joint states, where that is longer."""
SAME_EFFORT = 1e-6
"""Share of the largest effort by which a command that is repeated may differ."""
REPEATS = 0.9
"""Share of the changes of command after which efforts must be commands to be taken for such."""
PARTS = 10
"""Parts of an episode whose lateness is compared, or reckoned."""
PART = 50
"""Joint states that tell a lateness well."""
FEW = 10
"""Joint states that tell whether it is another one."""
STILL = 1e-6
"""[rad/s or m/s] Deviation of the slopes of a joint's positions above which it moves."""
LEAST_SHARE = 0.5
"""Share of an episode's transitions that must have taken one control period: with fewer, its
joint states came at another rate."""


class Course(NamedTuple):
    """T transitions."""

    stamps_ns: Stamps
    """`(T + 1,)` of the states [ns]."""
    states: Array
    """`(T + 1, p)`"""
    actions: Array
    """`(T, q)` what acted, in the unit of the robot's actions."""
    contiguous: NDArray[np.bool_]
    """`(T,)` whether states k and k + 1 are one control period apart."""
    acted: str
    """What the actions are."""

    def part(self, begin: int, end: int) -> "Course":
        """Transitions `begin` to `end`, the last one excluded."""
        return Course(
            self.stamps_ns[begin : end + 1],
            self.states[begin : end + 1],
            self.actions[begin:end],
            self.contiguous[begin:end],
            self.acted,
        )


class Heard(NamedTuple):
    """Joint states, by rising stamps."""

    stamps_ns: Stamps
    """`(n,)` [ns]."""
    states: Array
    """`(n, p)`"""
    efforts: Array
    """`(n, q)` NaN where none was reported, or the robot takes no efforts [N m or N]."""
    recorded_ns: Stamps
    """`(n,)` when they were recorded [ns]."""


def centred(heard: Heard, entries: Sequence[int], age: float) -> Heard:
    """Joint states with entries of their states at the moments at which they held.

    Args:
        heard: Joint states.
        entries: Of the state, e.g. velocities that were derived from positions before.
        age: How long before the stamps they held [s].

    Returns:
        The joint states of which that is known, or the first one.
    """
    age_ns = round(age * NANOSECONDS)
    known = max(int(np.searchsorted(heard.stamps_ns, heard.stamps_ns[-1] - age_ns, "right")), 1)
    begin, states = heard.stamps_ns[0], heard.states[:known].copy()
    for entry in entries:
        states[:, entry] = np.interp(
            heard.stamps_ns[:known] - begin + age_ns,
            heard.stamps_ns - begin,
            heard.states[:, entry],
        )
    return Heard(heard.stamps_ns[:known], states, heard.efforts[:known], heard.recorded_ns[:known])


def is_faster(stamps_ns: Stamps, period: float) -> bool:
    """Whether joint states come more often than commands go, `period` [s] apart."""
    if len(stamps_ns) < 3:
        return False
    return bool(np.median(np.diff(stamps_ns)) < (1 - TOLERANCE) * period * NANOSECONDS)


def on_grid(
    stamps_ns: Stamps, states: Array, period: float, steps: int
) -> tuple[Stamps, Array, NDArray[np.bool_]]:
    """States on multiples of the control period from the first one on, linear in between.

    Args:
        stamps_ns: `(n,)` rising [ns].
        states: `(n, p)`.
        period: Control period [s].
        steps: Most transitions.

    Returns:
        Stamps `(T + 1,)` [ns] and states `(T + 1, p)` of the grid, and `(T,)` whether joint
        states were close enough to each other throughout a transition.
    """
    period_ns = period * NANOSECONDS
    count = min(steps, int((stamps_ns[-1] - stamps_ns[0]) / period_ns))
    grid = stamps_ns[0] + np.round(np.arange(count + 1) * period_ns).astype(np.int64)
    columns = [np.interp(grid - stamps_ns[0], stamps_ns - stamps_ns[0], x) for x in states.T]
    gaps = np.diff(stamps_ns)
    longest = max(LONGEST_GAP * period_ns, FAST_GAPS * float(np.median(gaps)))
    wide = np.flatnonzero(gaps > longest)
    sound: NDArray[np.bool_] = np.ones(count, dtype=np.bool_)
    for begin, end in zip(stamps_ns[wide], stamps_ns[wide + 1], strict=True):
        first, last = np.searchsorted(grid, [begin, end]).tolist()
        sound[max(first - 1, 0) : last] = False
    return grid, np.stack(columns, axis=1), sound


def drift(heard: Heard) -> float:
    """How much later, behind their stamps, joint states were recorded in one part than in another.

    By the clock of the stamps it is known no better than that when commands acted [s].
    """
    behind = heard.recorded_ns - heard.stamps_ns
    parts = np.array_split(behind, min(PARTS, len(behind)))
    return float(np.ptp([np.percentile(part, LATENESS) for part in parts])) / NANOSECONDS


class Lateness:
    """How late joint states are recorded behind their stamps, part by part.

    So a driver's clock may run at another speed, and may be set, if that is seen where it happens.
    """

    def __init__(self, stamps_ns: Stamps, recorded_ns: Stamps) -> None:
        """Look at stamps `(n,)` of joint states and at when they were recorded `(n,)` [ns]."""
        self._began = int(recorded_ns[0])
        at, behind = recorded_ns - self._began, (recorded_ns - stamps_ns).astype(np.float64)
        parts = np.array_split(np.arange(len(at)), max(min(PARTS, len(at) // PART), 1))
        self._centres = np.array([at[part].mean() for part in parts])
        self._slope = 0.0
        if len(parts) > 2:  # Of most parts, or one step would tilt all of them.
            levels = [np.percentile(behind[part], LATENESS) for part in parts]
            self._slope = float(np.median(np.diff(levels) / np.diff(self._centres)))
        level = behind - self._slope * at
        self._levels = np.array([np.percentile(level[part], LATENESS) for part in parts])

    def at(self, recorded_ns: Stamps) -> Stamps:
        """What to take from the times of recordings to have them by the clock of the stamps."""
        at = recorded_ns - self._began
        late = self._slope * at + np.interp(at, self._centres, self._levels)
        rounded: Stamps = np.round(late).astype(np.int64)
        return rounded


def _timed(heard: Heard, stamps_ns: Stamps, period: float) -> NDArray[np.bool_]:
    """`(T,)` whether it is known to a control period when commands acted at `(T,)` times [ns].

    It isn't where joint states are recorded at another lateness than their `Lateness` says, as
    around the moment at which somebody sets the clock.
    """
    behind = heard.recorded_ns - heard.stamps_ns
    off = behind - Lateness(heard.stamps_ns, heard.recorded_ns).at(heard.recorded_ns)
    parts = np.array_split(off, max(len(off) // FEW, 1))
    usual = np.concatenate([np.full(len(p), np.percentile(p, LATENESS)) for p in parts])
    nearest = np.searchsorted(heard.stamps_ns, stamps_ns).clip(max=len(off) - 1)
    near: NDArray[np.bool_] = np.abs(usual[nearest]) < period * NANOSECONDS
    return near


def commands_in_force(
    commands: Signal, states_ns: Stamps, recorded_ns: Stamps, dead_time: float
) -> Signal:
    """The commands with the times, by the clock of the stamps, from which on they acted.

    Args:
        commands: With the times at which they were recorded.
        states_ns: `(n,)` stamps of joint states [ns].
        recorded_ns: `(n,)` when they were recorded [ns].
        dead_time: From a command's arrival until it acts [s].
    """
    late = Lateness(states_ns, recorded_ns).at(commands.times_ns)
    times = commands.times_ns - late + round(dead_time * NANOSECONDS)
    return commands._replace(times_ns=np.maximum.accumulate(times))


def repeats_commands(reported: Signal, commands: Signal) -> bool:
    """Whether a robot reports as its effort the newest command, not the mean of what acted.

    The two differ where a command takes effect between two joint states: a mean lies between
    the commands then.

    Args:
        reported: Efforts by the stamps of their joint states.
        commands: Those in force.
    """
    if len(commands.times_ns) < 2:
        return False
    near_enough = SAME_EFFORT * float(np.abs(commands.efforts).max())
    first = np.searchsorted(reported.times_ns, commands.times_ns)
    seen = repeated = 0
    for k in range(1, len(first)):
        # Of what came before or after, as in another part of a bag, they show nothing.
        if not 0 < first[k] < len(reported.times_ns):
            continue
        if np.abs(commands.efforts[k] - commands.efforts[k - 1]).max() <= near_enough:
            continue
        # The neighbours as well: when a command took effect is known to a joint state or so.
        shown = reported.efforts[max(first[k] - 1, 0) : first[k] + 2]
        known = commands.efforts[max(k - 2, 0) : k + 2]
        away = np.abs(shown[:, None] - known[None]).max(axis=2).min(axis=1)
        seen += 1
        repeated += bool((away <= near_enough).all())
    return seen > 0 and repeated >= REPEATS * seen


def _left_at_zero(reported: Array, commands: Array) -> bool:
    """Whether a motor that was commanded reports no effort ever: its driver tells none."""
    commanded = np.abs(commands).max(axis=0, initial=0.0) > 0.0
    return bool((commanded & (np.abs(reported).max(axis=0, initial=0.0) == 0.0)).any())


def stepped_course(heard: Heard, sent: Array) -> tuple[Array, str]:
    """Actions `(n - 1, q)` where each joint state is a step: what was reported in the next one.

    Args:
        heard: Joint states.
        sent: `(n - 1, q)` the command for each, which counts where no effort was reported.
    """
    reported = heard.efforts[1:]
    silent = np.isnan(reported).any(axis=1, keepdims=True)
    return np.where(silent, sent, reported), SENT if silent.all() else REPORTED


def roughness(course: Course, joints: int, period: float) -> Array:
    """`(joints,)` how badly velocities fit the change of the positions, as a share of their own.

    It is the deviation of the mean velocity of two neighbours from the slope between them, over
    that of the velocities: below 0.08 where a joint is measured well, above 0.1 where velocities
    are differences of an encoder's steps. It is taken from the median, since a joint that hits a
    stop changes its speed within a period. It is infinite where a joint moves at a velocity that
    is always the same, as where a driver measures none and says 0.

    Args:
        course: Whose states begin with positions and velocities.
        joints: Number of joints.
        period: Control period [s].
    """
    positions, velocities = course.states[:, :joints], course.states[:, joints : 2 * joints]
    slopes = np.diff(positions, axis=0) / period
    off = (slopes - 0.5 * (velocities[1:] + velocities[:-1]))[course.contiguous]
    spread = velocities.std(axis=0)
    if not len(off):
        return np.zeros(joints)
    usual = DEVIATION * np.median(np.abs(off - np.median(off, axis=0)), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share: Array = np.where(usual > STILL, usual / spread, 0.0)
    return share


def contiguous(stamps_ns: Stamps, period: float) -> NDArray[np.bool_]:
    """`(n - 1,)` whether neighbours are one control period apart."""
    gaps = np.diff(stamps_ns) / NANOSECONDS / period
    near: NDArray[np.bool_] = (gaps >= MIN_GAP_PERIODS) & (gaps <= MAX_GAP_PERIODS)
    return near


def blind_steps(driver: DriverSettings, period: float) -> int:
    """Transitions behind a gap before positions tell velocities again, where these are derived."""
    if driver.velocity == "measured":
        return 0
    return math.ceil(1 + (driver.velocity_window or period) / period)


def clocked_course(
    heard: Heard,
    commands: Signal,
    period: float,
    steps: int,
    driver: DriverSettings,
    gridded: bool = False,
) -> Course:
    """An episode in real time.

    Args:
        heard: Joint states from the first tick to the end of the last one's period.
        commands: Those in force.
        period: Control period [s].
        steps: Most transitions.
        driver: What the robot's driver tells.
        gridded: Joint states of any rate, not only of one above the control rate, are put on
            multiples of the period.
    """
    gridded = gridded or is_faster(heard.stamps_ns, period)
    if gridded:
        stamps, states, sound = on_grid(heard.stamps_ns, heard.states, period, steps)
    else:
        stamps, states = heard.stamps_ns[: steps + 1], heard.states[: steps + 1]
        sound = contiguous(stamps, period)
    blind = blind_steps(driver, period)
    for gap in np.flatnonzero(~sound) if blind else ():
        sound[gap : gap + 1 + blind] = False
    if len(stamps) < 2:
        return Course(stamps, states, commands.efforts[:0], sound, IN_FORCE)
    in_force = commands.means(stamps)
    # What is told of a joint state acted since the one before.
    reported = Signal(heard.stamps_ns[:-1], heard.efforts[1:])
    told = driver.effort != "ignored" and bool(np.isfinite(reported.efforts).all())
    if told and driver.effort == "auto":
        told = not repeats_commands(Signal(heard.stamps_ns, heard.efforts), commands)
        told &= not _left_at_zero(reported.efforts, commands.efforts)
    if not told or driver.effort == "commanded":
        sound &= _timed(heard, stamps[:-1], period)
        return Course(stamps, states, in_force, sound, IN_FORCE)
    actions = reported.means(stamps) if gridded else reported.efforts[:steps]
    return Course(stamps, states, actions, sound, REPORTED)
