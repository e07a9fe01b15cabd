"""ROS parameters of a node, checked by the one schema of `hucrl_ros.config.schema`."""

import array
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

from rclpy.node import Node

from hucrl_ros.config.files import override
from hucrl_ros.config.schema import Config
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run.folder import RunFolder

ROS_PARAMETERS = ("use_sim_time", "start_type_description_service")
ROS_PREFIXES = ("qos_overrides.",)

Value = TypeVar("Value", bool, int, float, str)


def read_config(node: Node, own: Collection[str] = ()) -> Config:
    """The settings of the run whose folder the parameter `run` names, with the other parameters.

    Without a run they replace the schema's defaults.

    The node must be built with `automatically_declare_parameters_from_overrides=True`, so that
    a misspelt parameter is seen (and refused by name) instead of being ignored.

    Args:
        node: The node.
        own: Parameters that only this node has, read with `own_parameter`.

    Raises:
        ConfigError: a parameter is unknown, of the wrong type, or out of range.
        RunError: no run lies there.
    """
    ignored = {*ROS_PARAMETERS, *own}
    values = {
        name: _plain(parameter.value)
        for name, parameter in node.get_parameters_by_prefix("").items()
        if name not in ignored and not name.startswith(ROS_PREFIXES)
    }
    base = own_run(node).config if node.has_parameter("run") else Config()
    return override(base, values, origin(node))


def given_settings(node: Node, *groups: str) -> dict[str, object]:
    """Dotted keys and values of the settings in `groups` that the node's parameters name."""
    return {
        f"{group}.{name}": _plain(parameter.value)
        for group in groups
        for name, parameter in node.get_parameters_by_prefix(group).items()
    }


def origin(node: Node) -> str:
    """Where parameters came from, for messages."""
    return f"parameters of node {node.get_name()!r}"


def own_parameter(node: Node, name: str, default: Value) -> Value:
    """A parameter that only this node has, of the same type as `default`.

    Raises:
        ConfigError: it was given with another type.
    """
    if not node.has_parameter(name):
        node.declare_parameter(name, default)
    value = node.get_parameter(name).value
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(default):
        raise ConfigError(
            f"{origin(node)}: {name} = {value!r}: "
            f"expected {type(default).__name__}, got {type(value).__name__}"
        )
    assert isinstance(value, type(default))
    return value


def own_run(node: Node) -> RunFolder:
    """The run whose folder the node's parameter `run` names.

    Raises:
        ConfigError: the parameter is missing.
        RunError: no run lies there.
    """
    folder = own_parameter(node, "run", "")
    if not folder:
        raise ConfigError(
            f"{origin(node)}: run is missing; "
            "pass the folder of a run: --ros-args -p run:=runs/NAME"
        )
    try:
        return RunFolder.open(Path(folder))
    except OSError as error:
        raise RunError(f"{folder}: {error.strerror}") from None


def _plain(value: object) -> object:
    return list(value) if isinstance(value, (array.array, tuple)) else value
