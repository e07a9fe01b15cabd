"""Teach a robot a task: `ros2 launch hucrl_ros learn.launch.py task:=pendulum`.

The same nodes as `hucrl up` starts, from the same list (`hucrl_ros.run.node_list`), with the same
options. When the supervisor has finished, or has given up, everything ends. So it does at once
when controller or watchdog has ended, before anybody notices their silence.
"""

import os
import shlex
from functools import partial
from pathlib import Path

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    ExecuteProcess,
    LogInfo,
    OpaqueFunction,
    Shutdown,
    TimerAction,
)
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from hucrl_ros.cli.asked import announce, prepared_run
from hucrl_ros.cli.watch import page_command
from hucrl_ros.config.yaml_reader import parse_value
from hucrl_ros.errors import ConfigError
from hucrl_ros.run.asked import flag
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.node_list import (
    CONTROLLER,
    PACKAGE,
    SUPERVISOR,
    WATCHDOG,
    NodeSpec,
    learning_graph,
)
from hucrl_ros.run.session import PARENT_VARIABLE, wished_domain

SETTINGS = {
    "episodes": "episodes to run, the random ones included",
    "action_penalty": "weight of the action's cost in the reward",
    "strategy": "greedy, thompson, optimistic, sombrl or opax",
    "seed": "seed of everything random",
    "device": "cpu or cuda: where models and policies learn",
    "mode": "lockstep (physics waits for each command) or real_time (it never waits)",
}
ARGUMENTS = {
    "config": "settings in ROS parameter form; default: the task's file in config/",
    "set": "any other settings, between spaces: planner.horizon=30 safety.effort_rate=0.2",
    "out": "folder of the run; default: a new one below runs/",
    "from": "folder of another run of the task, with whose policies and episodes this one begins",
    "listen": "HOST:PORT where a learner on another machine is waited for; default: "
    "127.0.0.1:8642",
}
FLAGS = {
    "resume": "true: continue the run in `out`",
    "no_simulator": "true: a robot stands in the simulator's place, in real time",
    "like_hardware": "true: a simulator with the habits of a cheap robot, in real time",
    "remote_learner": "true: wait for `hucrl learner` on another machine, over HTTP",
    "watch": "true: with a live page in the browser, as of `hucrl watch`",
}
ENDS = (SUPERVISOR, CONTROLLER, WATCHDOG)
"""Nodes whose end is that of the run."""
FAREWELL_S = 2.0
"""[s] From the end of the controller to that of all others."""
DISCOVERY = "ROS_AUTOMATIC_DISCOVERY_RANGE"


def generate_launch_description() -> LaunchDescription:
    """Launch arguments, then the nodes that follow from them."""
    text = "; default: what the settings' file says"
    optional = {name: meaning + text for name, meaning in SETTINGS.items()}
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "task",
                default_value="pendulum",
                description="what to learn: a name, or the YAML of a robot of your own",
            ),
            *(
                DeclareLaunchArgument(name, default_value="", description=meaning)
                for name, meaning in {**optional, **ARGUMENTS}.items()
            ),
            *(
                DeclareLaunchArgument(name, default_value="false", description=meaning)
                for name, meaning in FLAGS.items()
            ),
            OpaqueFunction(function=start_nodes),
        ]
    )


def start_nodes(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Make or open the run's folder; start a process for each node.

    Raises:
        HucrlError: an argument is wrong, the robot can't be controlled, or another process plays
            the run; launch shows the line and ends.
    """
    # Nobody in the network hears it unless that is wished, as with `hucrl up`. The robot is looked
    # for where the nodes will be: launch gives them this environment.
    os.environ.setdefault(DISCOVERY, "LOCALHOST")
    typed = typed_words(context)
    run, finished, _, listen = prepared_run(typed)
    said = LogInfo(msg=f"run: {run.root}")
    if finished:
        return [said]
    simulated = not typed["no_simulator"]
    domain = wished_domain(os.environ.get("ROS_DOMAIN_ID")) or 0
    run.lock_until_exit(on_robot=not simulated, domain=domain)
    if listen is not None:
        announce(run, listen)
    nodes = [process(n) for n in learning_graph(run, simulated=simulated, listen=listen)]
    return [said, *nodes, *([page(run)] if typed["watch"] else [])]


def typed_words(context: LaunchContext) -> dict[str, object]:
    """The arguments as `hucrl up` has its options.

    Raises:
        ConfigError: one isn't understood.
    """

    def argument(name: str) -> str:
        return str(LaunchConfiguration(name).perform(context))

    typed: dict[str, object] = {
        name: parse_value(argument(name) or "null", f"{name}:={argument(name)}")
        for name in SETTINGS
    }
    try:
        mode, others = typed.pop("mode"), shlex.split(argument("set"))
    except ValueError as error:
        raise ConfigError(f"set:={argument('set')}: {error}") from None
    if mode not in (None, "lockstep", "real_time"):
        others.append(f"mode={mode}")  # for the schema to refuse
    return {
        **typed,
        **{name: flag(name, argument(name)) for name in FLAGS},
        "task": argument("task"),
        "config": Path(argument("config")) if argument("config") else None,
        "settings": others,
        "out": Path(argument("out")) if argument("out") else None,
        "source": Path(argument("from")) if argument("from") else None,
        "listen": argument("listen") or None,
        "real_time": mode == "real_time",
        "lockstep": mode == "lockstep",
    }


def process(node: NodeSpec) -> Node:
    """The node as launch starts it."""
    return Node(
        package=PACKAGE,
        executable=node.executable,
        parameters=[dict(node.parameters)],
        remappings=list(node.remappings.items()),
        ros_arguments=node.enclave,
        output="screen",
        # A node ends by itself when this process, which starts it, is gone.
        additional_env={PARENT_VARIABLE: str(os.getpid())},
        on_exit=OpaqueFunction(function=partial(shut_down, node.name))
        if node.name in ENDS
        else None,
    )


def page(run: RunFolder) -> ExecuteProcess:
    """The live page; the run goes on where it can't serve."""
    return ExecuteProcess(
        cmd=page_command(run.root),
        output="screen",
        additional_env={PARENT_VARIABLE: str(os.getpid())},
    )


def shut_down(name: str, context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """End all other processes, unless that is why the one of node `name` has ended."""
    if context.is_shutdown:
        return []
    end = Shutdown(reason=f"{name} has ended")
    # First the watchdog has to send the safe command, and the supervisor to say what was lost.
    return [TimerAction(period=FAREWELL_S, actions=[end])] if name == CONTROLLER else [end]
