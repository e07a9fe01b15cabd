"""Messages, their definitions, type hashes and CDR, from `rosbags`, so that no ROS is needed."""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from rosbags.typesys import Stores, get_typestore

from hucrl_ros.controller.ticks import NANOSECONDS, TickRecord, encode_tick, tick_labels

Message = Any
"""An instance of one of the dataclasses that `rosbags` makes of message definitions."""


@cache
def typestore() -> Any:  # noqa: ANN401  # rosbags' Typestore, which mypy is told to skip
    """Definitions of the standard messages. The recorded ones are the same in every distro."""
    return get_typestore(Stores.ROS2_JAZZY)


def definition(message_type: str) -> str:
    """Definition of a message type and of those it is made of, as `ros2msg`."""
    return str(typestore().generate_msgdef(message_type, ros_version=2)[0])


def type_hash(message_type: str) -> str:
    """`RIHS01_...` hash of a message type."""
    return str(typestore().hash_rihs01(message_type))


def deserialize(data: bytes, message_type: str) -> Message:
    """A message from CDR bytes."""
    return typestore().deserialize_cdr(data, message_type)


def serialize(message: Message, message_type: str) -> bytes:
    """CDR bytes of a message: the same message always gives the same bytes.

    (rclpy's own bytes can carry uninitialised padding.)
    """
    return bytes(typestore().serialize_cdr(message, message_type))


def stamp_ns(header: Message) -> int:
    """Stamp of a `std_msgs/Header` [ns]."""
    return int(header.stamp.sec) * NANOSECONDS + int(header.stamp.nanosec)


def joint_state(
    stamp_ns: int,
    names: Sequence[str],
    positions: Sequence[float],
    velocities: Sequence[float],
    efforts: Sequence[float] = (),
) -> Message:
    """A `sensor_msgs/JointState` [rad or m, rad/s or m/s, N m or N]."""
    entries = (np.array(values, float) for values in (positions, velocities, efforts))
    make = typestore().types["sensor_msgs/msg/JointState"]
    return make(_header(stamp_ns, ""), list(names), *entries)


def pose(stamp_ns: int, position: Sequence[float], frame: str) -> Message:
    """A `geometry_msgs/PoseStamped` of a body at `position` `(3,)` [m] that is not turned."""
    types = typestore().types
    point = types["geometry_msgs/msg/Point"](*map(float, position))
    upright = types["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0)
    return types["geometry_msgs/msg/PoseStamped"](
        _header(stamp_ns, frame), types["geometry_msgs/msg/Pose"](point, upright)
    )


def tick(record: TickRecord, decided: Mapping[str, float] = MappingProxyType({})) -> Message:
    """What a control tick says of itself, and what time decided in it."""
    labels = (*tick_labels(len(record.action)), *decided)
    return floats([*encode_tick(record), *decided.values()], labels)


def boolean(data: bool) -> Message:
    """A `std_msgs/Bool`."""
    return typestore().types["std_msgs/msg/Bool"](data)


def string(data: str) -> Message:
    """A `std_msgs/String`."""
    return typestore().types["std_msgs/msg/String"](data)


def floats(data: Sequence[float], labels: tuple[str, ...] = ()) -> Message:
    """A `std_msgs/Float64MultiArray`: a command, or numbers with labels."""
    return typestore().types["std_msgs/msg/Float64MultiArray"](
        _layout(labels), np.array(data, float)
    )


@cache
def _layout(labels: tuple[str, ...]) -> Message:
    types = typestore().types
    dimensions = [types["std_msgs/msg/MultiArrayDimension"](label, 1, 1) for label in labels]
    return types["std_msgs/msg/MultiArrayLayout"](dimensions, 0)


def _header(stamp_ns: int, frame: str) -> Message:
    types = typestore().types
    stamp = types["builtin_interfaces/msg/Time"](*divmod(stamp_ns, NANOSECONDS))
    return types["std_msgs/msg/Header"](stamp, frame)
