# ruff: noqa: T201
"""When a bundle's surprise notices that its robot has changed in the middle of an episode.

    python test/changed_robot.py RUN... [--at SECONDS] [--seeds N]

Plays the bundles of runs of `hucrl train` from the second learned one on, in lockstep: on the
robot as it was, and on one that changes at a moment. Prints a row for each bundle and change.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from hucrl_ros.config.schema import BodySettings
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.control_loop import build_control_loop
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.state_reader import FRAME, JointReading, Pose, PoseBuffer
from hucrl_ros.robots.body import alter
from hucrl_ros.robots.mujoco_robot import Plant
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import make_task

CHANGES = {
    "nothing": {},
    "payload of 0.2 kg": {"payload": 0.2},
    "friction 0.1": {"friction": 0.1},
    "motors 30% weaker": {"motor_error": -0.3},
    "commands a period late": {},
}
LATE = "commands a period late"
LEVELS = (4.0, 6.0)


def play(run, index, seed, change, at):
    """Surprise `(T,)` of the ticks of an episode whose robot changes at tick `at`."""
    task = make_task(run.config.task, run.config.action_penalty, run.robot)
    bundle, poses = load_bundle(run.bundle(index), task.spec), PoseBuffer()
    guard = Guard(task.spec, run.config.safety)
    loop = build_control_loop(bundle, guard, run.config.control, poses)
    loop.start(seed)
    plant = Plant(task.robot(), seed)
    plant.reset(100 + seed)  # where no episode of the run has begun
    values, waiting = [], []

    def send(command):
        waiting.append(command)
        if change != LATE or step < at or len(waiting) > 1:
            plant.command(waiting.pop(0))

    for step in range(task.steps):
        if step == at:
            alter(plant.robot.model, task.spec, BodySettings(**CHANGES[change]))
        seen = plant.sample()
        for places, where in ((poses.goal, seen.goal), (poses.object, seen.object)):
            if where is not None:
                places.add(Pose(seen.stamp_ns, FRAME, where.tolist()))
        told = (seen.positions.tolist(), seen.velocities.tolist(), seen.stamp_ns)
        answer = loop.answer(JointReading(plant.joints, *told), time.monotonic(), send)
        values.append(answer.record.surprise)
        plant.period()
    return np.array(values)


def row(run, index, change, seeds, seconds):
    """A line of the table: what was reached, and how soon, over all seeds."""
    period = make_task(run.config.task, run.config.action_penalty, run.robot).spec.period
    at = round(seconds / period)
    values = np.array([play(run, index, seed, change, at)[at + 1 :] for seed in range(seeds)])
    cells = [f"{values.max(axis=1).min():.1f} to {values.max():.1f}"]
    for level in LEVELS:
        over = values >= level
        soon = [int(k) + 1 for k in over.argmax(axis=1)[over.any(axis=1)]]
        when = f", {min(soon)} to {max(soon)} ticks, {max(soon) * period:.2f} s" if soon else ""
        cells.append(f"{len(soon)} of {seeds}{when}")
    return f"| {run.root.name} | {index} | {change} | {' | '.join(cells)} |"


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--at", type=float, default=1.0, help="when it changes [s]")
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    heading = ("run", "bundle", "change", "largest value", *(f"at {x:g}" for x in LEVELS))
    print(f"| {' | '.join(heading)} |\n|{'---|' * len(heading)}")
    for run in map(RunFolder.open, asked.runs):
        for index in range(2, run.finished_episodes() + 1):
            for change in CHANGES:
                print(row(run, index, change, asked.seeds, asked.at), flush=True)


if __name__ == "__main__":
    main()
