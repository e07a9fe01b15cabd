"""An episode without ROS: robot, controller and recorder of the graph in one process."""

import time
from pathlib import Path

from hucrl_ros.bags import encode
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.control_loop import Array, ControlLoop, build_control_loop
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.state_reader import FRAME, JointReading, Pose, PoseBuffer
from hucrl_ros.controller.topics import ACTIVE, COMMANDS, GOAL, JOINT_STATES, OBJECT_POSE, TICKS
from hucrl_ros.robots.plant import Plant, Sample
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.recording import Recording
from hucrl_ros.tasks import Task


def play_episode(task: Task, config: Config, run: RunFolder) -> Path:
    """Play and record the run's next episode; physics waits for each command.

    The bag holds what the recorder would have heard of the nodes in lockstep.

    Args:
        task: Gives robot and length.
        config: Gives seed, limits, engine and threads.
        run: Holds the bundle, gets the bag.

    Returns:
        The bag's folder.

    Raises:
        BundleError: the episode's bundle can't be loaded.
        BagError: the bag can't be written.
    """
    index, control = run.finished_episodes(), config.control
    bundle = load_bundle(run.bundle(index), task.spec, threads=control.threads)
    poses = PoseBuffer()
    loop = build_control_loop(bundle, Guard(task.spec, config.safety), control, poses)
    loop.start(config.seed)
    plant = Plant(task.robot(), config.seed)
    plant.reset(index)
    recording = Recording(run, {})
    try:
        _control(plant, loop, poses, recording)
    except BaseException:
        recording.interrupt()
        raise
    return recording.finish()


def _control(plant: Plant, loop: ControlLoop, poses: PoseBuffer, recording: Recording) -> None:
    """From the first joint state to the command that ends the episode."""

    def send(effort: Array) -> None:
        recording.write(COMMANDS, encode.floats(effort.tolist()), time.time_ns())
        plant.command(effort)

    recording.write(ACTIVE, encode.boolean(True), time.time_ns())
    while True:
        sample = plant.sample()
        _show(sample, plant.joints, poses, recording)
        reading = JointReading(
            plant.joints, sample.positions.tolist(), sample.velocities.tolist(), sample.stamp_ns
        )
        answer = loop.answer(reading, time.monotonic(), send)
        assert answer is not None  # Time has passed, so no joint state is a repetition.
        if answer.record is None:
            break
        recording.write(TICKS, encode.tick(answer.record), time.time_ns())
        plant.period()
    send(loop.guard.safe_effort(None))
    recording.write(ACTIVE, encode.boolean(False), time.time_ns())


def _show(
    sample: Sample, joints: tuple[str, ...], poses: PoseBuffer, recording: Recording
) -> None:
    """Record what can be seen of the robot; object and goal come before their joint state."""
    for topic, places, position in (
        (GOAL, poses.goal, sample.goal),
        (OBJECT_POSE, poses.object, sample.object),
    ):
        if position is not None:
            where = position.tolist()
            places.add(Pose(sample.stamp_ns, FRAME, where))
            recording.write(topic, encode.pose(sample.stamp_ns, where, FRAME), time.time_ns())
    entries = (sample.positions, sample.velocities, sample.efforts)
    message = encode.joint_state(sample.stamp_ns, joints, *(entry.tolist() for entry in entries))
    recording.write(JOINT_STATES, message, time.time_ns())
