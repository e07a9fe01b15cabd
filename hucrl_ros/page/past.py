"""What a run's folder tells of its finished episodes, read once each."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.bags.reader import Episode, read_episode
from hucrl_ros.config.task_file import Description
from hucrl_ros.controller.manifest import Manifest, read_manifest
from hucrl_ros.errors import HucrlError
from hucrl_ros.run.folder import RunFolder, numbered
from hucrl_ros.run.summary import Summary, read_summary

Array = NDArray[np.float64]
NAN = float("nan")
READ_AT_A_TIME = 4
"""Bags, of those of a long run: nothing is shown until they are read."""


class Learned(NamedTuple):
    """A row for each finished episode, `(E,)` each; NaN where something isn't known."""

    episode: Array
    earned: Array
    """Return; NaN: a surprise ended the episode."""
    predicted: Array
    """Return that the bundle imagined."""
    optimum: Array
    """Best possible return."""
    model_error: Array
    """Of the model that was learned from the episode [standard deviations of the targets]."""
    calibration_error: Array
    """Of that model: mean |claimed − observed| coverage [1]."""
    beta: Array
    """β with which the episode was played; NaN: at random."""
    hallucination: Array
    """Mean |η| of its ticks."""
    tick_p50: Array
    """[ms]"""
    tick_p99: Array
    """[ms]"""


class Past:
    """The finished episodes of a run."""

    def __init__(self, run: RunFolder, described: Description) -> None:
        self.run = run
        self._spec, self._steps = described.robot.spec, described.robot.steps
        self._config = run.config
        self.period = described.robot.period
        """Of control [s]."""
        self._manifests: dict[int, Manifest] = {}
        self._hallucination: dict[int, float] = {}
        self._may_read = self._changed_ns = 0
        self._total = self._config.episodes

    @property
    def total(self) -> int:
        """Episodes of the run, which may be resumed with more."""
        with suppress(OSError, HucrlError):
            changed_ns = self.run.config_path.stat().st_mtime_ns
            if changed_ns != self._changed_ns:
                self._changed_ns, self._total = changed_ns, self.run.config.episodes
        return self._total

    def summary(self) -> Summary | None:
        """`summary.json` as it is now; None: there is none that can be read."""
        try:
            return read_summary(self.run.summary)
        except HucrlError:
            return None

    def manifest(self, bundle: int) -> Manifest | None:
        """Of a bundle, by its number; None: it isn't there."""
        if bundle not in self._manifests:
            try:
                self._manifests[bundle] = read_manifest(self.run.bundle(bundle))
            except HucrlError:
                return None
        return self._manifests[bundle]

    @property
    def finished(self) -> int:
        """Number of finished episodes."""
        return self.run.finished_episodes()

    def bundles(self) -> list[str]:
        """Folder names of all bundles, in their order."""
        return sorted((path.name for path in self.run.bundles.glob("bundle_*")), key=numbered)

    def episode(self, index: int) -> Episode:
        """Read an episode's bag; raises `BagError`."""
        return read_episode(self.bag(index), self._spec, self._steps, self._config)

    def bag(self, index: int) -> Path:
        """Of an episode."""
        return self.run.bag(index)

    def learned(self, summary: Summary | None) -> Learned:
        """How learning went so far; what bags tell of a long run comes within several calls."""
        self._may_read = READ_AT_A_TIME
        rows = [] if summary is None else [self._row(summary, e.index) for e in summary.episodes]
        columns = np.array(rows, np.float64).reshape(len(rows), len(Learned._fields)).T
        return Learned(*columns)

    def _row(self, summary: Summary, index: int) -> tuple[float, ...]:
        episode = summary.episodes[index]
        played, following = self.manifest(episode.flown), self.manifest(index + 1)
        report = following.report if following else None
        ticks = episode.tick_ms
        return (
            index,
            NAN if episode.cut else episode.return_,
            _number(episode.predicted_return),
            _number(summary.optimum),
            _number(report.model_error if report else None),
            _number(report.calibration_error if report else None),
            played.beta if played and not played.random else NAN,
            self._mean_hallucination(index),
            ticks.p50 if ticks else NAN,
            ticks.p99 if ticks else NAN,
        )

    def _mean_hallucination(self, index: int) -> float:
        if index not in self._hallucination and self._may_read:
            self._may_read -= 1
            try:
                found = self.episode(index).ticks["hallucination"]
            except HucrlError:
                found = np.zeros(0)  # nor can it be read the next time
            self._hallucination[index] = float(np.mean(found)) if len(found) else NAN
        return self._hallucination.get(index, NAN)


def _number(value: float | None) -> float:
    return NAN if value is None else value
