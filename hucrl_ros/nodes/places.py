"""Poses of the object and of the goal as messages; only their positions count."""

from collections.abc import Callable, Sequence

from geometry_msgs.msg import PoseStamped
from rclpy.node import Node

from hucrl_ros.controller.state_reader import FRAME, Place, Places, Surroundings
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.joint_message import nanoseconds
from hucrl_ros.nodes.qos import LATCHED, STREAM


def to_message(position: Sequence[float], stamp_ns: int) -> PoseStamped:
    """The message of a body at `position` `(3,)` [m] in the world's frame, not turned."""
    message = PoseStamped()
    message.header.frame_id = FRAME
    stamp, place = message.header.stamp, message.pose.position
    stamp.sec, stamp.nanosec = divmod(stamp_ns, NANOSECONDS)
    place.x, place.y, place.z = (float(value) for value in position)
    message.pose.orientation.w = 1.0
    return message


def from_message(message: PoseStamped) -> Place:
    """The place that a message tells."""
    stamp_ns, place = nanoseconds(message.header.stamp), message.pose.position
    return Place(stamp_ns, message.header.frame_id, (place.x, place.y, place.z))


def listen(
    node: Node, surroundings: Surroundings, heard: Callable[[], None] = lambda: None
) -> None:
    """Take in what is published of object and goal; `heard` is called after each message."""

    def take_into(places: Places) -> Callable[[PoseStamped], None]:
        def take(message: PoseStamped) -> None:
            places.add(from_message(message))
            heard()

        return take

    object_, goal = take_into(surroundings.object), take_into(surroundings.goal)
    node.create_subscription(PoseStamped, topics.OBJECT_POSE, object_, STREAM)
    node.create_subscription(PoseStamped, topics.GOAL, goal, LATCHED)
