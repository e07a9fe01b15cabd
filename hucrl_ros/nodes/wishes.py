"""Parameters by which a person steers a run while it plays, and who hears of them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rcl_interfaces.msg import ParameterDescriptor, ParameterEvent, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.qos import qos_profile_parameter_events

from hucrl_ros.errors import ConfigError, HucrlError, shortened
from hucrl_ros.nodes.parameters import plain

BUNDLE = "next.bundle"
PAUSE = "pause"
STRATEGY = "strategy"
GOAL = "next.goal"
STEERING: Mapping[str, Mapping[str, object]] = {
    "supervisor": {BUNDLE: "", PAUSE: False},
    "learner": {STRATEGY: None},
    "simulator": {GOAL: []},
}
"""By node: what it may be steered by, and what that is at the start, if it is always the same."""
PARAMETER_EVENTS = "/parameter_events"
MOST_HEARD = 500
"""Wishes of a session that are told: anybody on an open network may send some."""
LINE = 500
"""Most letters of a reason."""


class Wish(NamedTuple):
    """A parameter that anybody may set while a node runs."""

    value: object
    """At the start."""
    meaning: str
    rule: str
    """What is accepted."""
    judge: Callable[[Any], None]
    """Raises a `HucrlError` that says why a value is refused."""


class Wishes:
    """A node's wishes; each is judged when it is set, and a refused one changes nothing."""

    def __init__(self, node: Node, wishes: Mapping[str, Wish]) -> None:
        """Declare the parameters, by their names."""
        self._node, self._wishes = node, wishes
        for name, wish in wishes.items():
            if node.has_parameter(name):
                node.undeclare_parameter(name)
            # Of any type, as tools can't tell that of an empty list, or take 1 for 1.0.
            descriptor = ParameterDescriptor(
                name=name,
                description=wish.meaning,
                additional_constraints=wish.rule,
                dynamic_typing=True,
            )
            node.declare_parameter(name, wish.value, descriptor, ignore_override=True)
        node.add_on_set_parameters_callback(self._on_set)

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # one type a wish
        return plain(self._node.get_parameter(name).value)

    def _on_set(self, parameters: list[Parameter]) -> SetParametersResult:
        for parameter in parameters:
            wish = self._wishes.get(parameter.name)
            if wish is None:
                continue
            value = plain(parameter.value)
            try:
                if type(value) is not type(wish.value):
                    raise ConfigError(f"{parameter.name} = {value!r}: accepted: {wish.rule}")
                wish.judge(value)
            except HucrlError as error:
                return SetParametersResult(successful=False, reason=shortened(error, LINE))
        return SetParametersResult(successful=True)


class HeardWishes:
    """Hears what is set on the nodes of a run, and tells each change once."""

    def __init__(self, node: Node, strategy: str, tell: Callable[[str], None]) -> None:
        """Listen; `tell` gets a line for each change, `strategy` is the run's at the start."""
        self._node, self._tell = node, tell
        self._left = MOST_HEARD
        self._known: dict[tuple[str, str], object] = {
            (peer, name): strategy if name == STRATEGY else value
            for peer, names in STEERING.items()
            for name, value in names.items()
        }
        node.create_subscription(
            ParameterEvent, PARAMETER_EVENTS, self._on_event, qos_profile_parameter_events
        )

    def _on_event(self, event: ParameterEvent) -> None:
        namespace, _, peer = str(event.node).rpartition("/")
        if namespace != self._node.get_namespace().rstrip("/"):
            return
        for parameter in event.changed_parameters:
            key = (peer, str(parameter.name))
            if key not in self._known or not self._left:
                continue
            try:
                value = plain(parameter_value_to_python(parameter.value))
            except RuntimeError:  # a type that ROS doesn't know
                continue
            if value != self._known[key]:
                self._known[key], self._left = value, self._left - 1
                self._tell(f"by a person: {key[1]} of the {peer} = {shortened(repr(value))}")
