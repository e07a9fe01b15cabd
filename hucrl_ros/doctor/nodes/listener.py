"""A node for `hucrl check`: hears what a driver tells, commands nothing, prints it as JSON."""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import JointState

from hucrl_ros.nodes import topics
from hucrl_ros.nodes.controller_topics import nanoseconds
from hucrl_ros.nodes.parameters import own_parameter
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.topics import MEASURED_ARCHIVE, STEADY

LOOK_PERIOD = 0.05
"""[s]"""
INTERFACE = "interface_name"
"""Parameter of a forward_command_controller: effort, velocity or position."""
ORDER = "joints"
"""Another one: whose its commands are, one after the other."""


class Listener(Node):
    """Waits for joint states for `patience`, then listens for `listen`, its parameters [s]."""

    exit_code: int | None = None

    def __init__(self) -> None:
        super().__init__("hucrl_check", automatically_declare_parameters_from_overrides=True)
        # Of the same graph, but not renaming what it asks for: the default name of a topic that
        # the description gives another one would be taken for that.
        self._graph = Node(
            "hucrl_check_graph",
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
        )
        self._patience = own_parameter(self, "patience", 3.0)
        self._listen = own_parameter(self, "listen", 2.0)
        self._begin = time.monotonic()
        self._messages: list[dict[str, Any]] = []
        self._first: float | None = None
        self._asking: dict[str, Client] = {}
        self._told: dict[str, list[Future]] = {}
        self.create_subscription(
            JointState, topics.JOINT_STATES, self._on_joint_state, MEASURED_ARCHIVE
        )
        self.create_timer(LOOK_PERIOD, self._look, clock=STEADY)

    def close(self) -> None:
        """Leave the graph."""
        self._graph.destroy_node()

    def _on_joint_state(self, message: JointState) -> None:
        now = time.monotonic()
        self._first = self._first or now
        self._messages.append(
            {
                "stamp_ns": nanoseconds(message.header.stamp),
                "received_ns": time.time_ns(),
                "names": list(message.name),
                "positions": list(message.position),
                "velocities": list(message.velocity),
                "efforts": list(message.effort),
            }
        )

    def _look(self) -> None:
        now = time.monotonic()
        self._ask_for_interfaces()
        waited = now - self._begin
        out_of_patience = waited >= self._patience
        if self._first is None:
            done = out_of_patience
        else:
            heard = now - self._first >= self._listen
            done = heard and (out_of_patience or self._meets_all())
        if done:
            sys.stdout.write(json.dumps(self._found()) + "\n")
            self.exit_code = 0

    def _ask_for_interfaces(self) -> None:
        """Ask whoever takes commands what they are to it; other drivers have no such parameter."""
        commands = self.resolve_topic_name(topics.COMMANDS)
        for found in self.get_subscriptions_info_by_topic(commands):
            name = found.node_name
            if name == self.get_name() or name in self._told:
                continue
            if name not in self._asking:
                service = f"{found.node_namespace.rstrip('/')}/{name}/get_parameters"
                self._asking[name] = self.create_client(GetParameters, service)
            if self._asking[name].service_is_ready():
                # Whoever lacks one of those asked for together tells none.
                requests = [GetParameters.Request(names=[key]) for key in (INTERFACE, ORDER)]
                self._told[name] = [self._asking[name].call_async(each) for each in requests]

    def _controllers(self) -> Mapping[str, tuple[str, list[str]]]:
        """What commands are and whose, by the name of the node that takes them and says so."""
        told = {name: map(_value, futures) for name, futures in self._told.items()}
        return {
            name: (kind.string_value, list(order.string_array_value))
            for name, (kind, order) in told.items()
            if kind.string_value
        }

    def _meets_all(self) -> bool:
        """Whether everybody is there whom a fault would be told of; DDS finds them one by one."""
        services = [service for service, _ in self.get_service_names_and_types()]
        commands = self.resolve_topic_name(topics.COMMANDS)
        reset = self.resolve_service_name(topics.RESET)
        asked = self._told and all(each.done() for told in self._told.values() for each in told)
        return bool(asked) and self.count_subscribers(commands) > 0 and reset in services

    def _found(self) -> Mapping[str, Any]:
        name = self.resolve_topic_name
        return {
            "joint_states": name(topics.JOINT_STATES),
            "commands": name(topics.COMMANDS),
            "goal": name(topics.GOAL),
            "object_pose": name(topics.OBJECT_POSE),
            "reset": self.resolve_service_name(topics.RESET),
            "topics": {
                topic: {
                    "types": types,
                    "publishers": [
                        {
                            "node": found.node_name,
                            "reliability": found.qos_profile.reliability.name,
                        }
                        for found in self._graph.get_publishers_info_by_topic(topic)
                    ],
                    "subscribers": [
                        found.node_name
                        for found in self._graph.get_subscriptions_info_by_topic(topic)
                        if found.node_name != self.get_name()
                    ],
                }
                for topic, types in self.get_topic_names_and_types()
            },
            "controllers": self._controllers(),
            "services": [service for service, _ in self.get_service_names_and_types()],
            "messages": self._messages,
        }


def _value(asked: Future) -> ParameterValue:
    """The parameter that was asked for; empty where there is none."""
    answer = asked.result() if asked.done() else None
    return answer.values[0] if answer is not None and answer.values else ParameterValue()


def main() -> int:
    """Run the node."""
    return run_node(Listener)


if __name__ == "__main__":
    sys.exit(main())
