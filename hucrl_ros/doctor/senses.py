"""What joint states turned out to tell while `hucrl check --move` moved a robot."""

import math
from functools import partial

import numpy as np

from hucrl_ros.bags.course import repeats_commands
from hucrl_ros.config.edit import NewSetting
from hucrl_ros.config.robot import RobotSettings
from hucrl_ros.config.schema import Config, DriverSettings
from hucrl_ros.controller.passage import Signal
from hucrl_ros.controller.state_reader import velocity_age, velocity_estimator
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.doctor import Finding, Found
from hucrl_ros.doctor.equation import transport_ns
from hucrl_ros.doctor.evidence import Array, least_step
from hucrl_ros.doctor.record import Record
from hucrl_ros.doctor.robot import TURN

SMOOTHING_S = 0.03
"""[s] To each side, positions that tell the velocity with which others are compared."""
WORSE = 2.0
"""Times by which measured velocities must be worse than derived ones to be given up."""
NOISY = 0.25
"""Share of what efforts change a velocity by in a control period that its noise may be."""
CLEARLY = 20.0
"""Steps or deviations of its noise that a joint has to have moved by."""
WINDOWS = 3
"""Control periods that velocities are derived from, at most."""
NEAR, LIKE = 0.25, 0.5
"""Share of the largest command within which an effort is near the commands' mean, and share of
efforts that must be; a busy machine delays some."""
WINDOW = "[s] measured: in shorter ones noise and steps of the positions hide what efforts do"


def judge_positions(record: Record, robot: RobotSettings) -> Found:
    """Noise and steps."""
    every = np.array(record.positions)
    parts = []
    for joint, column in zip(robot.joints, every.T, strict=True):
        step = least_step(column)
        told = f"noise {_noise(record, column):.1g}"
        if step > 1e-6:
            told += f", steps of {step:.3g}"
            told += f" ({TURN / step:.0f} a turn)" if joint in (robot.angles or ()) else ""
        parts.append(f"{joint}: {told}")
    return Finding.ok("; ".join(parts)), ()


def judge_velocities(
    record: Record, robot: RobotSettings, config: Config, changes: Array
) -> Found:
    """Whether slopes of the positions would be better, and over which window.

    Args:
        record: Of the motion.
        robot: What was moved.
        config: Its settings.
        changes: What efforts typically change each velocity by in a control period `(n,)`
            [rad/s or m/s].
    """
    lacking = ""
    if not (all(record.velocities) and np.isfinite(np.concatenate(record.velocities)).all()):
        lacking = "joint states hold none"
    elif _stuck(record):
        lacking = "those in joint states never change"
    told = not lacking
    columns = np.array(record.positions).T
    step = max(map(partial(_periods, record, robot.period), columns, changes.tolist()))
    window = robot.period * step
    driver = DriverSettings(velocity="derived", velocity_window=window)
    derived, measured = _errors(record, robot, driver, told)
    chosen = [NewSetting("driver.velocity_window", window, WINDOW)] if step > 1 else []
    if step == 1 and config.driver.velocity_window:
        chosen = [NewSetting("driver.velocity_window", 0.0, "[s] 0: a control period is enough")]
    if lacking:
        shown = f"{lacking}; slopes of the positions are off by {derived:.2g}"
    else:
        shown = f"off by {measured:.2g} as told, by {derived:.2g} as slopes of the positions"
    if told and measured <= max(WORSE * derived, NOISY * float(changes.min())):
        return Finding.ok(shown), [NewSetting("driver.velocity", "measured", f"measured: {shown}")]
    suggestions = [NewSetting("driver.velocity", "derived", f"measured: {shown}"), *chosen]
    if config.driver.velocity == "derived":
        return Finding.ok(shown), suggestions
    return Finding.note(shown, "have them derived: driver.velocity: derived"), suggestions


def has_moved(record: Record, joint: int) -> bool:
    """Whether a joint clearly went somewhere else."""
    column = np.array(record.positions)[:, joint]
    noise = float(np.std(np.diff(column)))
    return bool(np.ptp(column) > CLEARLY * max(noise, least_step(column), 1e-9))


def _stuck(record: Record) -> bool:
    """Whether a joint that moved was told to have one velocity all the time."""
    constant = np.ptp(np.array(record.velocities), axis=0) == 0.0
    return any(has_moved(record, joint) for joint in np.flatnonzero(constant).tolist())


def _periods(record: Record, period: float, column: Array, change: float) -> int:
    """Control periods from which a joint's velocity must be derived to show what efforts do."""
    spread = max(least_step(column) / 12**0.5, _noise(record, column))
    gap = float(np.median(np.diff(record.stamps_ns))) / NANOSECONDS
    for periods in range(1, WINDOWS):
        if slope_noise(spread, periods * period, gap) <= NOISY * change:
            return periods
    return WINDOWS


def slope_noise(spread: float, window: float, gap: float) -> float:
    """Deviation of a slope by least squares [rad/s or m/s].

    Args:
        spread: Deviation of each position [rad or m].
        window: From the first to the last of them [s].
        gap: Between two [s].
    """
    count = window / gap + 1.0
    return spread / window * math.sqrt(12.0 * (count - 1.0) / (count * (count + 1.0)))


def _noise(record: Record, column: Array) -> float:
    """Deviation of a joint's positions from a line before anything was moved [rad or m]."""
    pairs = zip(record.sent_ns, record.commands, strict=True)
    end = next((sent for sent, command in pairs if any(command)), record.received_ns[-1])
    rest = column[: int(np.searchsorted(record.received_ns, end))]
    count = np.arange(len(rest))
    return float(np.std(rest - np.polyval(np.polyfit(count, rest, 1), count)))


def _errors(
    record: Record, robot: RobotSettings, driver: DriverSettings, told: bool
) -> tuple[float, float]:
    """How far derived and measured velocities are from the positions' course, at worst.

    That course is known better later: from positions before and after a moment.
    """
    estimator = velocity_estimator(driver, robot.period)
    assert estimator is not None
    stamps = np.array(record.stamps_ns, np.int64)
    positions = np.array(record.positions)
    seconds = (stamps - stamps[0]) / NANOSECONDS
    sent = [trial.sent_ns for trial in record.trials if not trial.silent]
    begins = (np.array(sent, np.int64) - transport_ns(record, sent)).tolist()
    moving = np.zeros(len(stamps), dtype=np.bool_)
    for begin in begins:
        length = 2.0 * record.trials[0].pulse * NANOSECONDS
        moving |= (stamps >= begin) & (stamps <= begin + length)
    # A derived velocity is that of some time ago, and is used as such.
    age = velocity_age(driver, robot.period)

    def course(k: int, at: float) -> Array:
        """Velocities `(joints,)` at a time, by the positions around it, `k` among them."""
        low, high = np.searchsorted(seconds, at + np.array([-SMOOTHING_S, SMOOTHING_S]))
        near = slice(min(int(low), max(k - 2, 0)), max(int(high), k + 3))
        slopes: Array = np.polyfit(seconds[near] - at, positions[near], 2)[1]
        return slopes

    off: list[Array] = []
    for k, stamp in enumerate(stamps.tolist()):
        estimator.add(stamp, positions[k])
        if not moving[k]:
            continue
        now = course(k, seconds[k])
        measured = np.array(record.velocities[k]) if told else now
        derived = estimator.at(stamp) - course(k, seconds[k] - age)
        off.append(np.stack([derived, measured - now]))
    errors = np.sqrt(np.mean(np.square(off), axis=0)).max(axis=1)
    return float(errors[0]), float(errors[1])


def judge_efforts(record: Record, delay: float) -> Found:
    """What they mean, where commands act after `delay` [s]."""
    if not all(record.efforts) or not np.isfinite(np.concatenate(record.efforts)).all():
        shown = "joint states hold none"
        return Finding.ok(shown), [NewSetting("driver.effort", "ignored", f"measured: {shown}")]
    acted_ns = np.array(record.sent_ns, np.int64) + round(delay * NANOSECONDS)
    acted_ns -= transport_ns(record, record.sent_ns)
    commands = Signal(acted_ns, np.array(record.commands))
    stamps, efforts = np.array(record.stamps_ns, np.int64), np.array(record.efforts)
    if repeats_commands(Signal(stamps, efforts), commands):
        meaning, shown = "commanded", "they repeat the newest command"
    else:
        acted, told = commands.means(stamps), efforts[1:]
        near = np.abs(told - acted).max(axis=1) <= NEAR * np.abs(acted).max()
        busy = (np.abs(told) + np.abs(acted)).max(axis=1) > 0.0
        if np.mean(near[busy]) < LIKE:
            shown = "they are not the commands, nor their means"
            suggestion = NewSetting("driver.effort", "ignored", f"measured: {shown}")
            advice = "efforts are in N m or N; until then: driver.effort: ignored"
            return Finding.note(shown, advice), [suggestion]
        meaning, shown = "applied", "they are the means of what acted"
    return Finding.ok(shown), [NewSetting("driver.effort", meaning, f"measured: {shown}")]
