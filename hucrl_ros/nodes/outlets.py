"""What the controller publishes while it controls."""

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from std_msgs.msg import Bool, Float64MultiArray, MultiArrayLayout

from hucrl_ros.controller.ticks import TickRecord
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.qos import LATCHED, STREAM
from hucrl_ros.nodes.tick_message import tick_layout, to_message


class Outlets:
    """Publishers of commands, ticks and activity."""

    def __init__(self, node: Node) -> None:
        self._commands = node.create_publisher(Float64MultiArray, topics.COMMANDS, STREAM)
        self._ticks = node.create_publisher(Float64MultiArray, topics.TICKS, STREAM)
        self._activity = node.create_publisher(Bool, topics.ACTIVE, LATCHED)
        self._layout = MultiArrayLayout()

    @property
    def activity_topic(self) -> str:
        """Resolved name of the topic that says whether an episode is under way."""
        return str(self._activity.topic_name)

    def prepare(self, action_dim: int) -> None:
        """The ticks to come have so many efforts."""
        self._layout = tick_layout(action_dim)

    def command(self, effort: NDArray[np.float64]) -> None:
        """Publish efforts `(q,)` [N m or N]."""
        self._commands.publish(Float64MultiArray(data=effort.tolist()))

    def tick(self, record: TickRecord) -> None:
        """Publish what a tick did."""
        self._ticks.publish(to_message(record, self._layout))

    def activity(self, active: bool) -> None:
        """Publish whether an episode is under way."""
        self._activity.publish(Bool(data=active))
