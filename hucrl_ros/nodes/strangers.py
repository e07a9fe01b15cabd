"""Publishers that nobody expects on the topics by which a robot is moved."""

from collections import Counter
from collections.abc import Mapping

from rclpy.node import Node

from hucrl_ros.errors import shortened
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.delivery import UNKNOWN, full_name
from hucrl_ros.nodes.stopper import NAME as STOPPER

SPEAKERS: Mapping[str, tuple[str, ...]] = {
    topics.COMMANDS: ("controller", "watchdog", "homing", STOPPER),
    topics.ACTIVE: ("controller",),
    topics.LOADED_BUNDLE: ("controller",),
    topics.LIMITS: ("controller",),
    topics.JOINT_STATES: (),
    topics.OBJECT_POSE: (),
    topics.GOAL: (),
}
"""Nodes that publish on a topic; none: the robot, whose node may have any name, but is one."""


def strangers(node: Node) -> list[str]:
    """One line for each topic on which somebody else publishes as well.

    A name proves nothing: who means harm takes the controller's. So this finds mistakes, and two
    publishers of one name are said to be two.
    """
    lines = []
    for topic, names in SPEAKERS.items():
        resolved = node.resolve_topic_name(topic)
        found = Counter(
            full_name(each)
            for each in node.get_publishers_info_by_topic(resolved)
            if (each.node_name, each.node_namespace) != UNKNOWN
        )
        known = {f"{node.get_namespace().rstrip('/')}/{name}" for name in names}
        odd = [
            shortened(name) if count == 1 else f"{shortened(name)} {count} times"
            for name, count in sorted(found.items())
            if count > 1 or name not in known
        ]
        if names:
            if odd:
                lines.append(f"{resolved}: besides our nodes publishes {', '.join(odd)}")
        elif found.total() > 1:
            lines.append(f"{resolved}: more than one publisher: {', '.join(odd)}")
    return lines
