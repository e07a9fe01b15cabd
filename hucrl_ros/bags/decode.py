"""From a bag's messages to states, commands, ticks and places as arrays."""

import itertools
import json
import math
from bisect import bisect_left
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.bags.course import Course, Heard, centred, commands_in_force
from hucrl_ros.bags.messages import Message, RawMessage, deserialize, stamp_ns, to_tick
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import DriverSettings
from hucrl_ros.controller.pace import OVERTAKEN
from hucrl_ros.controller.passage import MAX_GAP_PERIODS, Signal
from hucrl_ros.controller.state_reader import (
    JointReading,
    Pose,
    PoseBuffer,
    StateReader,
    derived_entries,
)
from hucrl_ros.controller.ticks import NANOSECONDS, TickRecord
from hucrl_ros.controller.topics import RECORDED
from hucrl_ros.errors import BagError, MessageError, StateError

WHOLE_TURN = 0.5
"""[rad] By so much a position may differ from a whole turn where an encoder starts again."""
_LEVEL_OK = 0


class Sample(NamedTuple):
    """The state of one distinct joint state."""

    stamp_ns: int
    state: NDArray[np.float64]
    """`(p,)`"""
    effort: NDArray[np.float64] | None
    """`(q,)` effort in the joint state [N m or N]; None: not reported."""
    recorded_ns: int
    """When it was recorded [ns since the epoch]."""


def decode_ticks(path: Path, messages: list[RawMessage], spec: RobotSpec) -> NDArray[np.void]:
    """Ticks in the order of their stamps, as a structured array.

    Raises:
        BagError: a message is no tick, or one of a robot with another number of efforts.
    """
    rows = []
    for raw in messages:
        tick = to_tick(deserialize(raw.data, raw.type))
        if len(tick.action) != spec.action_dim:
            raise BagError(
                f"{path}: ticks hold {len(tick.action)} efforts; "
                f"{spec.name} takes {spec.action_dim}"
            )
        rows.append((tick.stamp_ns, *tick[2:]))
    rows.sort(key=lambda row: row[0])
    return np.array(rows, dtype=tick_dtype(spec.action_dim))


def tick_dtype(action_dim: int) -> np.dtype[np.void]:
    """Fields of the structured array of ticks: `stamp_ns`, then those of `TickRecord`."""
    kinds = TickRecord.__annotations__
    plain = [(name, np.dtype(kinds[name])) for name in TickRecord._fields[2:-1]]
    return np.dtype([("stamp_ns", np.int64), *plain, ("action", np.float64, (action_dim,))])


def decode_poses(
    objects: list[RawMessage],
    goals: list[RawMessage],
    joint_states: list[RawMessage],
    start_ns: int,
    period: float,
) -> PoseBuffer:
    """All that was recorded of the object and of the goal.

    Args:
        objects: Poses of the object.
        goals: Poses of the goal. One without a stamp, but the first, holds from when it came.
        joint_states: By which that is known.
        start_ns: Stamp of the episode's first joint state [ns].
        period: Control period [s].
    """
    poses = PoseBuffer(kept=None)
    poses.object.period = period
    for raw in objects:
        poses.object.add(_pose(raw))
    received = [raw.received_ns for raw in joint_states] if goals[1:] else []
    newest = list(
        itertools.accumulate((_stamp(raw) for raw in joint_states[: len(received)]), max)
    )
    for number, raw in enumerate(goals):
        goal = _pose(raw)
        before = bisect_left(received, raw.received_ns) if number and not goal.stamp_ns else 0
        if before and newest[before - 1] >= start_ns:
            goal = goal._replace(stamp_ns=newest[before - 1] + 1)
        poses.goal.add(goal)
    return poses


def _pose(raw: RawMessage) -> Pose:
    message = deserialize(raw.data, raw.type)
    place = message.pose.position
    position = (float(place.x), float(place.y), float(place.z))
    return Pose(stamp_ns(message.header), message.header.frame_id, position)


def _stamp(raw: RawMessage) -> int:
    return stamp_ns(deserialize(raw.data, raw.type).header)


def decode_states(
    messages: list[RawMessage],
    poses: PoseBuffer,
    spec: RobotSpec,
    start_ns: int,
    count: float,
    driver: DriverSettings | None = None,
) -> tuple[list[Sample], list[str]]:
    """States of the first `count` distinct joint states from `start_ns` on, by their stamps.

    Args:
        messages: Joint states.
        poses: What was recorded of object and goal.
        spec: The robot.
        start_ns: Stamp of the first one [ns].
        count: How many.
        driver: Says where velocities come from; None: from joint states.

    Returns:
        The states, and one line for each that had to be refused.
    """
    decoded = [(deserialize(raw.data, raw.type), raw.received_ns) for raw in messages]
    distinct = {stamp_ns(message.header): (message, ns) for message, ns in reversed(decoded)}
    reader = StateReader(spec, poses, MAX_GAP_PERIODS, driver)
    samples: list[Sample] = []
    refused: list[str] = []
    for stamp in sorted(stamp for stamp in distinct if stamp >= start_ns):
        if len(samples) == count:
            break
        message, recorded_ns = distinct[stamp]
        try:
            state = reader.read(
                JointReading(
                    message.name, message.position.tolist(), message.velocity.tolist(), stamp
                )
            )
        except StateError as error:
            refused.append(f"{(stamp - start_ns) / 1e9:.4f} s: {error}")
            continue
        samples.append(Sample(stamp, state, _effort(message, spec), recorded_ns))
    return samples, refused


def decode_trips(messages: list[RawMessage]) -> list[str]:
    """What the watchdog said when it tripped."""
    decoded = [deserialize(raw.data, raw.type) for raw in messages]
    return [f"watchdog: {m.message}" for m in decoded if m.level != _LEVEL_OK]


def _effort(message: Message, spec: RobotSpec) -> NDArray[np.float64] | None:
    """Efforts `(q,)` of the actuated joints, or None where the robot takes or reports none."""
    if spec.command != "effort":
        return None
    if len(message.effort) != len(message.name):
        return None
    effort = [float(message.effort[message.name.index(name)]) for name in spec.actuated_joints]
    return np.array(effort) if all(map(math.isfinite, effort)) else None


def decode_commands(
    messages: list[RawMessage], heard: Heard, spec: RobotSpec, dead_time: float
) -> Signal:
    """Commands that fit the robot, by when they were in force.

    Args:
        messages: Of the topic of the commands.
        heard: Joint states of the same recording.
        spec: The robot. Before the first command it is under that of no action.
        dead_time: From a command's arrival until it acts [s].
    """
    efforts = [deserialize(raw.data, raw.type).data for raw in messages]
    count = spec.action_dim
    kept = [k for k, x in enumerate(efforts) if len(x) == count and np.isfinite(x).all()]
    recorded = Signal(
        np.array([messages[k].received_ns for k in kept], dtype=np.int64),
        np.array([efforts[k] for k in kept], dtype=np.float64).reshape(-1, count),
        spec.to_command(np.zeros(count), heard.states[0]),
    )
    return commands_in_force(recorded, heard.stamps_ns, heard.recorded_ns, dead_time)


def heard_of(samples: list[Sample], spec: RobotSpec, age: float = 0.0) -> Heard:
    """Samples, at least one, as arrays; derived velocities are `age` [s] older than the rest."""
    unknown = np.full(spec.action_dim, np.nan)
    heard = Heard(
        np.array([sample.stamp_ns for sample in samples], dtype=np.int64),
        np.stack([sample.state for sample in samples]),
        np.stack([unknown if s.effort is None else s.effort for s in samples]),
        np.array([sample.recorded_ns for sample in samples], dtype=np.int64),
    )
    if spec.command != "position":  # Commanded positions start again where the encoder does.
        _count_turns(heard, spec)
    return centred(heard, derived_entries(spec), age) if age else heard


def _count_turns(heard: Heard, spec: RobotSpec) -> None:
    """Go on where the encoder of a joint starts again after a whole turn, in place.

    A position that differs by whole turns from where the velocity leads is such a one, unless
    joint states are missing before it.
    """
    joints = len(spec.joint_names)
    seconds = np.diff(heard.stamps_ns)[:, None] / NANOSECONDS
    places, speeds = heard.states[:, :joints], heard.states[:, joints : 2 * joints]
    leap = np.diff(places, axis=0) - 0.5 * (speeds[1:] + speeds[:-1]) * seconds
    turns = np.round(leap / (2.0 * np.pi))
    close = np.abs(leap - 2.0 * np.pi * turns) < WHOLE_TURN
    turns *= close & (seconds <= MAX_GAP_PERIODS * spec.period)
    places[1:] -= 2.0 * np.pi * np.cumsum(turns, axis=0)


def with_actions(course: Course, spec: RobotSpec) -> Course:
    """A course of commands, as one of the actions that these are."""
    return course._replace(actions=spec.to_action(course.actions, course.states[:-1]))


def told_setup(raw: RawMessage) -> dict[str, object] | None:
    """What a message of `controller/setup` tells, unchecked; None: it isn't one."""
    try:
        told = json.loads(deserialize(raw.data, raw.type).data)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def select(messages: list[RawMessage], name: str) -> list[RawMessage]:
    """Messages of one of the recorded topics.

    Raises:
        MessageError: one is of another type than the nodes' are.
    """
    (kind,) = (topic.type for topic in RECORDED if topic.name == name)
    found = [message for message in messages if message.is_of(name)]
    if wrong := [message for message in found if message.type != kind]:
        raise MessageError(f"{wrong[0].topic} holds {wrong[0].type}; expected {kind}")
    return found


def by_clock(
    messages: list[RawMessage], period: float
) -> list[tuple[float, float, list[RawMessage]]]:
    """Messages up to where their stamps went back by more than what is overtaken, and so on.

    What follows, as after a reset, has stamps of moments that have been, and would pass for what
    was then. Each part comes with when its first message came and when the next part's did
    [ns]; infinite at the ends.
    """
    parts, newest = list[list[RawMessage]](), 0
    for raw in messages:
        stamp = _stamp(raw)
        if not parts or newest - stamp >= max(OVERTAKEN * period * NANOSECONDS, 1):
            parts.append([])
            newest = stamp
        newest = max(newest, stamp)
        parts[-1].append(raw)
    edges = [part[0].received_ns for part in parts[1:]]
    # Of no messages there is no part.
    return list(zip([-math.inf, *edges], [*edges, math.inf], parts, strict=False))


def on_one_clock(messages: list[RawMessage], start_ns: int, period: float) -> list[RawMessage]:
    """Joint states from the first one up to where their clock went back: that was an outage."""
    stamps = list(map(_stamp, messages))
    first = stamps.index(start_ns) if start_ns in stamps else 0
    return [raw for _, _, part in by_clock(messages[first:], period)[:1] for raw in part]


def by_clock_of_ticks(
    joint_states: list[RawMessage], ticks: list[RawMessage], period: float
) -> list[RawMessage]:
    """Joint states since their clock last went back before the ticks, and until it did after."""
    came = [raw.received_ns for raw in ticks]
    parts = by_clock(joint_states, period)
    during = (part for begin, end, part in parts if begin <= max(came) and end > min(came))
    return list(itertools.chain.from_iterable(during))
