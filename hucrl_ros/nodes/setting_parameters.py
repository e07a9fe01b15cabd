"""A node's settings as ROS parameters that say what they mean and whether they may change."""

import copy
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from pydantic.fields import FieldInfo
from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    ParameterEvent,
    SetParametersResult,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

from hucrl_ros.config.defaults import Accepted, accepted, docstrings
from hucrl_ros.config.schema import Config, Settings
from hucrl_ros.controller.admission import LIMITS
from hucrl_ros.errors import HucrlError, MessageError, one_line, shortened
from hucrl_ros.nodes.parameters import plain

BUNDLES = ("planner", "safety", "driver")
"""Groups of settings that a bundle brings."""
FIXED = "fixed when the node starts: --ros-args -p {name}:=VALUE"
BROUGHT = "comes with the bundle, unless the node is started with --ros-args -p {name}:=VALUE"
LIMIT = "may be made stricter while the node runs, not looser"
LARGEST = 2**63 - 1
"""Of ROS's integers."""

Tighten = Callable[[Mapping[str, object]], None]


class Setting(NamedTuple):
    """A field of the schema."""

    field: FieldInfo
    meaning: str
    value: object


class SettingParameters:
    """Declares what a node uses of its settings, with effective values.

    Read-only, as ROS calls it, is what never changes. What a bundle brings changes with the
    bundle only; the limits among it may be made stricter by anybody, if the node says how.
    """

    def __init__(
        self,
        node: Node,
        config: Config,
        uses: Collection[str],
        tighten: Tighten | None = None,
        without: Collection[str] = (),
    ) -> None:
        """Declare the settings.

        Args:
            node: It was built with `automatically_declare_parameters_from_overrides=True`.
            config: Its settings.
            uses: Keys and groups of those that it uses; those that it was given are declared too.
            tighten: Takes limits, by dotted keys, or raises a `HucrlError` that says why not;
                None: the node plays no bundle, and all its settings are fixed.
            without: Keys that the node declares itself.
        """
        self._node, self._tighten = node, tighten
        self._showing = False
        self._brought: dict[str, Parameter.Type] = {}
        found = {
            name: setting
            for name, setting in _settings(config)
            if name not in without
            and (node.has_parameter(name) or name in uses or name.partition(".")[0] in uses)
        }
        for name, setting in found.items():
            self._declare(name, setting)
        node.add_on_set_parameters_callback(self._on_set)

    def show(self, **groups: Settings) -> None:
        """Let parameters have the values of the bundle that now plays; groups by their names."""
        values = {
            f"{group}.{name}": value
            for group, settings in groups.items()
            for name, value in settings
        }
        parameters = [
            Parameter(name, kind, _ros(values[name]))
            for name, kind in self._brought.items()
            if name in values and plain(self._node.get_parameter(name).value) != _ros(values[name])
        ]
        self._showing = True
        try:
            self._node.set_parameters(parameters)
        finally:
            self._showing = False

    def _declare(self, name: str, setting: Setting) -> None:
        node, values = self._node, accepted(setting.field)
        kind = _kind(setting.value, values)
        brought = self._tighten is not None and name.partition(".")[0] in BUNDLES
        rule = LIMIT if brought and name in LIMITS else BROUGHT if brought else FIXED
        facts = [rule.format(name=name), *([f"accepted: {values.text}"] if values.text else [])]
        descriptor = ParameterDescriptor(
            name=name,
            type=kind.value,
            description=setting.meaning,
            additional_constraints="; ".join(facts),
        )
        _limit(descriptor, values)
        if node.has_parameter(name):  # as it was given, of any type
            node.undeclare_parameter(name)
        # By its type first: that of an empty list can't be told.
        node.declare_parameter(name, kind, descriptor, ignore_override=True)
        node.set_parameters([Parameter(name, kind, _ros(setting.value))])
        if brought:
            self._brought[name] = kind
        else:
            fixed = copy.deepcopy(descriptor)  # the node keeps the one that it got
            fixed.read_only = True
            node.set_descriptor(name, fixed)

    def _on_set(self, parameters: list[Parameter]) -> SetParametersResult:
        """Judge what somebody sets; what is read-only doesn't come here."""
        changes = {p.name: plain(p.value) for p in parameters if p.name in self._brought}
        if self._showing or not changes:
            return SetParametersResult(successful=True)
        for name in changes:
            if name not in LIMITS:
                reason = f"{name}: {BROUGHT.format(name=name)}"
                return SetParametersResult(successful=False, reason=reason)
        assert self._tighten is not None
        try:
            self._tighten(changes)
        except HucrlError as error:
            return SetParametersResult(successful=False, reason=one_line(error))
        return SetParametersResult(successful=True)


def _settings(config: Config) -> Iterator[tuple[str, Setting]]:
    """All settings by their dotted keys."""
    meanings = docstrings(Config)
    for name, field in Config.model_fields.items():
        value = getattr(config, name)
        if not isinstance(value, Settings):
            yield name, Setting(field, meanings[name], value)
            continue
        below = docstrings(type(value))
        for key, inner in type(value).model_fields.items():
            yield f"{name}.{key}", Setting(inner, below[key], getattr(value, key))


def _kind(value: object, values: Accepted) -> Parameter.Type:
    if isinstance(value, tuple):
        if values.kind is str:
            return Parameter.Type.STRING_ARRAY
        whole = values.kind is int
        return Parameter.Type.INTEGER_ARRAY if whole else Parameter.Type.DOUBLE_ARRAY
    return Parameter.Type.from_parameter_value(value)


def _ros(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _limit(descriptor: ParameterDescriptor, values: Accepted) -> None:
    """Add the range of a number; ROS has only closed ones."""
    bounds = values.bounds
    if not bounds:
        return
    if descriptor.type == Parameter.Type.DOUBLE.value:
        low = float(bounds.get("ge", bounds.get("gt", -math.inf)))
        high = float(bounds.get("le", bounds.get("lt", math.inf)))
        descriptor.floating_point_range = [FloatingPointRange(from_value=low, to_value=high)]
    elif descriptor.type == Parameter.Type.INTEGER.value:
        least = bounds.get("ge", bounds.get("gt", -LARGEST - 1) + ("gt" in bounds))
        most = bounds.get("le", bounds.get("lt", LARGEST) - ("lt" in bounds))
        descriptor.integer_range = [IntegerRange(from_value=int(least), to_value=int(most))]


def limits_message(limits: Mapping[str, object]) -> ParameterEvent:
    """The message of limits that were tightened, by dotted keys."""
    parameters = [Parameter(name, value=value) for name, value in limits.items()]
    return ParameterEvent(changed_parameters=[p.to_parameter_msg() for p in parameters])


def to_limits(message: ParameterEvent) -> dict[str, object]:
    """The limits of a message, by dotted keys.

    Raises:
        MessageError: one of them is no parameter.
    """
    try:
        parameters = [Parameter.from_parameter_msg(each) for each in message.changed_parameters]
        return {parameter.name: plain(parameter.value) for parameter in parameters}
    except Exception as error:  # rclpy lets out whatever an unknown type leads to
        raise MessageError(f"no parameters: {shortened(error)}") from None
