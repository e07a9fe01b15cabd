"""The one list of nodes: `hucrl up` and the launch files take it from here."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hucrl_ros.config.robot import Topic
from hucrl_ros.config.task_file import find_description
from hucrl_ros.run.folder import RunFolder

PACKAGE = "hucrl_ros"
SUPERVISOR = "supervisor"
CONTROLLER = "controller"
WATCHDOG = "watchdog"
SIMULATOR = "simulator"
HOMING = "homing"
"""Moves the robot to the start, where `driver.reset` is `home`."""
REMOTE_LEARNER = "remote_learner"
"""Stands in for the learner that runs on another machine."""

OWN_TOPICS: Mapping[Topic, str] = {
    "joint_states": "joint_states",
    "commands": "controller/commands",
    "goal": "goal",
    "object_pose": "object_pose",
}
"""What a robot's description calls a topic, and what the nodes call it."""

Value = bool | int | float | str


@dataclass(frozen=True)
class NodeSpec:
    """A node as an operating system process of its own."""

    name: str
    """Name of the node, of its module in `package` and of its executable."""
    parameter_file: Path | None = None
    """Settings in ROS parameter form; None: those of the run, or the schema's defaults."""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    """What only this node is told; it replaces what the file says."""
    remappings: Mapping[str, str] = field(default_factory=dict)
    """Topic or service name to the name used instead."""
    required: bool = True
    """The others can't go on without it."""
    package: str = f"{PACKAGE}.nodes"
    """Python package that holds its module."""

    @property
    def module(self) -> str:
        """Python module that runs the node."""
        return f"{self.package}.{self.name}"

    @property
    def executable(self) -> str:
        """Name of the installed executable, in `lib/hucrl_ros/`."""
        return self.name

    @property
    def enclave(self) -> list[str]:
        """ROS arguments that name its identity, see `enclave_of`."""
        return enclave_of(self.name)

    @property
    def command(self) -> list[str]:
        """Command line that runs the node with this interpreter."""
        # The process's output is its log; a second file of the same lines would only confuse.
        arguments = ["--ros-args", "--disable-external-lib-logs", *self.enclave]
        if self.parameter_file is not None:
            arguments += ["--params-file", str(self.parameter_file)]
        for name, value in self.parameters.items():
            # The value is parsed as YAML, of which JSON is a part: quotes keep a text a text.
            arguments += ["-p", f"{name}:={json.dumps(value, ensure_ascii=False)}"]
        for name, other in self.remappings.items():
            arguments += ["-r", f"{name}:={other}"]
        return [sys.executable, "-m", self.module, *arguments]


def enclave_of(node: str) -> list[str]:
    """ROS arguments that name a node's identity, where DDS is secured (SROS2); none elsewhere."""
    if os.environ.get("ROS_SECURITY_ENABLE") != "true":
        return []
    # The stand-in of a learner is its node.
    return ["--enclave", f"/{PACKAGE}/{'learner' if node == REMOTE_LEARNER else node}"]


def learning_graph(
    run: RunFolder,
    *,
    parent_reports: bool = False,
    simulated: bool = True,
    listen: str | None = None,
) -> tuple[NodeSpec, ...]:
    """All nodes that teach a robot, the supervisor last.

    Args:
        run: The run they work on.
        parent_reports: The parent process tells the supervisor on its standard input which
            process was lost.
        simulated: With our simulator; otherwise a robot stands in its place.
        listen: HOST:PORT where a learner on another machine is waited for; None: it runs here.
    """
    config = run.config
    described = find_description(run.robot, config.task)
    topics = described.robot.topics if described else {}
    learner = "learner" if listen is None else REMOTE_LEARNER
    names = [SIMULATOR, "recorder", WATCHDOG, CONTROLLER, learner, SUPERVISOR]
    if config.driver.reset == "home" and config.mode == "real_time":
        names.insert(-1, HOMING)
    own: dict[str, dict[str, Value]] = {SUPERVISOR: {"parent_reports": parent_reports}}
    if listen is not None:
        own[SUPERVISOR]["remote_learner"] = True
        own[REMOTE_LEARNER] = {"listen": listen}
    return tuple(
        NodeSpec(
            name=name,
            parameters={"run": str(run.root), **own.get(name, {})},
            remappings=remapped(topics),
        )
        for name in names
        if simulated or name != SIMULATOR
    )


def remapped(topics: Mapping[Topic, str]) -> dict[str, str]:
    """What the nodes call a topic, to what a description says."""
    return {OWN_TOPICS[topic]: other for topic, other in topics.items()}


def control_graph(
    bundle: Path,
    task: str,
    *,
    robot: str = "",
    parameter_file: Path | None = None,
    remappings: Mapping[str, str] | None = None,
    run: RunFolder | None = None,
) -> tuple[NodeSpec, ...]:
    """What plays a bundle on a robot: controller, watchdog and, given a run, recorder.

    Args:
        bundle: The bundle; its planner and safety settings hold where no file gives others.
        task: The bundle's task.
        robot: YAML of the robot, or a task's name, with which bundles are compared; empty: the
            bundle itself says what is safe.
        parameter_file: Settings in ROS parameter form.
        remappings: Names of the robot's topics, e.g. `controller/commands` to
            `/forward_command_controller/commands`; for every node the same.
        run: Where to record.
    """
    settings: dict[str, Value] = {"task": task, "mode": "real_time"}
    told: dict[str, Value] = {"robot": robot} if robot else {}
    own: dict[str, Mapping[str, Value]] = {
        WATCHDOG: told,
        CONTROLLER: {"bundle": str(bundle.absolute()), **told},
    }
    if run is not None:
        own["recorder"] = {"run": str(run.root)}
    return tuple(
        NodeSpec(
            name=name,
            parameter_file=parameter_file,
            parameters={**settings, **parameters},
            remappings=remappings or {},
            required=name != "recorder",
        )
        for name, parameters in own.items()
    )
