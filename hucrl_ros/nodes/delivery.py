"""Publishers and subscriptions that don't hear each other because of what they offer and ask."""

from collections.abc import Collection

from rclpy.node import Node
from rclpy.qos import QoSCompatibility, qos_check_compatible
from rclpy.topic_endpoint_info import TopicEndpointInfo

UNKNOWN = ("_NODE_NAME_UNKNOWN_", "_NODE_NAMESPACE_UNKNOWN_")
"""The node of an end that was found before the node itself; it is told at the next look."""


def undelivered(node: Node, names: Collection[str]) -> list[str]:
    """One line for each pair whose QoS doesn't go together, so that nothing comes through.

    Args:
        node: Looks at the ROS graph.
        names: Names of nodes in its namespace; at least one end of a pair is one of these.
    """
    ours = {(name, node.get_namespace()) for name in names}
    lines = []
    for topic, _ in node.get_topic_names_and_types():
        publishers = node.get_publishers_info_by_topic(topic)
        for heard in node.get_subscriptions_info_by_topic(topic):
            for said in publishers:
                ends = {_who(said), _who(heard)}
                if not ends & ours or UNKNOWN in ends:
                    continue
                found, reason = qos_check_compatible(said.qos_profile, heard.qos_profile)
                if found == QoSCompatibility.ERROR:
                    why = reason.removeprefix("ERROR: ").rstrip("; ")
                    lines.append(
                        f"{topic}: nothing comes from {full_name(said)} to {full_name(heard)}: "
                        f"incompatible QoS: {why}"
                    )
    return sorted(set(lines))


def _who(end: TopicEndpointInfo) -> tuple[str, str]:
    return end.node_name, end.node_namespace


def full_name(end: TopicEndpointInfo) -> str:
    """Name of an end's node with its namespace."""
    return f"{str(end.node_namespace).rstrip('/')}/{end.node_name}"
