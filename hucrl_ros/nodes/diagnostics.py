"""A node's counters on `/diagnostics`, once a second."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from hucrl_ros.nodes import topics

PERIOD = 1.0
"""[s]"""
REFUSAL_PERIOD = 5.0
"""[s] At most one line about messages that make no sense in this time."""


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


class Refusals:
    """Messages that made no sense: each is counted, and now and then a line tells of one."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.count = 0

    def note(self, topic: str, error: Exception) -> None:
        """A message on `topic` is left out."""
        self.count += 1
        line = f"{topic}: a message is left out: {error}"
        self._node.get_logger().warning(line, throttle_duration_sec=REFUSAL_PERIOD)


def speaker(node: Node, status: DiagnosticStatus) -> str:
    """Name of the node that a status is of; empty if it isn't in the namespace of `node`."""
    namespace, _, name = str(status.name).rpartition("/")
    return name if namespace == node.get_namespace().rstrip("/") else ""
