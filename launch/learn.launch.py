"""Teach a simulated robot a task: `ros2 launch hucrl_ros learn.launch.py task:=pendulum`.

The same nodes as `hucrl up` starts, from the same list (`hucrl_ros.run.node_list`). When
the supervisor has finished, or has given up, everything ends.
"""

import os
from pathlib import Path

import yaml
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from hucrl_ros.run.node_list import PACKAGE, SUPERVISOR, NodeSpec, learning_graph
from hucrl_ros.run.prepare import RunOptions, prepare_run
from hucrl_ros.run.session import PARENT_VARIABLE

SETTINGS = {
    "episodes": "episodes to run, the random ones included",
    "action_penalty": "weight of the action's cost in the reward",
    "strategy": "greedy, thompson or optimistic",
    "seed": "seed of everything random",
    "device": "cpu or cuda: where models and policies learn",
    "mode": "lockstep (physics waits for each command) or real_time (it never waits)",
}
ARGUMENTS = {
    "config": "settings in ROS parameter form; default: the task's file in config/",
    "out": "folder of the run; default: a new one below runs/",
    "resume": "true: continue the run in `out`",
}


def generate_launch_description() -> LaunchDescription:
    """Launch arguments, then the nodes that follow from them."""
    text = "; default: what the settings' file says"
    return LaunchDescription(
        [
            DeclareLaunchArgument("task", default_value="pendulum", description="what to learn"),
            *(
                DeclareLaunchArgument(name, default_value="", description=meaning + text)
                for name, meaning in SETTINGS.items()
            ),
            *(
                DeclareLaunchArgument(name, default_value="", description=meaning)
                for name, meaning in ARGUMENTS.items()
            ),
            OpaqueFunction(function=start_nodes),
        ]
    )


def start_nodes(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Make or open the run's folder; start a process for each node.

    Raises:
        HucrlError: an argument is wrong, or another process plays the run; launch shows the
            line and ends.
    """

    def argument(name: str) -> str:
        return str(LaunchConfiguration(name).perform(context))

    given = {name: yaml.safe_load(argument(name)) for name in SETTINGS if argument(name)}
    options = RunOptions(
        task=argument("task"),
        config=Path(argument("config")) if argument("config") else None,
        overrides=given,
        out=Path(argument("out")) if argument("out") else None,
        resume=argument("resume").lower() in ("true", "1"),
    )
    run = prepare_run(options)
    run.lock_until_exit()
    return [LogInfo(msg=f"run: {run.root}"), *(process(node) for node in learning_graph(run))]


def process(node: NodeSpec) -> Node:
    """The node as launch starts it."""
    return Node(
        package=PACKAGE,
        executable=node.executable,
        name=node.name,
        parameters=[dict(node.parameters)],
        remappings=list(node.remappings.items()),
        output="screen",
        # A node ends by itself when this process, which starts it, is gone.
        additional_env={PARENT_VARIABLE: str(os.getpid())},
        on_exit=OpaqueFunction(function=shut_down) if node.name == SUPERVISOR else None,
    )


def shut_down(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """End all other processes, unless that is why this one has ended."""
    return [] if context.is_shutdown else [Shutdown(reason="the supervisor has ended")]
