"""Learns from the same data for ever, as a learner beside a controller does after each episode."""

import sys
import tempfile
from pathlib import Path

import torch

from hucrl_ros.benchmarks.learning import random_episodes
from hucrl_ros.learning.learner import Learner
from hucrl_ros.run.asked import RunOptions, asked_config
from hucrl_ros.run.folder import RunFolder

EPISODES = 5
"""Of random efforts, that it learns from."""


def command(task: str, scratch: Path) -> list[str]:
    """What starts it, with its files in a folder below `scratch`."""
    return [sys.executable, "-m", __name__, task, str(scratch)]


def main(task: str, scratch: Path) -> None:
    """Fit and search until the process is ended."""
    torch.set_num_threads(1)
    config = asked_config(RunOptions(task))
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        learner = Learner(config, RunFolder.create(Path(folder) / "run", config))
        data = random_episodes(learner.task, EPISODES, config.seed)
        while True:
            learner.learn_from(data, lambda phase, share: None)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
