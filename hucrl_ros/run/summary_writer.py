"""Keeps a run's `summary.json` up to date with the bags and bundles in its folder."""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from hucrl_ros.bags.interrupted import sound_part
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.manifest import LearningReport, read_manifest
from hucrl_ros.errors import LONGEST, RunError, shortened
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import (
    EpisodeSummary,
    Summary,
    read_summary,
    summarise_episode,
    with_learning,
    write_summary,
)

if TYPE_CHECKING:
    from hucrl_ros.run.judged_task import JudgedTask

MAX_BAG_EVENTS = 5
"""Events of one bag that the summary repeats."""
logger = logging.getLogger(__name__)


class Ledger:
    """What a run has done so far. Bags and bundles are the truth; the summary follows them."""

    def __init__(
        self, run: RunFolder, config: Config, task: JudgedTask, in_process: bool = False
    ) -> None:
        """Read what earlier sessions of the run left.

        Args:
            run: The run.
            config: Its settings.
            task: Gives the rewards.
            in_process: The run has no nodes, and this process does everything.

        Raises:
            HucrlError: the summary, a bag or a manifest can't be read.
        """
        self._run, self._config, self._task = run, config, task
        self._begin, self._begin_cpu = time.monotonic(), time.process_time()
        self._parent = None if in_process else _parent()
        earlier = read_summary(run.summary) if run.summary.is_file() else None
        self._earlier_wall_s = earlier.wall_s if earlier else 0.0
        self._earlier_cpu_s = earlier.cpu_s if earlier else 0.0
        self.events = list(earlier.events) if earlier else []
        """One line each, of earlier sessions as well."""
        self.episodes: list[EpisodeSummary] = []
        """All finished episodes in order."""
        for index in range(run.finished_episodes()):
            self.episodes.append(self._read(index))

    def close_episode(self) -> EpisodeSummary:
        """Add the episode that was recorded last, and write the summary.

        Raises:
            HucrlError: its bag can't be read.
        """
        index = len(self.episodes)
        self.episodes.append(self._read(index))
        self.write()
        return self.episodes[index]

    def close_learning(self) -> None:
        """Add how the learning after the last episode went, and write the summary."""
        if self.episodes:
            self.episodes[-1] = self._read(len(self.episodes) - 1)
        self.write()

    def note(self, event: str) -> None:
        """Add an event, one line, and write the summary."""
        event = shortened(event, LONGEST)
        logger.warning(event)
        self.events.append(event)
        self.write()

    def write(self) -> None:
        """Write the summary."""
        write_summary(
            self._run.summary,
            Summary.of(
                self._config,
                optimum=self._task.optimum,
                episodes=self.episodes,
                wall_s=self._earlier_wall_s + time.monotonic() - self._begin,
                cpu_s=self._earlier_cpu_s + self._cpu_s(),
                events=self.events,
                in_process=self._parent is None,
            ),
        )

    def learning_report(self, episode: int) -> LearningReport | None:
        """How the learning after an episode went; None where its bundle doesn't exist."""
        bundle = self._run.bundle(episode + 1)
        return read_manifest(bundle).report if bundle.is_dir() else None

    def model_errors(self) -> dict[int, float]:
        """Error of the model that was learned after each episode, by its number, if known."""
        reports = {each.index: self.learning_report(each.index) for each in self.episodes}
        found = {k: report.model_error for k, report in reports.items() if report is not None}
        return {index: error for index, error in found.items() if error is not None}

    def _cpu_s(self) -> float:
        if self._parent is None:
            return time.process_time() - self._begin_cpu
        return siblings_cpu_s(self._parent)

    def _read(self, index: int) -> EpisodeSummary:
        task, run = self._task, self._run
        episode = read_episode(run.bag(index), task.spec, task.steps, self._config)
        events = [f"episode {index}: {event}" for event in episode.events]
        if len(events) > MAX_BAG_EVENTS:
            more = len(events) - MAX_BAG_EVENTS
            events[MAX_BAG_EVENTS:] = [f"episode {index}: {more} more, see `hucrl inspect`"]
        for path in run.interrupted(index) if self._config.model.interrupted else ():
            part = sound_part(path, task.spec, task.steps, self._config)
            events.append(f"episode {index}: {path.name}: {part.line}")
        self.events += [event for event in events if event not in self.events]
        played = read_manifest(run.bundle(run.flown(index, episode.bundle)))
        return summarise_episode(index, episode, task, played, self.learning_report(index), run)


def catch_up(run: RunFolder) -> None:
    """Add what a process couldn't that was killed between the last bundle and the summary."""
    summary = read_summary(run.summary)
    if not summary.episodes:
        return
    learned = with_learning(summary, read_manifest(run.bundle(len(summary.episodes))).report)
    if learned.model_dump() == summary.model_dump():
        return
    with suppress(RunError), run.locked(run.on_robot.exists()):  # whoever plays it writes it
        write_summary(run.summary, learned)


def _parent() -> psutil.Process:
    try:
        return psutil.Process(os.getppid())
    except psutil.Error:  # Outside of this container.
        return psutil.Process()


def siblings_cpu_s(parent: psutil.Process) -> float:
    """Processor time of all processes that run and that `parent` has started [s]."""
    try:
        family = parent.children(recursive=True) or [psutil.Process()]
    except psutil.Error:  # It has ended.
        family = [psutil.Process()]
    total = 0.0
    for process in family:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue  # It has just ended.
        total += times.user + times.system
    return total
