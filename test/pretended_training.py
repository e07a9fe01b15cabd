"""Stands in for `hucrl_ros.experiments.train`: returns grow by 10 an episode, at once."""

import os
import signal
import sys
import time
from pathlib import Path

from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import EpisodeSummary, Summary, write_summary

FAILS, HANGS, DIES = 13, 99, 66
"""Seeds with which training fails, never ends, or is killed the first time."""
MARKER = "PRETENDED_TRAINING_MARKER"
"""Environment variable: a file that says that it was killed already."""


def main(folder):
    run = RunFolder.open(folder)
    config = run.config
    (folder / "started").touch()
    if config.seed == FAILS:
        raise SystemExit("the model exploded")
    if config.seed == DIES and not (marker := Path(os.environ[MARKER])).exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    while config.seed == HANGS:
        time.sleep(0.1)
    episodes = [
        EpisodeSummary(index=k, return_=10.0 * k + config.seed, steps=400)
        for k in range(config.episodes)
    ]
    summary = Summary.of(config, optimum=50.0, episodes=episodes, wall_s=2.0, cpu_s=1.5)
    write_summary(run.summary, summary)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
