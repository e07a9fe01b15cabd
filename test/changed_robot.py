# ruff: noqa: T201
"""When a bundle's surprise notices that its robot has changed in the middle of an episode.

    python test/changed_robot.py RUN... [--at SECONDS] [--seeds N] [--limits]

Plays the bundles of runs of `hucrl train` from the second learned one on, in lockstep: on the
robot as it was, and on one that changes at a moment. Prints a row for each bundle and change.
With `--limits` the row tells whether the changed robot stays within the constraints of its task,
with the safety filter and without it, and what it earns in the whole episode.
"""

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

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


class Played(NamedTuple):
    """An episode of T ticks whose robot changed."""

    surprise: np.ndarray
    """`(T,)` in standard deviations."""
    room: np.ndarray
    """`(T, K)` to each constraint [margins]."""
    filtered: int
    """Ticks whose action was changed."""
    earned: float
    """Return."""


def play(run, index, seed, change, at, filtering=None):
    """Play an episode whose robot changes at tick `at`; the filter None: as in the run."""
    task = make_task(run.config.task, run.config.action_penalty, run.robot)
    bundle, poses = load_bundle(run.bundle(index), task.spec), PoseBuffer()
    safety = run.config.safety
    if filtering is not None:
        safety = safety.model_copy(update={"filter": filtering})
    guard = Guard(task.spec, safety)
    loop = build_control_loop(bundle, guard, run.config.control, poses)
    loop.start(seed)
    plant = Plant(task.robot(), seed)
    plant.reset(100 + seed)  # where no episode of the run has begun
    records, states, waiting = [], [], []

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
        records.append(answer.record)
        states.append(loop.state)
        plant.period()
    seen, sent = np.array(states), np.array([each.action for each in records])
    return Played(
        np.array([each.surprise for each in records]),
        task.room(torch.as_tensor(seen), torch.as_tensor(sent)).numpy(),
        sum(each.filtered > 0 for each in records),
        float(task.rewards(seen, sent).sum()),
    )


def period_of(run):
    """Control period of a run's robot [s]."""
    return make_task(run.config.task, run.config.action_penalty, run.robot).spec.period


def noticed(run, index, change, seeds, seconds):
    """Cells of the table: what was reached, and how soon, over all seeds."""
    period = period_of(run)
    at = round(seconds / period)
    values = np.array(
        [play(run, index, seed, change, at).surprise[at + 1 :] for seed in range(seeds)]
    )
    cells = [f"{values.max(axis=1).min():.1f} to {values.max():.1f}"]
    for level in LEVELS:
        over = values >= level
        soon = [int(k) + 1 for k in over.argmax(axis=1)[over.any(axis=1)]]
        when = f", {min(soon)} to {max(soon)} ticks, {max(soon) * period:.2f} s" if soon else ""
        cells.append(f"{len(soon)} of {seeds}{when}")
    return cells


def kept(run, index, change, seeds, seconds):
    """Cells of the table: ticks outside the constraints, with the filter and without."""
    at, cells = round(seconds / period_of(run)), []
    for filtering in (True, False):
        played = [play(run, index, seed, change, at, filtering) for seed in range(seeds)]
        room = np.array([each.room.min(axis=1) for each in played])
        outside, deepest = int((room < 0.0).sum()), -float(room.min())
        cells += [
            f"{outside} of {room.size}" + (f", {deepest:.2f} margins" if outside else ""),
            str(sum(each.filtered for each in played)) if filtering else "",
            f"{np.mean([each.earned for each in played]):.1f}",
        ]
    del cells[4]  # Without the filter nothing is changed.
    return cells


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--at", type=float, default=1.0, help="when it changes [s]")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limits", action="store_true", help="whether it stays within limits")
    asked = parser.parse_args()
    columns = ("largest value", *(f"at {x:g}" for x in LEVELS))
    if asked.limits:
        columns = ("outside", "changed", "return", "outside without the filter", "return")
    heading, cells = ("run", "bundle", "change", *columns), kept if asked.limits else noticed
    print(f"| {' | '.join(heading)} |\n|{'---|' * len(heading)}")
    for run in map(RunFolder.open, asked.runs):
        for index in range(2, run.finished_episodes() + 1):
            for change in CHANGES:
                told = cells(run, index, change, asked.seeds, asked.at)
                print(f"| {' | '.join([run.root.name, str(index), change, *told])} |", flush=True)


if __name__ == "__main__":
    main()
