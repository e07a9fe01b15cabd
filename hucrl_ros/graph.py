"""The one list of nodes: `hucrl up` and the launch files take it from here."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hucrl_ros.runs import RunFolder

PACKAGE = "hucrl_ros"
SUPERVISOR = "supervisor"
CONTROLLER = "controller"

Value = bool | int | float | str


@dataclass(frozen=True)
class NodeSpec:
    """A node as an operating system process of its own."""

    name: str
    """Name of the node, of its module in `hucrl_ros.nodes` and of its executable."""
    parameter_file: Path
    """Settings in ROS parameter form, for every node the same."""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    """What only this node is told."""
    remappings: Mapping[str, str] = field(default_factory=dict)
    """Topic or service name to the name used instead."""
    required: bool = True
    """The run can't go on without it."""

    @property
    def module(self) -> str:
        """Python module that runs the node."""
        return f"{PACKAGE}.nodes.{self.name}"

    @property
    def executable(self) -> str:
        """Name of the installed executable, in `lib/hucrl_ros/`."""
        return self.name

    @property
    def command(self) -> list[str]:
        """Command line that runs the node with this interpreter."""
        # The process's output is its log; a second file of the same lines would only confuse.
        arguments = ["--ros-args", "--disable-external-lib-logs"]
        arguments += ["--params-file", str(self.parameter_file)]
        for name, value in self.parameters.items():
            # The value is parsed as YAML, of which JSON is a part: quotes keep a text a text.
            arguments += ["-p", f"{name}:={json.dumps(value, ensure_ascii=False)}"]
        for name, other in self.remappings.items():
            arguments += ["-r", f"{name}:={other}"]
        return [sys.executable, "-m", self.module, *arguments]


def learning_graph(
    run: RunFolder,
    *,
    parent_reports: bool = False,
    remappings: Mapping[str, str] | None = None,
) -> tuple[NodeSpec, ...]:
    """All nodes that teach a simulated robot, the supervisor last.

    Args:
        run: The run they work on.
        parent_reports: The parent process tells the supervisor on its standard input which
            process was lost.
        remappings: Names changed for every node.
    """
    names = ("simulator", "recorder", "watchdog", CONTROLLER, "learner", SUPERVISOR)
    own: dict[str, Mapping[str, Value]] = {SUPERVISOR: {"parent_reports": parent_reports}}
    return tuple(
        NodeSpec(
            name=name,
            parameter_file=run.config_path,
            parameters={"run": str(run.root), **own.get(name, {})},
            remappings=remappings or {},
        )
        for name in names
    )
