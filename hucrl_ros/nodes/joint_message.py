"""What the runtime reads of a `sensor_msgs/JointState`."""

from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState

from hucrl_ros.controller.joint_state import JointReading
from hucrl_ros.controller.ticks import NANOSECONDS


def nanoseconds(stamp: Time) -> int:
    """A stamp in nanoseconds."""
    return int(stamp.sec) * NANOSECONDS + int(stamp.nanosec)


def from_message(message: JointState) -> JointReading:
    """Names, positions, velocities and stamp, as they came."""
    stamp_ns = nanoseconds(message.header.stamp)
    return JointReading(message.name, message.position, message.velocity, stamp_ns)
