"""A whole run in one process, without ROS: the same learner, bundles, bags, agent and guard.

A sweep starts a process for each training: `python -m hucrl_ros.experiments.train RUN`.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from hucrl_ros.config.schema import Config
from hucrl_ros.errors import HucrlError
from hucrl_ros.experiments.in_process import play_episode
from hucrl_ros.learning.learner import Learner
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import EpisodeSummary, Summary, read_summary
from hucrl_ros.run.summary_writer import Ledger
from hucrl_ros.tasks import make_task

Report = Callable[[EpisodeSummary], None]


def train(config: Config, run: RunFolder, report: Report = lambda episode: None) -> Summary:
    """Play and learn what is left of `config.episodes` episodes.

    Stopped at any moment, it goes on after the last episode that was recorded to its end.

    Args:
        config: The run's settings; the mode is ignored, physics waits for every command.
        run: Where to write, new or begun.
        report: Called with each episode that was learned from.

    Raises:
        RunError: another process plays this run, or an episode is missing in it.
    """
    with run.locked():
        task = make_task(config.task, config.action_penalty, run.robot)
        ledger = Ledger(run, config, task, in_process=True)
        learner = Learner(config, run)
        for episode in ledger.episodes:
            if run.bundle(episode.index + 1).is_dir():
                report(episode)
        if not run.bundle(0).is_dir():
            learner.export_initial()
        while True:
            done = len(ledger.episodes)
            if not run.bundle(done).is_dir():
                learner.learn(lambda phase, share: None)
                ledger.close_learning()
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
