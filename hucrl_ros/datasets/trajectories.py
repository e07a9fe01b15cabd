"""What is exported of a run: the transitions of its finished episodes, with rewards and units."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from hucrl_ros.bags.reader import Episode, read_episode
from hucrl_ros.config.robot import VELOCITY, Command
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.errors import RunError
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import Task, make_task

Array = NDArray[np.float64]
POSITION: dict[bool, str] = {True: "rad", False: "m"}
ACTION: dict[Command, dict[bool, str]] = {
    "effort": {True: "N m", False: "N"},
    "velocity": {True: "rad/s", False: "m/s"},
    "position": POSITION,
}
"""Units of actions, by whether the joint turns."""


class Columns(NamedTuple):
    """What the entries of an array are."""

    names: tuple[str, ...]
    units: tuple[str, ...]


class Trajectory(NamedTuple):
    """T transitions in a row, each of one control period."""

    episode: int
    """Number of the run's episode."""
    first: int
    """Number of its first transition in the episode; more than 0: after a gap."""
    states: Array
    """`(T + 1, p)`."""
    actions: Array
    """`(T, q)`."""
    rewards: Array
    """`(T,)` of the states before the actions, as in the run's summary."""
    time: Array
    """`(T + 1,)` of the states, from the episode's first one on [s]."""
    ticks: NDArray[np.void]
    """`(N,)` structured, those that answered one of the states but the last."""
    tick_time: Array
    """`(N,)` of the joint states that they answered, like `time` [s]."""

    @property
    def length(self) -> int:
        """T."""
        return len(self.actions)


@dataclass(frozen=True)
class Trajectories:
    """A run's data."""

    task: Task
    config: Config
    """Settings of the run."""
    observations: Columns
    actions: Columns
    parts: tuple[Trajectory, ...]
    """By episode, and within it by step."""
    left_out: tuple[str, ...]
    """What was, one line each."""

    @property
    def length(self) -> int:
        """Number of all transitions."""
        return sum(part.length for part in self.parts)

    @property
    def about(self) -> str:
        """The task, in a sentence."""
        return self.task.described.task.about or self.task.name

    @property
    def facts(self) -> dict[str, str | int | float]:
        """What else a reader of the data has to know, for the attributes of a file."""
        config = self.config
        return {
            "task": self.task.name,
            "robot": self.task.spec.name,
            "control_period_s": self.task.spec.period,
            "action_penalty": config.action_penalty,
            "strategy": config.strategy,
            "seed": config.seed,
            "mode": config.mode,
            "random_episodes": config.exploration.random_episodes,
        }


def read_trajectories(run: RunFolder) -> Trajectories:
    """Read all finished episodes of a run; what others or interrupted attempts hold is left out.

    A transition that didn't take one control period is left out, and the episode falls in two.

    Raises:
        BagError: a bag can't be read.
        RunError: there is nothing to export.
        ConfigError: settings or description can't be read.
    """
    config = run.config
    task = make_task(config.task, config.action_penalty, run.robot)
    parts: list[Trajectory] = []
    left_out: list[str] = []
    if run.prior.is_dir():
        left_out.append(f"{run.prior.name}: episodes of the run that this one began with")
    finished = run.finished_episodes()
    for index in range(finished):
        left_out += _attempts(run, index)
        episode = read_episode(run.bag(index), task.spec, task.steps, config)
        parts += _parts(index, episode, task)
        if gaps := int(np.count_nonzero(~episode.contiguous)):
            left_out.append(f"episode {index}: {gaps} transitions over a gap")
    left_out += _attempts(run, finished)
    if run.bag(finished).exists():
        left_out.append(f"{run.bag(finished).name}: not finished")
    if not parts:
        raise RunError(f"{run.root}: no finished episode with a transition, so nothing to export")
    return Trajectories(
        task, config, observations_of(task), actions_of(task), tuple(parts), tuple(left_out)
    )


def _attempts(run: RunFolder, index: int) -> list[str]:
    return [f"{path.name}: interrupted" for path in run.interrupted(index)]


def observations_of(task: Task) -> Columns:
    """Names and units of the state's entries `(p,)`."""
    spec, turns = task.spec, _turns(task)
    units = [POSITION[turns[joint]] for joint in spec.joint_names]
    units += [f"{unit}/s" for unit in units]
    for name in (*spec.observed, *spec.context):
        moving = name.removesuffix(VELOCITY)
        unit = POSITION[turns.get(moving, False)]
        units.append(unit if moving == name else f"{unit}/s")
    return Columns(task.described.robot.entries, tuple(units))


def actions_of(task: Task) -> Columns:
    """Names and units of the action's entries `(q,)`."""
    names, turns = task.spec.actuated_joints, _turns(task)
    return Columns(names, tuple(ACTION[task.spec.command][turns[name]] for name in names))


def _turns(task: Task) -> dict[str, bool]:
    """Whether a joint of the model turns, by its name; the others slide."""
    model = task.robot().model
    hinge = mujoco.mjtJoint.mjJNT_HINGE
    return {model.joint(k).name: bool(model.jnt_type[k] == hinge) for k in range(model.njnt)}


def _parts(index: int, episode: Episode, task: Task) -> Iterator[Trajectory]:
    """An episode without the transitions over gaps."""
    rewards = task.rewards(episode.states[:-1], episode.actions)
    time = (episode.stamps_ns - episode.stamps_ns[0]) / NANOSECONDS
    edges = np.flatnonzero(np.diff(np.r_[False, episode.contiguous, False]))
    answered = episode.ticks["stamp_ns"]
    for first, end in edges.reshape(-1, 2).tolist():
        begin_ns, end_ns = episode.stamps_ns[[first, end]]
        within = (answered >= begin_ns) & (answered < end_ns)
        yield Trajectory(
            index,
            first,
            episode.states[first : end + 1],
            episode.actions[first:end],
            rewards[first:end],
            time[first : end + 1],
            episode.ticks[within],
            (answered[within] - episode.stamps_ns[0]) / NANOSECONDS,
        )
