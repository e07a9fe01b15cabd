"""How long learning after an episode takes, with little and with much data."""

import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hucrl_ros.errors import ConfigError
from hucrl_ros.starting import RunOptions, asked_config

if TYPE_CHECKING:
    from hucrl_ros.config import Config
    from hucrl_ros.recorded import Recorded
    from hucrl_ros.tasks import Task


class Row(NamedTuple):
    """Learning after so many episodes."""

    episodes: int
    transitions: int
    fit_s: float
    """Fit of the model [s]."""
    search_s: float
    """Search for policies [s]."""


def run(task: str, episodes: Sequence[int], threads: int, settings: Mapping[str, Any]) -> None:
    """Print a line for each number of episodes."""
    # Each learning starts at untrained weights on purpose, so it needn't warn of that.
    logging.getLogger("hucrl_ros.learner").setLevel(logging.ERROR)
    config = asked_config(RunOptions(task, overrides=settings))
    print(f"{'episodes':>8}{'transitions':>13}{'fit s':>8}{'search s':>10}{'together':>10}")
    for row in measure(config, episodes, threads):
        together = row.fit_s + row.search_s
        print(
            f"{row.episodes:>8}{row.transitions:>13}{row.fit_s:>8.1f}{row.search_s:>10.1f}"
            f"{together:>10.1f}",
            flush=True,
        )


def measure(config: "Config", episodes: Sequence[int], threads: int) -> Iterator[Row]:
    """Learn from untrained weights on, once for each number of episodes.

    Raises:
        ConfigError: nothing is learned from so few episodes.
    """
    import torch

    from hucrl_ros.learner import Learner
    from hucrl_ros.runs import RunFolder
    from hucrl_ros.runtime.manifest import read_manifest

    least = config.exploration.random_episodes
    if min(episodes) < least:
        raise ConfigError(f"--episodes = {min(episodes)}: at least the {least} random ones")
    torch.set_num_threads(threads)
    for count in episodes:
        with tempfile.TemporaryDirectory() as folder:
            learner = Learner(config, RunFolder.create(Path(folder) / "run", config))
            data = _random_episodes(learner.task, count, config.seed)
            report = read_manifest(learner.learn_from(data, lambda phase, share: None)).report
            assert report.fit_s is not None and report.search_s is not None
            yield Row(count, count * learner.task.steps, report.fit_s, report.search_s)


def _random_episodes(task: "Task", count: int, seed: int) -> "list[Recorded]":
    import numpy as np

    from hucrl_ros.recorded import Recorded

    robot, limits, recorded = task.robot(), np.array(task.spec.effort_limits), []
    for index in range(count):
        draws = np.random.default_rng((seed, index))
        efforts = draws.uniform(-limits, limits, (task.steps, len(limits)))
        states = [robot.reset(draws), *(robot.step(effort) for effort in efforts)]
        recorded.append(Recorded(np.array(states), efforts, np.ones(task.steps, dtype=bool)))
    return recorded
