"""Episodes: played with a finished bundle in this process, or read from a run's bags."""

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hucrl_ros.bags.reader import read_episode
from hucrl_ros.config.files import override
from hucrl_ros.config.task_file import beside
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import IMAGINED, Bundle, ImaginedEpisode, load_bundle
from hucrl_ros.controller.examiner import examined
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.motors import keeping_promise
from hucrl_ros.controller.passage import Transition
from hucrl_ros.errors import BagError, BundleError, ConfigError
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import Task, make_task

logger = logging.getLogger(__name__)

CHANGEABLE = ("planner", "safety")
"""Groups of settings that a bundle can be played with other values of."""


class Played(NamedTuple):
    """One episode."""

    total: float
    """Return."""
    tick_ms: Array
    """`(T,)` from the state to the guarded command [ms]."""
    fallbacks: int
    """Ticks that had no finite plan [1]."""
    clamps: int
    """Ticks whose command the guard changed [1]."""
    filtered: int
    """Ticks whose action the safety filter changed [1]."""
    outside: int
    """States beyond a constraint [1]."""
    iterations: Array
    """`(T,)` planner iterations in a tick [1]."""
    distance: float
    """At the end, from the goal to what has to get there [m]; NaN where a task has neither."""
    states: Array
    """`(T + 1, p)`."""
    actions: Array
    """`(T, q)` [N m or N]."""
    rewards: Array
    """`(T,)`."""


def open_bundle(path: Path, described: Path | None = None) -> tuple[Bundle, Task]:
    """A bundle from anybody, checked and tried (`examined`), and the task it was made for.

    Args:
        path: The bundle's folder.
        described: YAML that describes the bundle's robot, where that is one of a user's own and
            the bundle has left the folder of its run.

    Raises:
        BundleError: it isn't what it says, or this program doesn't know its task or robot.
    """
    manifest = examined(path)
    try:
        name = manifest.task if described is None else str(described)
        task = make_task(name, manifest.action_penalty, beside(path))
    except ConfigError as error:
        raise BundleError(f"{path}: {error}; --robot FILE.yaml describes one") from None
    return load_bundle(path, task.spec, manifest=manifest), task


def with_settings(bundle: Bundle, changes: Mapping[str, Any]) -> Bundle:
    """The bundle, played with other settings.

    Args:
        bundle: A bundle.
        changes: Dotted keys of `CHANGEABLE` groups, and values.

    Raises:
        ConfigError: a key or a value is wrong, or can't be changed in a finished bundle.
    """
    for key in changes:
        if key.partition(".")[0] not in CHANGEABLE or "." not in key:
            groups = " and ".join(f"{group}.*" for group in CHANGEABLE)
            raise ConfigError(f"{key}: fixed in a finished bundle; only {groups} can be changed")
    manifest = keeping_promise(override(bundle.manifest, changes), bundle.manifest)
    return dataclasses.replace(bundle, manifest=manifest)


def evaluate(
    bundle: Bundle, task: Task, episodes: int, seed: int, budget_s: float | None = None
) -> list[Played]:
    """Play episodes.

    Args:
        bundle: What to play.
        task: Its task.
        episodes: How many.
        seed: Of the first episode; each further one adds one.
        budget_s: Time for planning in a tick [s]; None: no limit, so that seeds decide everything.
    """
    agent = Agent(bundle, budget_s)
    agent.warm_up()
    guard = Guard(task.spec, bundle.manifest.safety)
    return [_play(agent, guard, task, seed + k) for k in range(episodes)]


def roll_out(
    robot: MujocoRobot, steps: int, start: np.random.Generator, choose: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """One episode, in which physics waits for every command.

    Args:
        robot: The robot.
        steps: Control periods T.
        start: Draws where it begins.
        choose: The action `(q,)` in a state `(p,)`.

    Returns:
        States `(T + 1, p)` and actions `(T, q)`.
    """
    states, efforts = [robot.reset(start)], []
    for _ in range(steps):
        efforts.append(choose(states[-1]))
        states.append(robot.step(efforts[-1]))
    return np.stack(states), np.stack(efforts)


def _play(agent: Agent, guard: Guard, task: Task, seed: int) -> Played:
    agent.start_episode(seed)
    guard.reset()
    ticks: list[tuple[int, float, bool, bool]] = []
    before: tuple[Array, Array] | None = None
    watched = agent.bundle.manifest.constraints and agent.safety.filter

    def choose(state: Array) -> Array:
        nonlocal before
        began = time.perf_counter()
        tick = agent.act(state)
        command = guard.check(tick.action, state)
        if command.clamped or command.safe:
            agent.sent(command.action)
        took = 1e3 * (time.perf_counter() - began)
        ticks.append((tick.iterations, took, command.clamped, tick.filtered > 0))
        if watched:  # A robot that surprises makes the filter wary.
            passed = [] if before is None else [Transition(*before, state, 0.0)]
            agent.uncertainty(state, command.action, passed)
            before = state, command.action
        return command.action

    states, efforts = roll_out(task.robot(), task.steps, np.random.default_rng(seed), choose)
    iterations, tick_ms, clamped, filtered = np.array(ticks, float).T
    rewards = task.rewards(states[:-1], efforts)
    return Played(
        total=float(rewards.sum()),
        tick_ms=tick_ms,
        fallbacks=agent.fallbacks,
        clamps=int(clamped.sum()),
        filtered=int(filtered.sum()),
        outside=int((task.rooms(states[:-1], efforts) < 0.0).any(axis=-1).sum()),
        iterations=iterations,
        distance=float(task.distance(torch.as_tensor(states[-1]))),
        states=states,
        actions=efforts,
        rewards=rewards,
    )


@dataclass(frozen=True)
class PlayedEpisode:
    """What the pictures show of an episode."""

    index: int
    states: Array
    """`(T + 1, p)`."""
    actions: Array
    """`(T, q)` [N m or N]."""
    rewards: Array
    """`(T,)`."""
    random: bool
    """Played by random efforts."""
    imagined: ImaginedEpisode | None
    """The episode that its bundle imagined."""
    tick_ms: Array
    """`(N,)` durations of the control ticks [ms]; empty where there were none."""
    missed: NDArray[np.bool_]
    """`(N,)` whether a tick took longer than the control period."""
    cut: bool = False
    """It ended by a surprise, so its return isn't one of a whole episode."""

    @property
    def total(self) -> float:
        """The episode's return."""
        return float(self.rewards.sum())

    @property
    def name(self) -> str:
        """For titles."""
        return f"episode {self.index}" + (" (random)" if self.random else "")


def load_episodes(
    run: RunFolder, task: Task, indices: Sequence[int], random_episodes: int
) -> list[PlayedEpisode]:
    """The episodes with a readable bag that holds at least one transition."""
    episodes = []
    for index in indices:
        try:
            recorded = read_episode(run.bag(index), task.spec, task.steps, run.config)
        except BagError as error:
            logger.warning("left out of the pictures: %s", error)
            continue
        if not len(recorded.actions):
            logger.warning("left out of the pictures: %s: no transition", run.bag(index))
            continue
        flown = run.flown(index, recorded.bundle)
        tick_ms = recorded.ticks["tick_ms"]
        known = np.isfinite(tick_ms)
        episodes.append(
            PlayedEpisode(
                index=index,
                states=recorded.states,
                actions=recorded.actions,
                rewards=task.rewards(recorded.states[:-1], recorded.actions),
                random=flown < random_episodes,
                imagined=read_imagined(run.bundle(flown) / IMAGINED),
                tick_ms=np.asarray(tick_ms[known], dtype=np.float64),
                missed=np.asarray(recorded.ticks["missed"][known], dtype=np.bool_),
                cut=recorded.cut,
            )
        )
    return episodes


def read_imagined(path: Path) -> ImaginedEpisode | None:
    """What a bundle imagined; None where it has no such file, or a damaged one."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return ImaginedEpisode(
                *(arrays[field].astype(np.float64) for field in ImaginedEpisode._fields)
            )
    except (ValueError, OSError, EOFError, KeyError) as error:
        logger.warning("left out of the pictures: %s: %s", path, error)
        return None
