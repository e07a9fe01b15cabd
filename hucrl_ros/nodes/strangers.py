"""Publishers that nobody expects on the topics by which a robot is moved."""

from collections import Counter
from collections.abc import Mapping

from rclpy.node import Node

from hucrl_ros.errors import shortened
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.delivery import UNKNOWN, full_name
from hucrl_ros.nodes.stopper import NAME as STOPPER
from hucrl_ros.run.node_list import SIMULATOR

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
        resolved, found = _speakers(topic, node)
        known = {_beside(node, name) for name in names}
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


def another_robot(node: Node) -> str:
    """Who tells joint states where only our simulator should, in one line; empty: nobody.

    What commands the simulator would move that robot, too, if it is one.
    """
    resolved, found = _speakers(topics.JOINT_STATES, node)
    found.subtract([_beside(node, SIMULATOR)])
    others = [shortened(name) for name, count in sorted(found.items()) if count > 0]
    return f"{resolved} comes from {', '.join(others)} as well" if others else ""


def _speakers(topic: str, node: Node) -> tuple[str, Counter[str]]:
    """Full name of a topic, and how often each node publishes on it."""
    resolved = node.resolve_topic_name(topic)
    found = Counter(
        full_name(each)
        for each in node.get_publishers_info_by_topic(resolved)
        if (each.node_name, each.node_namespace) != UNKNOWN
    )
    return resolved, found


def _beside(node: Node, name: str) -> str:
    """Full name of a node in the namespace of `node`."""
    return f"{node.get_namespace().rstrip('/')}/{name}"
