"""Messages, their definitions, type hashes and CDR, from `rosbags`, so that no ROS is needed."""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from rosbags.typesys import Stores, get_typestore

from hucrl_ros.controller.ticks import (
    NANOSECONDS,
    TickRecord,
    decode_tick,
    encode_tick,
    tick_labels,
)
from hucrl_ros.controller.topics import is_named
from hucrl_ros.errors import MessageError, shortened

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


class RawMessage(NamedTuple):
    """One recorded message."""

    topic: str
    """Resolved name."""
    type: str
    """As `package/msg/Name`."""
    received_ns: int
    """When it arrived [ns since the epoch]."""
    data: bytes
    """CDR."""
    own: str = ""
    """Relative name that the nodes know the topic by, where it was remapped."""

    @classmethod
    def checked(
        cls, topic: str, message_type: str, received_ns: int, data: bytes, own: str = ""
    ) -> "RawMessage":
        """A message of whatever a file holds.

        Raises:
            MessageError: it is nothing that a recorder writes.
        """
        texts = all(isinstance(text, str) for text in (topic, message_type))
        if not (texts and isinstance(data, bytes) and isinstance(received_ns, int)):
            raise MessageError("a message's topic, type, time or content is of the wrong kind")
        if abs(received_ns) >= 2**31 * NANOSECONDS:  # ROS's stamps can't hold it either
            raise MessageError(f"a message recorded at {received_ns} ns since the epoch")
        return cls(topic, message_type, received_ns, data, own)

    def is_of(self, name: str) -> bool:
        """Whether the nodes know the topic by the relative `name`."""
        return self.own == name if self.own else is_named(self.topic, name)


class Told(NamedTuple):
    """What one file of a bag holds."""

    messages: list[RawMessage]
    """In the file's order, as far as they were asked for."""
    total: int
    """Number of all messages."""
    whole: bool
    """It was closed."""


def deserialize(data: bytes, message_type: str) -> Message:
    """A message from CDR bytes.

    Raises:
        MessageError: they are no such message, or nobody knows the type.
    """
    try:
        return typestore().deserialize_cdr(data, message_type)
    except Exception as error:  # rosbags lets out whatever damaged bytes lead to
        raise MessageError(
            f"{len(data)} bytes that are no {shortened(message_type, 70)}: {type(error).__name__}"
        ) from None


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


def to_tick(message: Message) -> TickRecord:
    """What a `std_msgs/Float64MultiArray` says of a control tick.

    Raises:
        MessageError: it is no tick.
    """
    return decode_tick([entry.label for entry in message.layout.dim], message.data.tolist())


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
