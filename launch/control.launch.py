"""Play a bundle on a robot: `ros2 launch hucrl_ros control.launch.py bundle:=runs/.../bundle_006`.

Controller and watchdog, and a recorder if `record` names a folder; no simulator, no learner. The
robot publishes `joint_states` and takes `commands` (efforts); somebody publishes `goal` and
`object_pose` for the tasks that have them. All names can be changed, in the YAML that `robot`
names or by arguments, e.g. to those of ros2_control's joint_state_broadcaster and
forward_command_controller.

The controller comes up configured. Nothing moves before it is activated, which starts one episode:

    ros2 lifecycle set /controller activate

or at once, with `activate:=true`.
"""

import os
from pathlib import Path

import lifecycle_msgs.msg
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    OpaqueFunction,
    RegisterEventHandler,
    Shutdown,
)
from launch.event_handlers import OnProcessStart
from launch.events import matches_action
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState

from hucrl_ros.config.task_file import is_description, read_description, task_of_path
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.run.asked import flag
from hucrl_ros.run.node_list import (
    CONTROLLER,
    OWN_TOPICS,
    PACKAGE,
    NodeSpec,
    control_graph,
    remapped,
)
from hucrl_ros.run.recordings import heard_with, recordings_of
from hucrl_ros.run.session import PARENT_VARIABLE


def generate_launch_description() -> LaunchDescription:
    """Launch arguments, then the nodes that follow from them."""
    optional = {
        "robot": "YAML of the robot, or a task's name: bundles are compared with it",
        "params_file": "settings that replace the bundle's, in ROS parameter form",
        "record": "folder for recordings; then call `recorder/record` to begin and to end one",
        "activate": "true: start an episode at once",
    }
    return LaunchDescription(
        [
            DeclareLaunchArgument("bundle", description="what to play"),
            *(
                DeclareLaunchArgument(
                    name,
                    default_value="",
                    description=f"name of the topic; default: as robot's YAML says, or {topic}",
                )
                for name, topic in OWN_TOPICS.items()
            ),
            *(
                DeclareLaunchArgument(name, default_value="", description=meaning)
                for name, meaning in optional.items()
            ),
            OpaqueFunction(function=start_nodes),
        ]
    )


def start_nodes(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Start a process for each node, and configure the controller.

    Raises:
        HucrlError: an argument is wrong, or somebody records there; launch shows the line and
            ends.
    """

    def argument(name: str) -> str:
        return str(LaunchConfiguration(name).perform(context))

    def path(name: str) -> Path | None:
        return Path(argument(name)) if argument(name) else None

    activate = flag("activate", argument("activate"))
    bundle = Path(argument("bundle"))
    manifest, record = read_manifest(bundle), path("record")
    task, robot, parameter_file = manifest.task, argument("robot"), path("params_file")
    run = None
    if record is not None:
        heard = heard_with(manifest.driver, robot, parameter_file)
        run = recordings_of(bundle, task, record, heard)
        # A second recorder would spoil its bag.
        run.lock_until_exit(on_robot=run.on_robot.exists(), ordered=False)
    own_yaml = is_description(task_of_path(robot))
    topics = read_description(Path(robot)).robot.topics if own_yaml else {}
    typed = {own: argument(name) for name, own in OWN_TOPICS.items() if argument(name)}
    nodes = control_graph(
        bundle,
        task,
        robot=robot,
        parameter_file=parameter_file,
        remappings=remapped(topics) | typed,
        run=run,
    )
    processes = {node.name: process(node) for node in nodes}
    return [*lifecycle(processes[CONTROLLER], activate), *processes.values()]


def process(node: NodeSpec) -> Node:
    """The node as launch starts it."""
    kind = LifecycleNode if node.name == CONTROLLER else Node
    file = [] if node.parameter_file is None else [str(node.parameter_file)]
    return kind(
        package=PACKAGE,
        executable=node.executable,
        name=node.name,
        namespace="",
        parameters=[*file, dict(node.parameters)],
        remappings=list(node.remappings.items()),
        ros_arguments=node.enclave,
        output="screen",
        # A node ends by itself when this process, which starts it, is gone.
        additional_env={PARENT_VARIABLE: str(os.getpid())},
        on_exit=OpaqueFunction(function=shut_down) if node.required else None,
    )


def shut_down(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """End all other processes, unless that is why this one has ended."""
    return [] if context.is_shutdown else [Shutdown(reason="a required node has ended")]


def lifecycle(controller: LifecycleNode, activate: bool) -> list[LaunchDescriptionEntity]:
    """Configure the controller when it has started; activate it if that is wished."""

    def change(transition: int) -> EmitEvent:
        event = ChangeState(
            lifecycle_node_matcher=matches_action(controller), transition_id=transition
        )
        return EmitEvent(event=event)

    configure = change(lifecycle_msgs.msg.Transition.TRANSITION_CONFIGURE)
    handlers = [OnProcessStart(target_action=controller, on_start=[configure])]
    if activate:
        start = change(lifecycle_msgs.msg.Transition.TRANSITION_ACTIVATE)
        handlers.append(
            OnStateTransition(
                target_lifecycle_node=controller,
                start_state="configuring",
                goal_state="inactive",
                entities=[start],
                handle_once=True,  # Whoever configures it later has not asked for an episode.
            )
        )
    return [RegisterEventHandler(handler) for handler in handlers]
