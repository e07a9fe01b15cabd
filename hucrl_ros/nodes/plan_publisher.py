"""What the controller plans, for RViz."""

import time

import numpy as np
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Point
from numpy.typing import NDArray
from rclpy.node import Node
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.nodes import topics

Trajectory = NDArray[np.float32]
PLAN_PERIOD = 0.1
"""[s] Shortest time between two plans."""
PLAN_LIFETIME = Duration(sec=1)
PLAN_FRAME = "plan"
"""Frame whose x is a joint's position [rad or m] and y its velocity [rad/s or m/s]."""
LINE_WIDTH = 0.02
OPTIMISTIC = ColorRGBA(r=1.0, g=0.55, b=0.0, a=1.0)
EXPECTED = ColorRGBA(r=0.1, g=0.45, b=0.8, a=1.0)


class PlanPublisher:
    """Publishes planned trajectories in the phase plane, one line a joint, while somebody looks.

    Namespace `optimistic`: with the hallucinated efforts; `expected`: without them.
    """

    def __init__(self, node: Node) -> None:
        self._publisher = node.create_publisher(MarkerArray, topics.PLAN, 1)
        self._next = 0.0
        self._joints = 0

    def prepare(self, spec: RobotSpec) -> None:
        """The plans to come are this robot's."""
        self._joints = len(spec.joint_names)

    def due(self) -> bool:
        """Whether a plan is wanted now."""
        return time.monotonic() >= self._next and self._publisher.get_subscription_count() > 0

    def publish(self, optimistic: Trajectory, expected: Trajectory | None) -> None:
        """Publish trajectories `(H + 1, p)`."""
        self._next = time.monotonic() + PLAN_PERIOD
        markers = plan_markers("optimistic", optimistic, self._joints, OPTIMISTIC)
        if expected is not None:
            markers += plan_markers("expected", expected, self._joints, EXPECTED)
        self._publisher.publish(MarkerArray(markers=markers))


def plan_markers(
    namespace: str, states: Trajectory, joints: int, color: ColorRGBA
) -> list[Marker]:
    """A trajectory `(H + 1, p)` as one line for each of the `joints`."""
    markers = []
    for joint in range(joints):
        marker = Marker(
            ns=namespace,
            id=joint,
            type=Marker.LINE_STRIP,
            action=Marker.ADD,
            color=color,
            lifetime=PLAN_LIFETIME,
            points=[Point(x=float(s[joint]), y=float(s[joints + joint])) for s in states],
        )
        marker.header.frame_id = PLAN_FRAME
        marker.scale.x = LINE_WIDTH
        marker.pose.orientation.w = 1.0
        markers.append(marker)
    return markers
