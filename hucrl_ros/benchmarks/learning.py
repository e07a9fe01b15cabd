"""How long learning after an episode takes, with little and with much data."""

import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.presentation import Column, Table
from hucrl_ros.learning.dataset import RecordedEpisode
from hucrl_ros.learning.learner import Learner
from hucrl_ros.run.asked import AskedRun, RunOptions, asked_run
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import Task


class Row(NamedTuple):
    """Learning after so many episodes."""

    episodes: int
    transitions: int
    fit_s: float
    """Fit of the model [s]."""
    search_s: float
    """Search for policies [s]."""


TABLE = Table[Row](
    (
        Column("episodes", lambda row: f"{row.episodes}", ">8"),
        Column("transitions", lambda row: f"{row.transitions}", ">12"),
        Column("fit s", lambda row: f"{row.fit_s:.1f}", ">7"),
        Column("search s", lambda row: f"{row.search_s:.1f}", ">9"),
        Column("together", lambda row: f"{row.fit_s + row.search_s:.1f}", ">9"),
    )
)


def run(task: str, episodes: Sequence[int], threads: int, settings: Mapping[str, Any]) -> None:
    """Print a line for each number of episodes."""
    # Each learning starts at untrained weights on purpose, so it needn't warn of that.
    logging.getLogger("hucrl_ros.learning.learner").setLevel(logging.ERROR)
    asked = asked_run(RunOptions(task, overrides=settings))
    print(TABLE.header)
    for row in measure(asked, episodes, threads):
        print(TABLE.line(row), flush=True)


def measure(asked: AskedRun, episodes: Sequence[int], threads: int) -> Iterator[Row]:
    """Learn from untrained weights on, once for each number of episodes.

    Raises:
        ConfigError: nothing is learned from so few episodes.
    """
    config = asked.config
    least = config.exploration.random_episodes
    if min(episodes) < least:
        raise ConfigError(f"--episodes = {min(episodes)}: at least the {least} random ones")
    torch.set_num_threads(threads)
    for count in episodes:
        with tempfile.TemporaryDirectory() as folder:
            learner = Learner(config, RunFolder.create(Path(folder) / "run", *asked))
            data = random_episodes(learner.task, count, config.seed)
            report = read_manifest(learner.learn_from(data, lambda phase, share: None)).report
            assert report.fit_s is not None and report.search_s is not None
            yield Row(count, count * learner.task.steps, report.fit_s, report.search_s)


def random_episodes(task: Task, count: int, seed: int) -> list[RecordedEpisode]:
    """`count` whole episodes of random efforts, drawn from `seed`."""
    robot, limits, recorded = task.robot(), np.array(task.spec.effort_limits), []
    for index in range(count):
        draws = np.random.default_rng((seed, index))
        efforts = draws.uniform(-limits, limits, (task.steps, len(limits)))
        states = [robot.reset(draws), *(robot.step(effort) for effort in efforts)]
        recorded.append(
            RecordedEpisode(np.array(states), efforts, np.ones(task.steps, dtype=bool))
        )
    return recorded
