"""Bags that somebody else recorded: what can be learned from of a robot's joint states."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hucrl_ros.bags.bounds import open_regular
from hucrl_ros.bags.contents import about, read_contents
from hucrl_ros.bags.course import IN_FORCE, Course, clocked_course
from hucrl_ros.bags.decode import decode_commands, decode_states, heard_of, with_actions
from hucrl_ros.bags.messages import (
    RawMessage,
    deserialize,
    floats,
    joint_state,
    serialize,
    stamp_ns,
)
from hucrl_ros.bags.ros1_file import Ros1Message, read_ros1
from hucrl_ros.config.robot import RobotSettings, plural, sources
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.passage import Signal
from hucrl_ros.controller.state_reader import PoseBuffer, velocity_age
from hucrl_ros.controller.topics import is_named
from hucrl_ros.errors import LONGEST, BagError, ConfigError, shortened

JOINT_STATE, EFFORTS = "sensor_msgs/msg/JointState", "std_msgs/msg/Float64MultiArray"
KINDS = (JOINT_STATE, EFFORTS)
FEWEST = 10
"""Transitions in a row that are worth keeping."""


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
    samples, refused = decode_states(states, PoseBuffer(), spec, 0, np.inf, config.driver)
    if len(samples) < FEWEST:
        reason = f": {refused[0]}" if refused else ""
        raise BagError(f"{path}: {len(samples)} joint states can be read{reason}")
    lines += [f"{len(samples)} of {len(states)} joint states can be read"]
    if refused:
        lines += [f"left out: {refused[0]}, and {len(refused) - 1} more"]
    heard = heard_of(samples, spec, velocity_age(config.driver, spec.period))
    in_force = decode_commands(commands, heard, spec, config.control.extra_delay)
    told = config.driver.effort != "ignored" and np.isfinite(heard.efforts[1:]).all()
    if not len(in_force.times_ns) and told and config.driver.effort == "commanded":
        in_force = Signal(heard.stamps_ns, heard.efforts)
    if not len(in_force.times_ns) and not told:
        raise BagError(
            f"{path}: nobody knows what acted: joint states report no {plural(spec.command)} that "
            f"were applied, and no topic holds commands of {spec.action_dim} ({EFFORTS})"
        )
    whole = clocked_course(heard, in_force, spec.period, len(samples), config.driver)
    if whole.acted == IN_FORCE:  # What was in force before the first command is not known.
        known = whole.stamps_ns[:-1] >= in_force.times_ns[0]
        whole = whole._replace(contiguous=whole.contiguous & known)
    whole = with_actions(whole, spec)
    window = config.driver.velocity_window or spec.period
    blind = math.ceil(1 + window / spec.period) if config.driver.velocity == "derived" else 0
    courses = _stretches(whole, blind)
    count = sum(len(course.actions) for course in courses)
    if not count:
        raise BagError(
            f"{path}: no {FEWEST} joint states in a row are a control period "
            f"({1e3 * spec.period:g} ms) or less apart"
        )
    seconds = count * spec.period
    lines += [
        f"{count} transitions, {seconds:.1f} s in {len(courses)} stretches; "
        f"{len(whole.actions) - count} left out beside gaps and before the first command; "
        f"actions: {whole.acted}"
    ]
    return Recovered(courses, [shortened(f"{path}: {line}", LONGEST) for line in lines])


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


def _stretches(course: Course, blind: int) -> list[Course]:
    """The parts of a course between its gaps, without the first `blind` transitions of each."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], course.contiguous, [0]])))
    return [
        course.part(begin, end)
        for begin, end in zip((edges[::2] + blind).tolist(), edges[1::2].tolist(), strict=True)
        if end - begin >= FEWEST
    ]
