"""Somebody on the network who means harm: messages that no honest node sends, as raw bytes."""

import math
import struct

from rcl_interfaces.msg import Parameter, ParameterEvent, ParameterValue
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, MultiArrayDimension, MultiArrayLayout, String

CDR = b"\x00\x01\x00\x00"
"""Head of a message in little-endian CDR."""


def _text(raw, length=None):
    return CDR + struct.pack("<I", len(raw) if length is None else length) + raw


def damaged(message):
    """A message cut off, with lengths that its bytes don't have, and with no sense at all."""
    whole = bytes(serialize_message(message))
    yield from (b"", CDR[:2], CDR, whole[: len(whole) // 2], whole[:-1], b"\xff" * 64)
    yield CDR + b"\xff" * 64
    yield whole[:4] + b"\xff\xff\xff\x7f" + whole[8:]
    yield whole + b"\x00" * 5


def strings():
    """`std_msgs/String` with text that is none."""
    yield from (_text(b"\xff\xfe\xc3\x28\x00"), _text(b"no end"), _text(b"", 2**32 - 1))
    yield from damaged(String(data="bundle"))


def commands():
    """`std_msgs/Float64MultiArray` of all kinds."""
    label = MultiArrayLayout(dim=[MultiArrayDimension(label="watchdog", size=2**32 - 1)])
    odd = (math.nan, math.inf, 1e308, 5e-324)
    for message in (
        *(Float64MultiArray(data=[number]) for number in odd),
        Float64MultiArray(data=[0.0] * 5000),
        Float64MultiArray(layout=label, data=[math.nan]),
    ):
        yield bytes(serialize_message(message))
    yield from damaged(Float64MultiArray(data=[1.0]))


def joint_states():
    """`sensor_msgs/JointState` of all kinds."""
    odd = JointState(name=["a"] * 2000, position=[math.nan], velocity=[math.inf] * 3)
    odd.header.stamp.sec = -(2**31)
    yield bytes(serialize_message(odd))
    yield from damaged(JointState(name=["pendulum_joint"], position=[0.0], velocity=[0.0]))


def flags():
    """`std_msgs/Bool` that is neither."""
    most = len(serialize_message(Bool())) + 3  # DDS sends no more of a type of known size
    yield CDR + b"\x02"
    yield from (raw for raw in damaged(Bool(data=True)) if len(raw) <= most)


def limits():
    """`rcl_interfaces/ParameterEvent` about everything but limits."""
    values = [ParameterValue(type=200), ParameterValue(type=3, double_value=math.nan)]
    names = ["safety.stale_periods", "safety.effort_limits", "x" * 5000, ""]
    changed = [Parameter(name=name, value=value) for name in names for value in values]
    yield bytes(serialize_message(ParameterEvent(changed_parameters=changed)))
    yield from damaged(ParameterEvent(changed_parameters=changed[:1]))
