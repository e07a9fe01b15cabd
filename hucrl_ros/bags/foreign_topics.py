"""Which messages of somebody else's bag tell states, and which commands."""

import os
from bisect import bisect_right
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from hucrl_ros.bags import messages
from hucrl_ros.bags.bounds import open_regular
from hucrl_ros.bags.contents import read_contents
from hucrl_ros.bags.decode import told_setup
from hucrl_ros.bags.messages import RawMessage, deserialize, serialize, stamp_ns
from hucrl_ros.bags.ros1_file import Ros1Message, read_ros1
from hucrl_ros.config.robot import RobotSettings, Topic, sources
from hucrl_ros.controller.topics import (
    GOAL,
    JOINT_STATES,
    OBJECT_POSE,
    RECORDED,
    SETUP,
    TICKS,
    is_named,
)
from hucrl_ros.errors import BagError

EFFORTS = "std_msgs/msg/Float64MultiArray"
_TYPES = {topic.name: topic.type for topic in RECORDED}
JOINT_STATE, POSE, TEXT = _TYPES[JOINT_STATES], _TYPES[OBJECT_POSE], _TYPES[SETUP]
KINDS = (JOINT_STATE, EFFORTS, POSE)
OURS = "controller/commands"
"""Where our nodes publish commands."""
ROS1 = (".bag", ".bag.active")
"""Ends of the names of ROS 1's bags: whole ones, and those that a killed recorder leaves."""
Topics = Mapping[str, list[RawMessage]]


class Found(NamedTuple):
    """Messages as CDR, in the order of arrival."""

    states: list[RawMessage]
    objects: list[RawMessage]
    """Poses of the object, where the robot's state holds one."""
    goals: list[RawMessage]
    """Empty where nobody recorded any, or the state holds none."""
    commands: list[RawMessage]
    used: str
    """Which topics they are of."""
    stepped: bool
    """Each joint state is a step, as in our lockstep, and all has come when that began."""
    ticks: list[RawMessage]
    """Of our controller in lockstep: they say which joint state a command answered."""


def find_messages(path: Path, robot: RobotSettings) -> Found:
    """Find what a robot's states and actions are told by.

    Args:
        path: A bag's folder or file.
        robot: The complete description, which says how topics are called.

    Raises:
        BagError: the bag can't be read, or something is missing.
        ConfigError: an entry of the robot's state has no topic.
    """
    if os.path.isfile(path / "config.yaml"):  # noqa: PTH113  # Path's raises of too long a name
        raise BagError(
            f"{path}: a run, not a bag; `hucrl up TASK --from RUN` begins with one; its bags are "
            f"in {path / 'episodes'}"
        )
    needed = sources(robot.spec)
    found: dict[str, dict[str, list[RawMessage]]] = {kind: {} for kind in KINDS}
    recorded, stepped = _recorded(path)
    for message in recorded:
        found[message.type].setdefault(message.topic, []).append(message)
    joints = _chosen(path, found[JOINT_STATE], robot, JOINT_STATES)
    used, poses = [f"joint states from {joints}"], found[POSE]
    states = _of_joints(found[JOINT_STATE][joints], {*robot.joints, *needed.further})
    objects, goals = list[RawMessage](), list[RawMessage]()
    named = [topic for topic in poses if is_named(topic, robot.topics.get(GOAL, GOAL))]
    if needed.goal and (len(named) > 1 or (GOAL in robot.topics and not named)):
        raise _unclear(path, poses, GOAL)
    if needed.goal:
        goals = poses[named[0]] if named else []
        used += [f"goals from {named[0]}" if named else "goals drawn as for episodes"]
    if needed.object:
        others = {topic: found for topic, found in poses.items() if topic not in named}
        body = _chosen(path, others, robot, OBJECT_POSE)
        objects = poses[body]
        used += [f"the object from {body}"]
        if _stamped(states) != _stamped(objects):
            with_stamps, without = (joints, body) if _stamped(states) else (body, joints)
            raise BagError(
                f"{path}: {with_stamps} has stamps, {without} has none: "
                "expected both, by one clock"
            )
    fitting = _commands_of(found[EFFORTS], robot)
    commands = fitting if len(fitting) == 1 else []
    used += [f"commands from {topic}" for topic in commands]
    if not fitting and "commands" in robot.topics:
        used += [f"! no commands, as the bag has none on {robot.topics['commands']}"]
    if len(fitting) > 1:
        used += [
            f"! no commands, as {' or '.join(fitting)} may hold them: name it in the "
            "description: topics: {commands: /NAME}"
        ]
    if not _stamped(states):
        used += ["which have no stamps: the times of the recording count"]
        states, objects, goals = (
            [restamped(each, each.received_ns) for each in part]
            for part in (states, objects, goals)
        )
    told = [message for topic in commands for message in found[EFFORTS][topic]]
    if stepped:
        used += ["recorded in lockstep: commands act from joint state to joint state"]
        states, objects, goals, told = (
            _by_steps(states, part) for part in (states, objects, goals, told)
        )
    ticks = [each for each in recorded if stepped and each.is_of(TICKS)]
    return Found(states, objects, goals, told, ", ".join(used), stepped, ticks)


def _recorded(path: Path) -> tuple[list[RawMessage], bool]:
    """All joint states, poses and arrays of numbers in a bag, as CDR; whether of our lockstep."""
    if path.name.endswith(ROS1) and os.path.isfile(path):  # noqa: PTH113
        stream, size = open_regular(path.resolve())
        with stream:
            return [_as_cdr(each) for each in read_ros1(path, stream, size, KINDS)], False
    contents = read_contents(path, (*KINDS, TEXT))
    stepped = contents.stepped
    if stepped is None:  # a file of the folder, or a cut-off one
        setups = [told_setup(each) for each in contents.messages if each.is_of(SETUP)]
        stepped = any(told and told.get("timed") is False for told in setups)
    return [each for each in contents.messages if each.type in KINDS], stepped


def _by_steps(states: list[RawMessage], messages: list[RawMessage]) -> list[RawMessage]:
    """Messages as if each had come at the stamp of the joint state that came last before it.

    In lockstep physics waits, so the clock of the recording tells nothing.
    """
    came = [each.received_ns for each in states]
    stamps = [stamp_ns(deserialize(each.data, each.type).header) for each in states]
    before = [max(bisect_right(came, each.received_ns) - 1, 0) for each in messages]
    return [each._replace(received_ns=stamps[k]) for each, k in zip(messages, before, strict=True)]


def _of_joints(messages: list[RawMessage], joints: Collection[str]) -> list[RawMessage]:
    """Those with all `joints`: others' on the topic, as a gripper's, have stamps of their own."""
    named = [
        each for each in messages if set(deserialize(each.data, each.type).name).issuperset(joints)
    ]
    return named or messages


def _chosen(path: Path, topics: Topics, robot: RobotSettings, name: Topic) -> str:
    """The topic of that name, or the only one of its type."""
    named = [topic for topic in topics if is_named(topic, robot.topics.get(name, name))]
    if len(named or topics) == 1:
        return next(iter(named or topics))
    raise _unclear(path, topics, name)


def _unclear(path: Path, topics: Collection[str], name: str) -> BagError:
    return BagError(
        f"{path}: which topic is {name}? {_TYPES[name]}: {', '.join(topics) or 'none'}; "
        f"name it in the description: topics: {{{name}: /NAME}}"
    )


def _commands_of(found: Topics, robot: RobotSettings) -> list[str]:
    """The topics that may be that of the commands: by their names, or their numbers of efforts.

    Where the description names one, another may hold anything, such as places to be commanded.
    """
    wished = robot.topics.get("commands")
    named = [topic for topic in found if wished and is_named(topic, wished)]
    named = named or [topic for topic in found if is_named(topic, OURS)]
    first = {topic: found[topic][0] for topic in named or ([] if wished else found)}
    count = len(robot.actuated)
    return [topic for topic, m in first.items() if len(deserialize(m.data, m.type).data) == count]


def _as_cdr(old: Ros1Message) -> RawMessage:
    if old.type == EFFORTS:
        new = messages.floats(old.content.data)
    else:
        new = _stamped_as(old.content, old.type, stamp_ns(old.content.header))
    return RawMessage(old.topic, old.type, old.received_ns, serialize(new, old.type))


def _stamped(states: list[RawMessage]) -> bool:
    """Whether anybody has filled in stamps."""
    return any(stamp_ns(deserialize(each.data, each.type).header) for each in states)


def restamped(message: RawMessage, stamp: int) -> RawMessage:
    """A joint state or pose with another stamp [ns]."""
    old = deserialize(message.data, message.type)
    new = _stamped_as(old, message.type, stamp)
    return message._replace(data=serialize(new, message.type))


def _stamped_as(old: messages.Message, kind: str, stamp: int) -> messages.Message:
    """A joint state or pose of ROS 2 with a stamp [ns]."""
    if kind == POSE:
        place = old.pose.position
        return messages.pose(stamp, (place.x, place.y, place.z), old.header.frame_id)
    return messages.joint_state(stamp, old.name, old.position, old.velocity, old.effort)
