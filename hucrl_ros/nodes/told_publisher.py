"""Publishes messages that the watchdog also hears from this process itself."""

from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import serialize_message

from hucrl_ros.nodes.process_liveness import ProcessLiveness


class ToldPublisher:
    """A publisher; what it publishes is told to this machine's watchers first."""

    def __init__(
        self,
        node: Node,
        kind: Any,  # noqa: ANN401  # a message type, of which rclpy has no common base
        topic: str,
        qos: QoSProfile,
        liveness: ProcessLiveness,
    ) -> None:
        """Publish on `topic`; where it is latched, who comes later is told the last message."""
        self._publisher = node.create_publisher(kind, topic, qos)
        self._topic, self._liveness = topic, liveness
        self._lasting = qos.durability == DurabilityPolicy.TRANSIENT_LOCAL

    def tell(self, message: Any) -> None:  # noqa: ANN401
        """Tell this machine's watchers what will be published."""
        self._liveness.tell(self._topic, serialize_message(message), self._lasting)

    def publish(self, message: Any, told: bool = True) -> None:  # noqa: ANN401
        """Tell and publish; what isn't `told` is only published."""
        if told:
            self.tell(message)
        self._publisher.publish(message)

    def wait_for_all_acked(self, longest: Duration) -> bool:
        """Wait until all readers have what was published; False: somebody lacks some."""
        return bool(self._publisher.wait_for_all_acked(longest))
