"""A node's class without ROS beneath it: what it asks of `rclpy` is kept, and nothing is sent."""

import copy
import os
from contextlib import contextmanager
from types import SimpleNamespace
from typing import ClassVar

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.clock import Clock
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.task import Future


class Backlog:
    """What has come since a callback; a test may put messages in."""

    def __init__(self):
        self.messages = []

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass

    def take_message(self, kind, raw):
        return (self.messages.pop(0), None) if self.messages else None


def subscription(name, kind, raw=False):
    return SimpleNamespace(topic_name=name, msg_type=kind, raw=raw, handle=Backlog())


class LoneNode:
    """In the place of `rclpy.node.Node`; a test says what is heard, and when timers ring."""

    given: ClassVar[dict[str, object]] = {}
    """Parameters that the process would have been started with."""

    def __init__(self, name, **options):
        self._name = name
        self._parameters = dict(self.given)
        self.context = SimpleNamespace(get_domain_id=os.getpid)
        self.executor = None
        self.heard, self.kinds, self.sent, self.answered = {}, {}, {}, {}
        self.delivery = {}
        self.asked, self.timers, self.lines, self.judges = [], [], [], []

    def get_name(self):
        return self._name

    def get_namespace(self):
        return "/"

    def get_fully_qualified_name(self):
        return f"/{self._name}"

    def has_parameter(self, name):
        return name in self._parameters

    def declare_parameter(self, name, default, descriptor=None, ignore_override=False):
        self._parameters[name] = default

    def undeclare_parameter(self, name):
        del self._parameters[name]

    def set_parameters(self, parameters):
        self._parameters.update({each.name: each.value for each in parameters})

    def describe_parameter(self, name):
        return ParameterDescriptor()

    def set_descriptor(self, name, descriptor):
        pass

    def get_parameter(self, name):
        value = self._parameters[name]
        return SimpleNamespace(value=value)

    def get_parameters_by_prefix(self, prefix):
        start = f"{prefix}." if prefix else ""
        found = [name for name in self._parameters if name.startswith(start)]
        return {name.removeprefix(start): self.get_parameter(name) for name in found}

    def add_on_set_parameters_callback(self, callback):
        self.judges.append(callback)

    def asked_to_set(self, name, value):
        """As by `ros2 param set`; returns why it is refused, or nothing."""
        parameter = Parameter(name, value=value)
        for judge in self.judges:
            result = judge([parameter])
            if not result.successful:
                return result.reason
        self._parameters[name] = parameter.value
        return ""

    def create_publisher(self, kind, topic, qos):
        sent = self.sent.setdefault(topic, [])
        self.delivery.setdefault(topic, []).append(qos)
        return SimpleNamespace(
            publish=lambda message: sent.append(copy.deepcopy(message)),
            topic_name=topic,
            wait_for_all_acked=lambda timeout: True,
            get_subscription_count=lambda: 1,
        )

    def create_subscription(self, kind, topic, callback, qos, raw=False):
        self.heard[topic], self.kinds[topic] = callback, None if raw else kind
        self.delivery.setdefault(topic, []).append(qos)
        return subscription(f"/{topic}", kind, raw)

    def create_timer(self, period, callback, clock):
        timer = SimpleNamespace(
            period=period, ring=callback, reset=lambda: None, cancel=lambda: None
        )
        self.timers.append(timer)
        return timer

    def destroy_timer(self, timer):
        self.timers.remove(timer)

    def create_client(self, kind, name):
        def call_async(request):
            self.asked.append((name, request, Future()))
            return self.asked[-1][-1]

        return SimpleNamespace(service_is_ready=lambda: True, call_async=call_async)

    def create_service(self, kind, name, callback):
        self.answered[name] = callback

    def resolve_topic_name(self, name):
        return f"/{name}"

    def count_publishers(self, name):
        return 1

    def get_publishers_info_by_topic(self, name):
        return []

    def get_logger(self):
        note = lambda line, **options: self.lines.append(line)  # noqa: E731
        return SimpleNamespace(info=note, warning=note, error=note)

    def destroy_subscription(self, subscription):
        del self.heard[subscription.topic_name.removeprefix("/")]

    def get_clock(self):
        return Clock()

    def on_activate(self, state):
        return TransitionCallbackReturn.SUCCESS

    on_deactivate = on_activate

    def trigger_deactivate(self):
        """`LifecycleNode` calls the node's own method."""
        self.on_deactivate(None)

    def ring(self, period):
        """All timers of that period."""
        for timer in list(self.timers):
            if timer.period == period:
                timer.ring()


@contextmanager
def alone(node_class, **parameters):
    """An instance of a node's class with a `LoneNode` beneath it; `__` stands for a dot."""
    kinds = {Node, LifecycleNode, LoneNode}
    derived = next(each for each in node_class.__mro__ if kinds & {*each.__bases__})
    bases = derived.__bases__
    LoneNode.given = {name.replace("__", "."): value for name, value in parameters.items()}
    derived.__bases__ = tuple(LoneNode if base in kinds else base for base in bases)
    try:
        node = node_class()
        yield node
        node.close()
    finally:
        derived.__bases__ = bases
