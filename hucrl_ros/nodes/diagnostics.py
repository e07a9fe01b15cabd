"""A node's counters on `/diagnostics`, once a second."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from hucrl_ros.nodes import topics

PERIOD = 1.0
"""[s]"""


class Level(Enum):
    """How a node feels, as `diagnostic_msgs/DiagnosticStatus` encodes it."""

    OK = DiagnosticStatus.OK
    WARN = DiagnosticStatus.WARN
    ERROR = DiagnosticStatus.ERROR


@dataclass(frozen=True)
class Health:
    """What a node says of itself."""

    level: Level = Level.OK
    message: str = "ok"
    values: Mapping[str, object] = field(default_factory=dict)

    def status(self, name: str, hardware_id: str = "") -> DiagnosticStatus:
        """The message that says it, for the component `name` of the robot `hardware_id`."""
        return DiagnosticStatus(
            level=self.level.value,
            name=name,
            message=self.message,
            hardware_id=hardware_id,
            values=[KeyValue(key=key, value=str(value)) for key, value in self.values.items()],
        )


class DiagnosticsPublisher:
    """Publishes a node's `Health` at 1 Hz of the steady clock."""

    def __init__(self, node: Node, health: Callable[[], Health], hardware_id: str = "") -> None:
        self._node = node
        self.hardware_id = hardware_id
        """Name of the robot; empty where it isn't known yet."""
        self._health = health
        self._publisher = node.create_publisher(DiagnosticArray, topics.DIAGNOSTICS, 10)
        self._timer = node.create_timer(PERIOD, self.publish, clock=topics.STEADY)

    def publish(self) -> None:
        """Publish the present health now."""
        name = self._node.get_fully_qualified_name()
        message = DiagnosticArray(status=[self._health().status(name, self.hardware_id)])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)


def speaker(node: Node, status: DiagnosticStatus) -> str:
    """Name of the node that a status is of; empty if it isn't in the namespace of `node`."""
    namespace, _, name = str(status.name).rpartition("/")
    return name if namespace == node.get_namespace().rstrip("/") else ""
