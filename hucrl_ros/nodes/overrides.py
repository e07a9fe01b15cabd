"""Settings of a bundle, replaced by a node's parameters where those are given."""

from typing import TypeVar

from pydantic import ValidationError
from rclpy.node import Node

from hucrl_ros.config.schema import Settings
from hucrl_ros.errors import ConfigError

Group = TypeVar("Group", bound=Settings)


def given_settings(node: Node, group: str, checked: Group) -> dict[str, object]:
    """The settings of a group that the node's parameters name.

    Args:
        node: The node.
        group: Name of the group, e.g. `safety`.
        checked: The group as `read_config` made it of those parameters.
    """
    return {name: getattr(checked, name) for name in node.get_parameters_by_prefix(group)}


def override(settings: Group, given: dict[str, object]) -> Group:
    """`settings` with the given ones put in, checked together.

    Raises:
        ConfigError: they don't go together.
    """
    try:
        return type(settings).model_validate({**settings.model_dump(), **given})
    except ValidationError as error:
        reason = "; ".join(problem["msg"] for problem in error.errors())
        names = ", ".join(f"{name} = {value}" for name, value in given.items())
        raise ConfigError(f"parameters {names} don't fit the bundle: {reason}") from None
