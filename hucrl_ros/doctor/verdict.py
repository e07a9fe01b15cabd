"""What is said of a robot that `hucrl check --move` has moved, and what goes into its YAML."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hucrl_ros.config.edit import NewSetting
from hucrl_ros.config.robot import RobotSettings
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import Description
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.doctor import Finding, Found
from hucrl_ros.doctor.identify import LONGEST_DEAD_TIME, ROUGH_S, Motion, identify
from hucrl_ros.doctor.inertia import inertia
from hucrl_ros.doctor.move import bounds_of
from hucrl_ros.doctor.pulses import RUBBING_ALONE, UNITS
from hucrl_ros.doctor.record import Record
from hucrl_ros.doctor.senses import (
    has_moved,
    judge_efforts,
    judge_positions,
    judge_velocities,
)
from hucrl_ros.robots.mujoco_robot import MujocoRobot

CLOSE, FAR = 1.3, 2.0
"""Factors between a gain and the model's up to which all is well, and beyond which nothing is."""
UNSURE = 0.15
"""Share of a gain by which it may be off without a word."""
MESSY = 0.8
"""Share of the motion below which something else than effort moved the joint."""
STICKY = 0.05
"""Share of the effort limit above which friction is worth a word."""
LATE = 0.8
"""Share of a dead time that a control period should have at least."""
DRIFT_S = 0.1
"""[s] By which the driver's clock may lose or gain while the robot is moved."""
NEGLIGIBLE = 0.02
"""Share of the control period below which a delay counts for nothing."""


class Verdict(NamedTuple):
    """All that was found."""

    findings: Mapping[str, Finding]
    suggestions: Sequence[NewSetting]


def examine_motion(record: Record, described: Description, config: Config) -> Verdict:
    """What a record says, by what was looked at.

    Args:
        record: Of the motion.
        described: The robot, with nothing left to derive.
        config: Settings with which it was moved.
    """
    robot = described.robot
    findings: dict[str, Finding] = {}
    if record.stopped:
        findings["motion"] = Finding.fault(
            f"ended early: {record.stopped}", "zero effort was sent at once; change it, then again"
        )
    if abs(drift := _drift(record)) > DRIFT_S:
        findings["stamps"] = Finding.fault(
            f"they fell {drift:.1f} s behind this machine's clock meanwhile",
            "nothing else can be told: the driver doesn't keep up, or its clock is wrong",
        )
        return Verdict(findings, ())
    motions: list[Motion] = []
    bounds = bounds_of(described)
    ratios = np.ones(len(robot.actuated))
    model = inertia(described, record.positions[-1] if record.positions else None)
    gears = MujocoRobot(described).model.actuator_gear[:, 0].tolist()
    for motor, gain in enumerate(model.gains.tolist()):
        name = robot.actuated[motor]
        tried = [abs(trial.effort) for trial in record.trials if trial.motor == motor]
        motion = identify(record, motor, robot.joints.index(name), model.coupling[motor])
        if motion is not None:
            motions.append(motion)
            ratios[motor] = motion.gain / gain
            position, effort = UNITS[bounds[name]]
            findings[f"gain of {name}"] = _gain(
                motion, gain, name, f"{position}/s² a {effort}", max(tried)
            )
            findings[f"friction of {name}"] = _friction(
                motion, tried, robot.effort_limits[motor], gears[motor], effort
            )
        elif tried and not (record.stopped and record.trials[-1].motor == motor):
            share = f"{max(tried):.3g}, {max(tried) / robot.effort_limits[motor]:.0%} of its limit"
            findings[f"gain of {name}"] = (
                Finding.fault(
                    f"it moves, but not as an answer to {share}",
                    f"look whether commands take longer than {1e3 * LONGEST_DEAD_TIME:.0f} ms to "
                    "act, or somebody else moves it",
                )
                if has_moved(record, robot.joints.index(name))
                else Finding.fault(
                    f"it doesn't clearly move with {share}",
                    "look whether its motor is enabled and its brake open, and whether efforts "
                    "are in N m or N; or try more: --effort-cap",
                )
            )
    if not motions:
        return Verdict(findings, ())
    suggestions: list[NewSetting] = []
    # Each effort drawn evenly from its range, as random ones are.
    changes = np.linalg.norm(
        model.free * (ratios * robot.effort_limits)[:, None] * robot.period / 3**0.5, axis=0
    )
    delay = float(np.median([motion.dead_time for motion in motions]))
    for name, (finding, more) in {
        "dead time": _dead_time(motions, delay, robot),
        "positions": judge_positions(record, robot),
        "velocities": judge_velocities(record, robot, config, changes),
        "efforts": judge_efforts(record, delay),
        "timeout": _timeout(motions, robot),
        "control period": _period(record, delay, described),
    }.items():
        findings[name] = finding
        suggestions += more
    return Verdict(findings, suggestions)


def _drift(record: Record) -> float:
    """How much later joint states came at the end than at the beginning [s]."""
    late = np.array(record.received_ns, np.int64) - np.array(record.stamps_ns, np.int64)
    quarter = max(len(late) // 4, 1)
    return float(np.median(late[-quarter:]) - np.median(late[:quarter])) / NANOSECONDS


def _gain(motion: Motion, expected: float, name: str, unit: str, moved: float) -> Finding:
    ratio = motion.gain / expected
    told = (
        f"{motion.gain:.4g} ± {motion.gain_error:.2g} {unit}, {ratio:.2f} of the model's "
        f"{expected:.4g}"
    )
    if ratio < 0:
        return Finding.fault(
            told,
            f"positive effort accelerates joint {name!r} the other way than in the model: turn "
            "the sign of its efforts in the driver, or its axis in the model",
        )
    if motion.friction > RUBBING_ALONE * moved:
        return Finding.note(
            told,
            f"friction takes {motion.friction / moved:.0%} of {moved:.3g}, so this is rough; try "
            "more: --effort-cap",
        )
    if not 1 / FAR <= ratio <= FAR:
        return Finding.fault(
            told,
            "efforts have another unit (current, share of the limit?), or inertia or gear of the "
            "model are wrong",
        )
    if not 1 / CLOSE <= ratio <= CLOSE:
        return Finding.note(told, "look at masses, inertia and armature of the model")
    if motion.gain_error > UNSURE * abs(motion.gain):
        return Finding.note(told, "for less doubt let it move more: --effort-share")
    if motion.explained < MESSY:
        return Finding.note(
            told,
            f"effort explains {motion.explained:.0%} of the motion: look for backlash, a belt, or "
            "somebody who pushes",
        )
    return Finding.ok(told)


def _friction(
    motion: Motion, tried: Sequence[float], limit: float, gear: float, unit: str
) -> Finding:
    """Of efforts up to `limit`, before a motor's `gear`, behind which the model has friction."""
    moved = f"; pulses of {max(tried):.3g} {unit} moved it"
    if motion.friction <= motion.friction_error:
        return Finding.ok(f"none beyond {motion.friction_error:.2g} {unit}{moved}")
    told = f"{motion.friction:.3g} ± {motion.friction_error:.2g} {unit}{moved}"
    if motion.friction > STICKY * limit:
        loss = gear * motion.friction
        return Finding.note(
            told, f"for simulation put frictionloss={loss:.3g} into the model's joint"
        )
    return Finding.ok(told)


def _dead_time(motions: Sequence[Motion], delay: float, robot: RobotSettings) -> Found:
    error = float(np.median([motion.dead_time_error for motion in motions]))
    told = f"{1e3 * delay:.1f} ± {1e3 * error:.1f} ms"
    if delay > LONGEST_DEAD_TIME - ROUGH_S:
        shown = f"{1e3 * LONGEST_DEAD_TIME:.0f} ms or more from sending a command to its effect"
        return Finding.fault(
            shown, "nobody learns to control through that; look what holds it"
        ), ()
    value = round(delay, 4) if delay > max(error, NEGLIGIBLE * robot.period) else 0.0
    suggestion = NewSetting(
        "control.extra_delay",
        value,
        f"[s] measured: {told} from sending a command to its effect, with DDS both ways",
    )
    shown = f"{told} from sending a command to its effect, DDS both ways included"
    apart = np.ptp([motion.dead_time for motion in motions])
    if apart > 0.5 * robot.period:
        advice = f"joints differ by {1e3 * apart:.1f} ms, but only one delay can be told"
        return Finding.note(shown, advice), [suggestion]
    return Finding.ok(shown), [suggestion]


def _timeout(motions: Sequence[Motion], robot: RobotSettings) -> Found:
    found = [motion.timeout for motion in motions if motion.timeout is not None]
    if not found:
        silence = min(motion.silence for motion in motions)
        return Finding.note(
            f"the driver holds the last command for {silence:.2g} s at least",
            "a timeout in the driver also helps where the network or this machine fails; set one",
        ), ()
    least = min(found)
    shown = f"the driver lets go {1e3 * least:.0f} ms after the last command"
    if least < robot.period:
        advice = f"commands come every {1e3 * robot.period:.3g} ms: make it longer"
        return Finding.fault(shown, advice), ()
    return Finding.ok(shown), ()


def _period(record: Record, delay: float, described: Description) -> Found:
    period = described.robot.period
    gaps = np.diff(record.stamps_ns) / NANOSECONDS
    usual = float(np.median(gaps))
    jitter = float(np.percentile(np.abs(gaps - usual), 99))
    told = (
        f"joint states every {1e3 * usual:.4g} ms, 99% of them within {1e3 * jitter:.2g} ms, dead "
        f"time {1e3 * delay:.1f} ms"
    )
    least = max(usual, delay)
    if period > LATE * least:
        return Finding.ok(f"{1e3 * period:.4g} ms fits: {told}"), ()
    step = float(MujocoRobot(described).model.opt.timestep)
    better = step * float(np.ceil(least / step))
    return Finding.note(
        f"{1e3 * period:.4g} ms is short: {told}",
        f"commands should act before the next one is chosen: robot.period: {better:.4g}",
    ), ()
