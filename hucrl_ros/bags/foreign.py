"""Bags that somebody else recorded: what can be learned from of a robot's joint states."""

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hucrl_ros.bags.bounds import open_regular
from hucrl_ros.bags.contents import about, read_contents
from hucrl_ros.bags.course import IN_FORCE, Course, blind_steps, clocked_course
from hucrl_ros.bags.decode import (
    Sample,
    decode_commands,
    decode_states,
    heard_of,
    with_actions,
)
from hucrl_ros.bags.messages import (
    RawMessage,
    deserialize,
    floats,
    joint_state,
    serialize,
    stamp_ns,
)
from hucrl_ros.bags.ros1_file import Ros1Message, read_ros1
from hucrl_ros.config.robot import RobotSettings, RobotSpec, plural, sources
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.pace import OVERTAKEN
from hucrl_ros.controller.passage import Signal
from hucrl_ros.controller.state_reader import PoseBuffer, velocity_age
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.controller.topics import is_named
from hucrl_ros.errors import LONGEST, BagError, ConfigError, shortened

JOINT_STATE, EFFORTS = "sensor_msgs/msg/JointState", "std_msgs/msg/Float64MultiArray"
KINDS = (JOINT_STATE, EFFORTS)
FEWEST = 10
"""Transitions in a row that are worth keeping."""
PAUSE = 10.0
"""Without joint states, behind which a bag is read anew [control periods]."""
SLOWEST = 1.05
"""Usual time between joint states beyond which they are too few [control periods]."""


class Recovered(NamedTuple):
    """What a bag holds that can be learned from."""

    courses: list[Course]
    """One for each stretch without a gap."""
    report: list[str]
    """What was used, and what not and why, one line each."""


def read_foreign(path: Path, robot: RobotSettings, config: Config) -> Recovered:
    """Read a bag of any recorder: MCAP or SQLite of ROS 2, or a `.bag` of ROS 1.

    Joint states may come at any rate, doubled, out of order and with gaps. What acted is what
    they report as efforts, or the commands on the topic that the driver listened to.

    Args:
        path: Its folder or file.
        robot: The complete description, which says how topics are called.
        config: What the robot's driver tells, and its dead time.

    Raises:
        BagError: it can't be read, or holds nothing to learn from.
        ConfigError: the robot's state isn't told by joint states alone.
    """
    with about(path):
        return _read_foreign(path, robot, config)


def _read_foreign(path: Path, robot: RobotSettings, config: Config) -> Recovered:
    spec = robot.spec
    elsewhere = sources(spec)
    if elsewhere.object or elsewhere.goal:
        raise ConfigError(
            f"robot {spec.name!r}: its state holds {', '.join((*spec.observed, *spec.context))}, "
            "which no foreign bag tells; record episodes with hucrl up"
        )
    states, commands, lines = _messages(path, robot)
    passes = [
        decode_states(part, PoseBuffer(), spec, 0, np.inf, config.driver)
        for part in _passes(states, spec.period)
    ]
    refused = [line for _, lines_of in passes for line in lines_of]
    count = sum(len(samples) for samples, _ in passes)
    if count < FEWEST:
        reason = f": {refused[0]}" if refused else ""
        raise BagError(f"{path}: {count} joint states can be read{reason}")
    lines += [f"{count} of {len(states)} joint states can be read"]
    if refused:
        lines += [f"left out: {refused[0]}, and {len(refused) - 1} more"]
    parts = [part for samples, _ in passes for part in _unbroken(samples, spec.period)]
    wholes = [_course(path, part, commands, spec, config) for part in parts]
    courses = [course for whole in wholes for course in _stretches(whole)]
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
    ]
    return Recovered(courses, [shortened(f"{path}: {line}", LONGEST) for line in lines])


def _passes(states: list[RawMessage], period: float) -> list[list[RawMessage]]:
    """Joint states up to where their clock went back, and so on, as after a reset.

    What follows has stamps of moments that have been, and would pass for what was then.
    """
    parts: list[list[RawMessage]] = []
    newest = 0
    for raw in states:
        stamp = stamp_ns(deserialize(raw.data, raw.type).header)
        if not parts or newest - stamp >= OVERTAKEN * period * NANOSECONDS:
            parts.append([])
            newest = stamp
        newest = max(newest, stamp)
        parts[-1].append(raw)
    return parts


def _unbroken(samples: list[Sample], period: float) -> list[list[Sample]]:
    """Samples between pauses, where there are enough."""
    stamps = np.array([sample.stamp_ns for sample in samples], dtype=np.int64)
    pauses = np.flatnonzero(np.diff(stamps) > PAUSE * period * NANOSECONDS) + 1
    edges = [0, *pauses.tolist(), len(samples)]
    parts = [samples[begin:end] for begin, end in itertools.pairwise(edges)]
    return [part for part in parts if len(part) > FEWEST]


def _course(
    path: Path, samples: list[Sample], commands: list[RawMessage], spec: RobotSpec, config: Config
) -> Course:
    """All that happened in a part of a bag without pauses."""
    heard = heard_of(samples, spec, velocity_age(config.driver, spec.period))
    gap = float(np.median(np.diff(heard.stamps_ns))) / NANOSECONDS
    if gap > SLOWEST * spec.period:
        raise BagError(
            f"{path}: joint states come at {1 / gap:.1f} Hz, commands would go at "
            f"{1 / spec.period:g} Hz: expected at least as many"
        )
    in_force = decode_commands(commands, heard, spec, config.control.extra_delay)
    told = config.driver.effort != "ignored" and np.isfinite(heard.efforts[1:]).all()
    if not len(in_force.times_ns) and told and config.driver.effort == "commanded":
        in_force = Signal(heard.stamps_ns, heard.efforts)
    if not len(in_force.times_ns) and not told:
        raise BagError(
            f"{path}: nobody knows what acted: joint states report no {plural(spec.command)} that "
            f"were applied, and no topic holds commands of {spec.action_dim} ({EFFORTS})"
        )
    # Of a rate that is nearly the control rate, too: nobody plays by these stamps.
    whole = clocked_course(
        heard, in_force, spec.period, len(samples) * int(PAUSE), config.driver, gridded=True
    )
    if whole.acted == IN_FORCE:  # What was in force before the first command is not known.
        known = whole.stamps_ns[:-1] >= in_force.times_ns[0]
        whole = whole._replace(contiguous=whole.contiguous & known)
    whole.contiguous[: blind_steps(config.driver, spec.period)] = False
    return with_actions(whole, spec)


def _beyond_limits(courses: Sequence[Course], spec: RobotSpec) -> list[str]:
    """What a person should know of actions that nobody could have sent."""
    largest = np.max([np.abs(course.actions).max(axis=0) for course in courses], axis=0)
    return [
        f"! {plural(spec.command)} of up to {most:.3g} at joint {joint!r}, whose limit is "
        f"{limit:.3g}: in another unit, or not what acts? then --set driver.effort=ignored"
        for joint, most, limit in zip(
            spec.actuated_joints, largest, spec.effort_limits, strict=True
        )
        if most > 1.5 * limit
    ]


def _messages(
    path: Path, robot: RobotSettings
) -> tuple[list[RawMessage], list[RawMessage], list[str]]:
    """Joint states and commands as CDR, and which topics they are of."""
    if os.path.isfile(path / "config.yaml"):  # noqa: PTH113  # Path's raises of too long a name
        raise BagError(
            f"{path}: a run, not a bag; `hucrl up TASK --from RUN` begins with one; its bags are "
            f"in {path / 'episodes'}"
        )
    found: dict[str, dict[str, list[RawMessage]]] = {JOINT_STATE: {}, EFFORTS: {}}
    for message in _recorded(path):
        found[message.type].setdefault(message.topic, []).append(message)
    states = _chosen(
        path, list(found[JOINT_STATE]), robot.topics.get("joint_states", "joint_states")
    )
    commands = _commands_of(found[EFFORTS], robot)
    used = [f"joint states from {states}"]
    used += [f"commands from {topic}" for topic in commands]
    return (
        _stamped(found[JOINT_STATE][states], used),
        [message for topic in commands for message in found[EFFORTS][topic]],
        [", ".join(used)],
    )


def _recorded(path: Path) -> list[RawMessage]:
    """All joint states and arrays of numbers in a bag, as CDR."""
    if path.suffix == ".bag" and os.path.isfile(path):  # noqa: PTH113
        stream, size = open_regular(path.resolve())
        with stream:
            return [_as_cdr(each) for each in read_ros1(path, stream, size, KINDS)]
    return read_contents(path, KINDS).messages


def _chosen(path: Path, topics: Sequence[str], wished: str) -> str:
    """The topic of that name, or the only one of its type."""
    named = [topic for topic in topics if is_named(topic, wished)]
    if len(named or topics) == 1:
        return (named or topics)[0]
    raise BagError(
        f"{path}: which topic are the joint states? {JOINT_STATE}: {', '.join(topics) or 'none'}; "
        "name it in the description: topics: {joint_states: /NAME}"
    )


def _commands_of(found: Mapping[str, list[RawMessage]], robot: RobotSettings) -> list[str]:
    """The topic of the commands, where there is one: by its name, or by its number of efforts."""
    wished = robot.topics.get("commands", "controller/commands")
    named = [topic for topic in found if is_named(topic, wished)]
    first = {topic: found[topic][0] for topic in named or found}
    count = len(robot.actuated)
    fitting = [
        topic for topic, m in first.items() if len(deserialize(m.data, m.type).data) == count
    ]
    return fitting if len(fitting) == 1 else []


def _as_cdr(old: Ros1Message) -> RawMessage:
    content = old.content
    if old.type == EFFORTS:
        new = floats(content.data)
    else:
        stamp, efforts = stamp_ns(content.header), content.effort
        new = joint_state(stamp, content.name, content.position, content.velocity, efforts)
    return RawMessage(old.topic, old.type, old.received_ns, serialize(new, old.type))


def _stamped(messages: list[RawMessage], used: list[str]) -> list[RawMessage]:
    """With the times of the recording where nobody has filled in stamps."""
    decoded = [deserialize(each.data, each.type) for each in messages]
    if any(each.header.stamp.sec or each.header.stamp.nanosec for each in decoded):
        return messages
    used.append("which have no stamps: the times of the recording count")
    filled = [
        joint_state(each.received_ns, old.name, old.position, old.velocity, old.effort)
        for each, old in zip(messages, decoded, strict=True)
    ]
    return [
        each._replace(data=serialize(message, each.type))
        for each, message in zip(messages, filled, strict=True)
    ]


def _stretches(course: Course) -> list[Course]:
    """The parts of a course between its gaps."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], course.contiguous, [0]])))
    return [
        course.part(begin, end)
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        if end - begin >= FEWEST
    ]
