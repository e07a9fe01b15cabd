"""Message definitions, type hashes and CDR, from `rosbags`, so that no ROS is needed."""

from functools import cache
from typing import Any

from rosbags.typesys import Stores, get_typestore

Message = Any
"""An instance of one of the dataclasses that `rosbags` makes of message definitions."""

NANOSECONDS = 1_000_000_000


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
