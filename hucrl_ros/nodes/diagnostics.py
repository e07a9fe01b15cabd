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

    def status(self, name: str) -> DiagnosticStatus:
        """The message that says it, for the component `name`."""
        return DiagnosticStatus(
            level=self.level.value,
            name=name,
            message=self.message,
            values=[KeyValue(key=key, value=str(value)) for key, value in self.values.items()],
        )


class DiagnosticsPublisher:
    """Publishes a node's `Health` at 1 Hz of the steady clock."""

    def __init__(self, node: Node, health: Callable[[], Health]) -> None:
        self._node = node
        self._health = health
        self._publisher = node.create_publisher(DiagnosticArray, topics.DIAGNOSTICS, 10)
        self._timer = node.create_timer(PERIOD, self.publish, clock=topics.STEADY)

    def publish(self) -> None:
        """Publish the present health now."""
        message = DiagnosticArray(status=[self._health().status(self._node.get_name())])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)
