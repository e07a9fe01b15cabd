"""ROS parameters of a node, checked by the one schema of `hucrl_ros.config.schema`."""

import array
import copy
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

from rclpy.node import Node

from hucrl_ros.config.files import override
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import kept_robot
from hucrl_ros.controller.admission import Admission
from hucrl_ros.controller.trust import Trust
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run.folder import RunFolder

ROS_PARAMETERS = ("use_sim_time", "start_type_description_service")
ROS_PREFIXES = ("qos_overrides.",)
OWN = {
    "run": "Folder of the run; its settings hold where no parameter says otherwise.",
    "robot": "YAML of the robot, or a task's name: what bundles are compared with, and settings.",
    "bundle": "What to load when the node is configured.",
    "threads": "Threads that torch may use [1].",
    "parent_reports": "A parent process tells of lost nodes; only for `hucrl up`.",
}
"""What a node's own parameters mean."""
READ_LATER = ("bundle",)
"""Those that a node reads after its start, so that they may change."""

Value = TypeVar("Value", bool, int, float, str)


def read_config(node: Node, own: Collection[str] = ()) -> Config:
    """The settings of the run whose folder the parameter `run` names, with the other parameters.

    Without a run they replace those of the robot that the parameter `robot` names, or else the
    schema's defaults.

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
        name: plain(parameter.value)
        for name, parameter in node.get_parameters_by_prefix("").items()
        if name not in ignored and not name.startswith(ROS_PREFIXES)
    }
    if node.has_parameter("run"):
        base = own_run(node).config
    elif "robot" in own and (robot := own_parameter(node, "robot", "")):
        base = _settings_of(robot)
    else:
        base = Config()
    return override(base, values, origin(node))


def _settings_of(robot: str) -> Config:
    """The settings that a run on the robot would have."""
    from hucrl_ros.run.asked import RunOptions, asked_config  # Few nodes need it.

    return asked_config(RunOptions(robot, overrides={"mode": "real_time"}, on_robot=True))


def given_settings(node: Node, *groups: str) -> dict[str, object]:
    """Dotted keys and values of the settings in `groups` that the node was given.

    To be called before `SettingParameters` declares the others.
    """
    return {
        f"{group}.{name}": plain(parameter.value)
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
    if name in OWN and not node.describe_parameter(name).description:
        descriptor = copy.deepcopy(node.describe_parameter(name))  # of the type that was given
        descriptor.description, descriptor.read_only = OWN[name], name not in READ_LATER
        node.set_descriptor(name, descriptor)
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


def make_admission(node: Node, config: Config, *groups: str) -> Admission:
    """Says which bundles may play on the robot that the node was told of.

    Args:
        node: It has the parameters `run` or `robot`, or neither.
        config: Its settings.
        groups: Those of which what the node was given replaces what a bundle says.

    Raises:
        ConfigError: the robot's description can't be read, or is another task's.
    """
    robot, task = own_parameter(node, "robot", ""), config.task
    spec = _spec_of(robot, task) if robot else robot_of_run(node, task)
    own = config.safety if robot or own_parameter(node, "run", "") else None
    if own is None:
        node.get_logger().info(
            "no robot was told: the first bundle itself says what the robot is and what is safe; "
            "the parameter 'robot' (a YAML or a task's name) would say it"
        )
    return Admission(task, given_settings(node, *groups), spec, origin(node), own)


def make_trust(node: Node, config: Config) -> Trust:
    """Says which folders may be opened as bundles: without a setting, those of the node's run."""
    control = config.control
    root = control.bundle_root or own_parameter(node, "run", "")
    return Trust(Path(root) if root else None, control.trusted_keys)


def _spec_of(robot: str, task: str) -> RobotSpec:
    from hucrl_ros.robots import describe  # MuJoCo takes a while.

    found = describe(robot)
    if found.name != task:
        raise ConfigError(f"robot = {robot!r}: describes {found.name!r}; the task is {task!r}")
    return found.robot.spec


def robot_of_run(node: Node, task: str) -> RobotSpec | None:
    """The robot that the description in the node's run says there is; None where there is none.

    Raises:
        ConfigError: the description can't be read, or is another task's.
    """
    folder = own_parameter(node, "run", "")
    return kept_robot(RunFolder(Path(folder)).robot if folder else None, task)


def plain(value: object) -> object:
    """The value of a parameter, with a list for each kind of array."""
    return list(value) if isinstance(value, (array.array, tuple)) else value
