"""Between ROS messages and what the controller reads and says: joint states, poses, ticks."""

from collections.abc import Callable, Sequence

from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, MultiArrayLayout

from hucrl_ros.controller.state_reader import (
    FRAME,
    JointReading,
    Pose,
    PoseBuffer,
    PoseHistory,
)
from hucrl_ros.controller.ticks import (
    NANOSECONDS,
    TickRecord,
    decode_tick,
    encode_tick,
    tick_labels,
)
from hucrl_ros.nodes import topics


def nanoseconds(stamp: Time) -> int:
    """A stamp in nanoseconds."""
    return int(stamp.sec) * NANOSECONDS + int(stamp.nanosec)


def to_reading(message: JointState) -> JointReading:
    """Names, positions, velocities and stamp, as they came."""
    stamp_ns = nanoseconds(message.header.stamp)
    return JointReading(message.name, message.position, message.velocity, stamp_ns)


def to_pose(message: PoseStamped) -> Pose:
    """When a body was where; how it was turned doesn't count."""
    stamp_ns, place = nanoseconds(message.header.stamp), message.pose.position
    return Pose(stamp_ns, message.header.frame_id, (place.x, place.y, place.z))


def pose_message(position: Sequence[float], stamp_ns: int) -> PoseStamped:
    """The message of a body at `position` `(3,)` [m] in the world's frame, not turned."""
    message = PoseStamped()
    message.header.frame_id = FRAME
    stamp, place = message.header.stamp, message.pose.position
    stamp.sec, stamp.nanosec = divmod(stamp_ns, NANOSECONDS)
    place.x, place.y, place.z = (float(value) for value in position)
    message.pose.orientation.w = 1.0
    return message


def listen_for_poses(
    node: Node, poses: PoseBuffer, heard: Callable[[], None] = lambda: None
) -> None:
    """Put what is published of object and goal into `poses`, and call `heard` each time."""

    def take_into(history: PoseHistory) -> Callable[[PoseStamped], None]:
        def take(message: PoseStamped) -> None:
            history.add(to_pose(message))
            heard()

        return take

    object_, goal = take_into(poses.object), take_into(poses.goal)
    node.create_subscription(PoseStamped, topics.OBJECT_POSE, object_, topics.STREAM)
    node.create_subscription(PoseStamped, topics.GOAL, goal, topics.LATCHED)


def tick_layout(action_dim: int) -> MultiArrayLayout:
    """The layout whose labels name the fields; build it once, it is the same for every tick."""
    return MultiArrayLayout(
        dim=[MultiArrayDimension(label=name, size=1, stride=1) for name in tick_labels(action_dim)]
    )


def tick_message(tick: TickRecord, layout: MultiArrayLayout) -> Float64MultiArray:
    """The message of a tick."""
    return Float64MultiArray(layout=layout, data=encode_tick(tick))


def to_tick(message: Float64MultiArray) -> TickRecord:
    """The tick of a message.

    Raises:
        HucrlError: labels and data don't match, or a field is missing.
    """
    return decode_tick([dimension.label for dimension in message.layout.dim], message.data)
