"""From recorded messages to numbers."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.bags.contents import RawMessage
from hucrl_ros.bags.messages import Message, deserialize, stamp_ns
from hucrl_ros.config.robot_spec import RobotSpec
from hucrl_ros.controller.state_reader import (
    JointReading,
    Pose,
    PoseBuffer,
    PoseHistory,
    StateReader,
)
from hucrl_ros.controller.ticks import TickRecord, decode_tick
from hucrl_ros.errors import BagError, HucrlError, StateError

_LEVEL_OK = 0


MIN_GAP_PERIODS = 0.5
"""A transition that took less time is not one of a single control period."""
MAX_GAP_PERIODS = 1.5
"""A transition that took longer is not one of a single control period, and an object's pose that
is older than its joint state by more is not one of the same period."""


class Sample(NamedTuple):
    """The state of one distinct joint state."""

    stamp_ns: int
    state: NDArray[np.float64]
    """`(p,)`"""
    effort: NDArray[np.float64] | None
    """`(q,)` mean effort since the state before it [N m or N]; None: not reported."""


def decode_ticks(path: Path, messages: list[RawMessage], spec: RobotSpec) -> NDArray[np.void]:
    """Ticks in the order of their stamps, as a structured array.

    Raises:
        BagError: a message is no tick, or one of a robot with another number of efforts.
    """
    rows = []
    for raw in messages:
        message = deserialize(raw.data, raw.type)
        labels = [dimension.label for dimension in message.layout.dim]
        try:
            tick = decode_tick(labels, message.data.tolist())
        except HucrlError as error:
            raise BagError(f"{path}: {error}") from None
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


def decode_poses(objects: list[RawMessage], goals: list[RawMessage]) -> PoseBuffer:
    """All that was recorded of the object and of the goal."""
    poses = PoseBuffer(kept=None)
    _add_places(poses.object, objects)
    _add_places(poses.goal, goals)
    return poses


def _add_places(places: PoseHistory, messages: list[RawMessage]) -> None:
    for raw in messages:
        message = deserialize(raw.data, raw.type)
        place = message.pose.position
        position = (float(place.x), float(place.y), float(place.z))
        places.add(Pose(stamp_ns(message.header), message.header.frame_id, position))


def decode_states(
    messages: list[RawMessage],
    poses: PoseBuffer,
    spec: RobotSpec,
    start_ns: int,
    count: int,
) -> tuple[list[Sample], list[str]]:
    """States of the first `count` distinct joint states from `start_ns` on, by their stamps.

    Args:
        messages: Joint states.
        poses: What was recorded of object and goal.
        spec: The robot.
        start_ns: Stamp of the first one [ns].
        count: How many.

    Returns:
        The states, and one line for each that had to be refused.
    """
    decoded = [deserialize(raw.data, raw.type) for raw in messages]
    distinct = {stamp_ns(message.header): message for message in reversed(decoded)}
    reader = StateReader(spec, poses, MAX_GAP_PERIODS)
    samples: list[Sample] = []
    refused: list[str] = []
    for stamp in sorted(stamp for stamp in distinct if stamp >= start_ns):
        if len(samples) == count:
            break
        message = distinct[stamp]
        try:
            state = reader.read(
                JointReading(
                    message.name, message.position.tolist(), message.velocity.tolist(), stamp
                )
            )
        except StateError as error:
            refused.append(f"{(stamp - start_ns) / 1e9:.4f} s: {error}")
            continue
        samples.append(Sample(stamp, state, _effort(message, spec)))
    return samples, refused


def decode_trips(messages: list[RawMessage]) -> list[str]:
    """What the watchdog said when it tripped."""
    decoded = [deserialize(raw.data, raw.type) for raw in messages]
    return [f"watchdog: {m.message}" for m in decoded if m.level != _LEVEL_OK]


def _effort(message: Message, spec: RobotSpec) -> NDArray[np.float64] | None:
    """Efforts `(q,)` of the actuated joints, or None where the robot reports none."""
    if len(message.effort) != len(message.name):
        return None
    effort = [float(message.effort[message.name.index(name)]) for name in spec.actuated_joints]
    return np.array(effort) if all(map(math.isfinite, effort)) else None
