"""From numbers to messages for a bag, where no ROS node published them."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from hucrl_ros.bags.messages import NANOSECONDS, Message, typestore
from hucrl_ros.controller.ticks import TickRecord, encode_tick, tick_labels


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


def tick(record: TickRecord) -> Message:
    """What a control tick says of itself."""
    return floats(encode_tick(record), tick_labels(len(record.action)))


def boolean(data: bool) -> Message:
    """A `std_msgs/Bool`."""
    return typestore().types["std_msgs/msg/Bool"](data)


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
