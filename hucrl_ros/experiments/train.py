"""A whole run in one process, without ROS: the same learner, bundles, bags, agent and guard.

A sweep starts a process for each training: `python -m hucrl_ros.experiments.train RUN`.
"""

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hucrl_ros.bags import messages
from hucrl_ros.config.schema import Config
from hucrl_ros.config.stand_in import require_real_time
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.control_loop import Array, ControlLoop, build_control_loop
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.setup import setup_of
from hucrl_ros.controller.state_reader import FRAME, JointReading, Pose, PoseBuffer
from hucrl_ros.controller.topics import (
    ACTIVE,
    COMMANDS,
    GOAL,
    JOINT_STATES,
    OBJECT_POSE,
    SETUP,
    TICKS,
)
from hucrl_ros.errors import HucrlError, SurpriseError
from hucrl_ros.learning.learner import Learner
from hucrl_ros.robots.mujoco_robot import Plant, Sample
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.recording import Recording
from hucrl_ros.run.summary import EpisodeSummary, Summary, read_summary
from hucrl_ros.run.summary_writer import Ledger
from hucrl_ros.tasks import Task, make_task

logger = logging.getLogger(__name__)


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
    plant = Plant(task.robot(body=config.body), config.seed)
    plant.reset(index)
    recording = Recording(run, {}, stepped=True)
    setup = messages.string(setup_of(loop, config.seed).model_dump_json())
    try:
        recording.write(SETUP, setup, time.time_ns())
        _control(plant, loop, poses, recording)
    except BaseException:
        recording.interrupt()
        raise
    return recording.finish()


def _control(plant: Plant, loop: ControlLoop, poses: PoseBuffer, recording: Recording) -> None:
    """From the first joint state to the command that ends the episode."""

    def send(command: Array) -> None:
        recording.write(COMMANDS, messages.floats(command.tolist()), time.time_ns())
        plant.command(command)

    recording.write(ACTIVE, messages.boolean(True), time.time_ns())
    while True:
        sample = plant.sample()
        _show(sample, plant.joints, poses, recording)
        reading = JointReading(
            plant.joints, sample.positions.tolist(), sample.velocities.tolist(), sample.stamp_ns
        )
        try:
            answer = loop.answer(reading, time.monotonic(), send)
        except SurpriseError as error:
            logger.warning("step %d: %s", loop.step, error)
            break
        assert answer is not None  # Time has passed, so no joint state is a repetition.
        if answer.record is None:
            break
        tick = messages.tick(answer.record, answer.decided)
        recording.write(TICKS, tick, time.time_ns())
        plant.period()
    last = loop.finish()
    if last is not None:
        send(last)
    recording.write(ACTIVE, messages.boolean(False), time.time_ns())


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
            recording.write(topic, messages.pose(sample.stamp_ns, where, FRAME), time.time_ns())
    entries = (sample.positions, sample.velocities, sample.efforts)
    message = messages.joint_state(sample.stamp_ns, joints, *(entry.tolist() for entry in entries))
    recording.write(JOINT_STATES, message, time.time_ns())


Report = Callable[[EpisodeSummary], None]


def train(config: Config, run: RunFolder, report: Report = lambda episode: None) -> Summary:
    """Play and learn what is left of `config.episodes` episodes.

    Stopped at any moment, it goes on after the last episode that was recorded to its end.

    Args:
        config: The run's settings; the mode is ignored, physics waits for every command.
        run: Where to write, new or begun.
        report: Called with each episode that was learned from.

    Raises:
        ConfigError: the run's simulator does what it can do in real time only.
        RunError: another process plays this run, or an episode is missing in it.
    """
    require_real_time(config.simulator, str(run.root))
    with run.locked():
        task = make_task(config.task, config.action_penalty, run.robot)
        ledger = Ledger(run, config, task, in_process=True)
        learner = Learner(config, run)
        for episode in ledger.episodes:
            if run.bundle(episode.index + 1).is_dir():
                report(episode)
        if config.exploration.random_episodes and not run.bundle(0).is_dir():
            learner.export_initial()
        while True:
            done = len(ledger.episodes)
            if not run.bundle(done).is_dir():
                learner.learn(lambda phase, share: None)
                ledger.close_learning()
                if done:
                    report(ledger.episodes[-1])
            if done >= config.episodes:
                break
            play_episode(task, config, run)
            ledger.close_episode()
        ledger.write()
    return read_summary(run.summary)


def main(folder: Path) -> int:
    """Train with the settings in the run's folder; returns the exit code."""
    try:
        run = RunFolder.open(folder)
        train(run.config, run)
    except HucrlError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
