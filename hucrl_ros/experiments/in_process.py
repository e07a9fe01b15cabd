"""An episode without ROS: robot, controller and recorder of the graph in one process."""

import time
from pathlib import Path

from hucrl_ros.bags import messages
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.control_loop import ControlLoop
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.joint_state import JointReading
from hucrl_ros.controller.state_reader import FRAME, Place, StateReader, Surroundings
from hucrl_ros.controller.topics import ACTIVE, COMMANDS, GOAL, JOINT_STATES, OBJECT_POSE, TICKS
from hucrl_ros.robots.mujoco_robot import Plant, Sample
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
    agent = Agent(bundle, None, engine=control.engine, threads=control.threads)
    surroundings = Surroundings()
    reader = StateReader(task.spec, surroundings)
    guard = Guard(task.spec, config.safety)
    loop = ControlLoop(task.spec, task.steps, agent, guard, reader=reader)
    agent.warm_up()
    loop.start(config.seed)
    plant = Plant(task.robot(), config.seed)
    plant.reset(index)
    recording = Recording(run, {})
    try:
        _control(plant, loop, surroundings, recording)
    except BaseException:
        recording.interrupt()
        raise
    return recording.finish()


def _control(
    plant: Plant, loop: ControlLoop, surroundings: Surroundings, recording: Recording
) -> None:
    """From the first joint state to the command that ends the episode."""
    recording.write(ACTIVE, messages.boolean(True), time.time_ns())
    while True:
        sample = plant.sample()
        _show(sample, plant.joints, surroundings, recording)
        reading = JointReading(
            plant.joints, sample.positions.tolist(), sample.velocities.tolist(), sample.stamp_ns
        )
        received = time.monotonic()
        answer = loop.answer(reading, received)
        assert answer is not None  # Time has passed, so no joint state is a repetition.
        record = None if answer.record is None else loop.sent(answer.record, received)
        recording.write(COMMANDS, messages.floats(answer.effort.tolist()), time.time_ns())
        if record is None:
            break
        recording.write(TICKS, messages.tick(record), time.time_ns())
        plant.command(answer.effort)
        plant.period()
    recording.write(ACTIVE, messages.boolean(False), time.time_ns())


def _show(
    sample: Sample, joints: tuple[str, ...], surroundings: Surroundings, recording: Recording
) -> None:
    """Record what can be seen of the robot; object and goal come before their joint state."""
    for topic, places, position in (
        (GOAL, surroundings.goal, sample.goal),
        (OBJECT_POSE, surroundings.object, sample.object),
    ):
        if position is not None:
            where = position.tolist()
            places.add(Place(sample.stamp_ns, FRAME, where))
            recording.write(topic, messages.pose(sample.stamp_ns, where, FRAME), time.time_ns())
    entries = (sample.positions, sample.velocities, sample.efforts)
    message = messages.joint_state(sample.stamp_ns, joints, *(entry.tolist() for entry in entries))
    recording.write(JOINT_STATES, message, time.time_ns())
