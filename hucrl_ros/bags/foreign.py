"""Bags that somebody else recorded: what can be learned from of a robot's joint states."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hucrl_ros.bags.contents import about
from hucrl_ros.bags.course import IN_FORCE, Course, blind_steps, clocked_course
from hucrl_ros.bags.decode import (
    Sample,
    by_clock,
    decode_commands,
    decode_poses,
    decode_states,
    decode_ticks,
    heard_of,
    with_actions,
)
from hucrl_ros.bags.foreign_topics import EFFORTS, Found, find_messages, restamped
from hucrl_ros.bags.messages import RawMessage, deserialize, stamp_ns
from hucrl_ros.bags.remarks import rough_velocities
from hucrl_ros.config.files import override
from hucrl_ros.config.robot import AXES, RobotSettings, RobotSpec, limited, plural
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.passage import Signal
from hucrl_ros.controller.state_reader import FRAME, Pose, PoseBuffer, velocity_age
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.errors import LONGEST, BagError, shortened

FEWEST = 10
"""Transitions in a row that are worth keeping."""
PAUSE = 10.0
"""Without joint states, behind which a bag is read anew [control periods]."""
SLOWEST = 1.05
"""Usual time between joint states beyond which they are too few [control periods]."""
FEW_SILENT = 0.02
"""Share of joint states without efforts up to which they are left out: a driver that has read
nothing yet, or not this time."""


class Recovered(NamedTuple):
    """What a bag holds that can be learned from."""

    courses: list[Course]
    """One for each stretch without a gap. A goal that nobody told is NaN."""
    report: list[str]
    """What was used, and what not and why, one line each."""


def read_foreign(path: Path, robot: RobotSettings, config: Config) -> Recovered:
    """Read a bag of any recorder: MCAP or SQLite of ROS 2, or a `.bag` of ROS 1.

    Joint states may come at any rate, doubled, out of order and with gaps. What acted is what
    they report as efforts, or the commands on the topic that the driver listened to. An object's
    poses count as those of a robot in real time do.

    Args:
        path: Its folder or file.
        robot: The complete description, which says how topics are called.
        config: What the robot's driver tells, and its dead time.

    Raises:
        BagError: it can't be read, or holds nothing to learn from.
        ConfigError: an entry of the robot's state has no topic.
    """
    with about(path):
        return _read_foreign(path, robot, config)


def _read_foreign(path: Path, robot: RobotSettings, config: Config) -> Recovered:
    spec = robot.spec
    found = find_messages(path, robot)
    if found.stepped:  # What the robot's driver tells, and its dead time, were not there.
        applied = "ignored" if config.driver.effort == "ignored" else "applied"
        config = override(config, {"control.extra_delay": 0.0, "driver.effort": applied})
    _require_often(path, found.objects, spec.period)
    told = _passes(found, spec.period)
    passes = [
        decode_states(part.states, _poses(part, spec), spec, 0, np.inf, config.driver)
        for part in told
    ]
    passes = [_with_efforts(samples, lines_of) for samples, lines_of in passes]
    refused = [line for _, lines_of in passes for line in lines_of]
    count = sum(len(samples) for samples, _ in passes)
    if count < FEWEST:
        reason = f": {refused[0]}" if refused else ""
        raise BagError(f"{path}: {count} joint states can be read{reason}")
    lines = [found.used, f"{count} of {len(found.states)} joint states can be read"]
    if refused:
        lines += [f"left out: {refused[0]}, and {len(refused) - 1} more"]
    wholes, courses = list[Course](), list[Course]()
    for part, (samples, _) in zip(told, passes, strict=True):
        for unbroken in _unbroken(samples, spec.period):
            whole = _course(path, unbroken, found, spec, config)
            if spec.context and not part.goals:
                whole.states[:, -len(spec.context) :] = np.nan
            wholes.append(whole)
            courses += _stretches(whole)
    count = sum(len(course.actions) for course in courses)
    if not count:
        raise BagError(
            f"{path}: no {FEWEST} joint states in a row are a control period "
            f"({1e3 * spec.period:g} ms) or less apart"
        )
    seconds = count * spec.period
    lines += [
        f"{count} transitions, {seconds:.1f} s in {len(courses)} stretches; "
        f"{sum(len(whole.actions) for whole in wholes) - count} left out beside gaps and before "
        f"the first command; actions: {' or '.join(dict.fromkeys(x.acted for x in courses))}",
        *_beyond_limits(courses, spec),
        *([] if found.commands else _idle(courses, spec)),
        *(f"! {line}" for line in _rough(wholes, spec, config)),
    ]
    return Recovered(courses, [shortened(f"{path}: {line}", LONGEST) for line in lines])


def _with_efforts(samples: list[Sample], refused: list[str]) -> tuple[list[Sample], list[str]]:
    """Samples without those few that tell no efforts, or none of the others' would count.

    What the first one tells acted before it, so that it may be silent.
    """
    told = samples[:1] + [sample for sample in samples[1:] if sample.effort is not None]
    silent = len(samples) - len(told)
    if not 0 < silent <= FEW_SILENT * len(samples):
        return samples, refused
    line = f"{silent} joint states tell no efforts, or some that are no numbers"
    return told, [line, *refused]


def _passes(found: Found, period: float) -> list[Found]:
    """What was recorded up to where the joint states' clock went back, and so on."""
    seen = [begin for begin, _, _ in by_clock(found.objects, period)[1:]]
    passes = []
    for begin, end, part in by_clock(found.states, period):
        # The object's pose may come before the joint state that the clock begins again with.
        first, last = (_nearest(seen, edge) for edge in (begin, end))
        objects = [each for each in found.objects if first <= each.received_ns < last]
        goals = [each for each in found.goals if each.received_ns < end]
        older = [each for each in goals if each.received_ns < begin]
        if older:  # The newest still holds, by whatever clock it was stamped.
            goals = [restamped(older[-1], 0), *goals[len(older) :]]
        passes.append(found._replace(states=part, objects=objects, goals=goals))
    return passes


def _nearest(times: Sequence[float], edge: float) -> float:
    """The one nearest to an edge; the edge itself where none is within a second of it."""
    near = [time for time in times if abs(time - edge) < NANOSECONDS]
    return min(near, key=lambda time: abs(time - edge), default=edge)


def _poses(found: Found, spec: RobotSpec) -> PoseBuffer:
    """Of object and goal; a goal that nobody told is at the origin."""
    first_ns = stamp_ns(deserialize(found.states[0].data, found.states[0].type).header)
    poses = decode_poses(found.objects, found.goals, found.states, first_ns, spec.period)
    if not found.goals:
        poses.goal.add(Pose(0, FRAME, (0.0,) * len(AXES)))
    return poses


def _require_often(path: Path, objects: list[RawMessage], period: float) -> None:
    """An object that is seen less often than commands go would seem to stand still, and leap.

    Raises:
        BagError: so it is.
    """
    stamps = [stamp_ns(deserialize(raw.data, raw.type).header) for raw in objects]
    gaps = np.diff(stamps) / NANOSECONDS
    usual = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 0.0
    if usual > SLOWEST * period:
        raise BagError(
            f"{path}: poses of the object come at {1 / usual:.1f} Hz, commands would go at "
            f"{1 / period:g} Hz: expected at least as many"
        )


def _unbroken(samples: list[Sample], period: float) -> list[list[Sample]]:
    """Samples between pauses, where there are enough."""
    stamps = np.array([sample.stamp_ns for sample in samples], dtype=np.int64)
    pauses = np.flatnonzero(np.diff(stamps) > PAUSE * period * NANOSECONDS) + 1
    edges = [0, *pauses.tolist(), len(samples)]
    parts = [samples[begin:end] for begin, end in itertools.pairwise(edges)]
    return [part for part in parts if len(part) > FEWEST]


def _course(
    path: Path, samples: list[Sample], found: Found, spec: RobotSpec, config: Config
) -> Course:
    """All that happened in a part of a bag without pauses."""
    heard = heard_of(samples, spec, velocity_age(config.driver, spec.period))
    gap = float(np.median(np.diff(heard.stamps_ns))) / NANOSECONDS
    if gap > SLOWEST * spec.period:
        raise BagError(
            f"{path}: joint states come at {1 / gap:.1f} Hz, commands would go at "
            f"{1 / spec.period:g} Hz: expected at least as many"
        )
    in_force = decode_commands(found.commands, heard, spec, config.control.extra_delay)
    told = config.driver.effort != "ignored" and np.isfinite(heard.efforts[1:]).all()
    if found.ticks and not told:  # A busy recorder hears joint states and commands in any order.
        ticks = decode_ticks(path, found.ticks, spec)
        _, tick, at = np.intersect1d(ticks["stamp_ns"], heard.stamps_ns, return_indices=True)
        sent = spec.to_command(ticks["action"][tick], heard.states[at])
        in_force = Signal(heard.stamps_ns[at], sent)
    if not len(in_force.times_ns) and told and config.driver.effort == "commanded":
        first = int(np.isnan(heard.efforts[0]).any())  # nothing may be told as it begins
        dead_ns = round(config.control.extra_delay * NANOSECONDS)
        in_force = Signal(heard.stamps_ns[first:] + dead_ns, heard.efforts[first:])
    if not len(in_force.times_ns) and not told:
        raise BagError(
            f"{path}: nobody knows what acted: joint states report no {plural(spec.command)} that "
            f"were applied, and no topic, or more than one, holds commands of {spec.action_dim} "
            f"({EFFORTS}); where the bag has them, name it in the description: "
            "topics: {commands: /NAME}"
        )
    # Of a rate that is nearly the control rate, too: nobody plays by these stamps.
    whole = clocked_course(
        heard, in_force, spec.period, len(samples) * int(PAUSE), config.driver, gridded=True
    )
    if spec.context:  # A goal changes at once.
        newest = np.searchsorted(heard.stamps_ns, whole.stamps_ns, side="right") - 1
        entries = slice(-len(spec.context), None)
        whole.states[:, entries] = heard.states[newest, entries]
    if whole.acted == IN_FORCE:  # What was in force before the first command is not known.
        known = whole.stamps_ns[:-1] >= in_force.times_ns[0]
        if found.ticks:  # Nor is what was sent without one.
            half = round(0.5 * spec.period * NANOSECONDS)
            before, after = whole.stamps_ns[:-1] - half, whole.stamps_ns[:-1] + half
            known = np.diff(np.searchsorted(in_force.times_ns, [before, after]), axis=0)[0] > 0
        whole = whole._replace(contiguous=whole.contiguous & known)
    whole.contiguous[: blind_steps(config.driver, spec.period)] = False
    return with_actions(whole, spec)


def _beyond_limits(courses: Sequence[Course], spec: RobotSpec) -> list[str]:
    """What a person should know of actions that nobody could have sent."""
    largest = np.max([np.abs(course.actions).max(axis=0) for course in courses], axis=0)
    return [
        f"! {limited(spec.command)} of up to {most:.3g} at joint {joint!r}, whose limit is "
        f"{limit:.3g}: in another unit, or not what acts? then --set driver.effort=ignored"
        for joint, most, limit in zip(
            spec.actuated_joints, largest, spec.effort_limits, strict=True
        )
        if most > 1.5 * limit
    ]


def _idle(courses: Sequence[Course], spec: RobotSpec) -> list[str]:
    """Motors of which no command was recorded, and whose driver may tell no effort either."""
    acted = np.any([course.actions.any(axis=0) for course in courses], axis=0)
    return [
        f"! efforts of joint {joint!r} are 0 throughout, and no commands are in the bag: was its "
        "motor off? otherwise this bag teaches that nothing acts"
        for joint, moved in zip(spec.actuated_joints, acted, strict=True)
        if not moved
    ]


def _rough(wholes: Sequence[Course], spec: RobotSpec, config: Config) -> list[str]:
    """Velocities that aren't the slopes of the positions, in the longest part."""
    if config.driver.velocity != "measured":
        return []
    return rough_velocities(max(wholes, key=lambda whole: len(whole.actions)), spec)


def _stretches(course: Course) -> list[Course]:
    """The parts of a course between its gaps."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], course.contiguous, [0]])))
    return [
        course.part(begin, end)
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        if end - begin >= FEWEST
    ]
