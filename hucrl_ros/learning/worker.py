"""Learning in a thread: one request at a time, errors in one line, quick ends."""

import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from hucrl_ros.config.schema import Config
from hucrl_ros.controller.manifest import LearningReport, read_manifest
from hucrl_ros.errors import HucrlError
from hucrl_ros.run.folder import RunFolder

NICENESS = 5
"""Lower priority than the control loop's, where both share a machine."""
logger = logging.getLogger(__name__)


class LearnerLike(Protocol):
    """What the worker needs of `hucrl_ros.learning.learner.Learner`."""

    def export_initial(self) -> Path:
        """Write bundle 0."""

    def learn(self, progress: Callable[[str, float], None]) -> Path:
        """Learn from all finished episodes and write the next bundle."""


LearnerFactory = Callable[[Config, RunFolder], LearnerLike]


class Status(NamedTuple):
    """What the worker is doing, for `learner/report`."""

    message: str
    """`preparing`, `idle`, `fitting`, `searching`, `done`, or an error in one line."""
    failed: bool = False
    episode: int | None = None
    """Last episode learned from."""
    progress: float | None = None
    """Share of the learning that is done [1]."""
    bundle: Path | None = None
    report: LearningReport | None = None
    away: Mapping[str, object] = {}
    """Of a learner on another machine that isn't heard: `since`, `silent_s`, `advice`."""

    @property
    def values(self) -> dict[str, object]:
        """Key-value pairs of the message; what isn't known is left out."""
        report = self.report or LearningReport()
        values = {
            "episode": self.episode,
            "progress": self.progress,
            "bundle": self.bundle,
            "model_error": report.model_error,
            "coverage": report.coverage,
            "calibration_error": report.calibration_error,
            "uncalibrated_coverage": report.uncalibrated_coverage,
            "uncalibrated_error": report.uncalibrated_error,
            "promised_return": report.predicted_return,
            "fit_s": report.fit_s,
            "search_s": report.search_s,
            "refused": report.refused or None,
            "complexity": report.complexity,
            **self.away,
        }
        return {key: value for key, value in values.items() if value is not None}


NO_MEMORY = Status("out of memory", failed=True)
"""Made beforehand: where there is none, it can't be."""


class _CancelledError(Exception):
    """The process is ending in the middle of learning."""


class LearningWorker:
    """Learns in a thread of its own, one request at a time."""

    def __init__(
        self, config: Config, run: RunFolder, threads: int, make_learner: LearnerFactory
    ) -> None:
        """Start the thread; it writes bundle 0 if that is missing and plays random efforts.

        Args:
            config: The run's settings.
            run: The run to learn from.
            threads: Threads that torch may use.
            make_learner: Called in the thread.
        """
        self._config, self._run, self._threads = config, run, threads
        self._make_learner = make_learner
        self.status = Status("preparing")
        self.busy = True
        self._cancelled = threading.Event()
        self._requests: queue.SimpleQueue[Config | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="learning", daemon=True)
        self._thread.start()

    def request(self, config: Config | None = None) -> None:
        """Learn from all finished episodes; only while not `busy`.

        Args:
            config: Settings from now on; None: those of before.
        """
        assert not self.busy
        self.busy = True
        self.status = Status("fitting", episode=self._last_episode, progress=0.0)
        self._requests.put(config or self._config)

    def close(self, timeout_s: float) -> bool:
        """Stop learning, nothing is written any more; False where it goes on after `timeout_s`."""
        self._cancelled.set()
        self._requests.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def _last_episode(self) -> int:
        return self._run.finished_episodes() - 1

    def _work(self) -> None:
        if sys.platform == "linux":  # There, a thread has a niceness of its own.
            thread = threading.get_native_id()
            niceness = os.getpriority(os.PRIO_PROCESS, thread) + NICENESS
            os.setpriority(os.PRIO_PROCESS, thread, min(niceness, 19))
        learner = self._guarded(self._prepare)
        self.busy = False
        while not self._cancelled.is_set() and (config := self._requests.get()) is not None:
            if config != self._config:
                self._config, learner = config, None
            learner = learner or self._guarded(self._prepare)
            if learner is not None:
                learner = self._guarded(partial(self._learn, learner))
            self.busy = False

    def _guarded(self, job: Callable[[], LearnerLike]) -> LearnerLike | None:
        """Do a job; an error becomes the status, and what was written before stays."""
        try:
            return job()
        except HucrlError as error:
            self.status = Status(str(error), failed=True)
        except _CancelledError:
            logger.info("learning was stopped; it starts anew when the run is resumed")
        except MemoryError:
            self.status = NO_MEMORY
        except Exception as error:
            self.status = NO_MEMORY  # for which torch raises a RuntimeError
            with suppress(Exception):  # nor is there any to say more, then
                kind = type(error).__name__
                self.status = Status(f"{kind}: {' '.join(str(error).split())}", failed=True)
                logger.exception("learning failed")
        return None

    def _prepare(self) -> LearnerLike:
        import torch  # It takes seconds, in which the node already answers.

        torch.set_num_threads(self._threads)
        learner = self._make_learner(self._config, self._run)
        if self._config.exploration.random_episodes and not self._run.bundle(0).is_dir():
            learner.export_initial()
        self.status = Status("idle")
        return learner

    def _learn(self, learner: LearnerLike) -> LearnerLike:
        episode = self._last_episode

        def note(phase: str, progress: float) -> None:
            if self._cancelled.is_set():
                raise _CancelledError
            self.status = Status(phase, episode=episode, progress=progress)

        bundle = learner.learn(note)
        report = read_manifest(bundle).report
        self.status = Status("done", episode=episode, progress=1.0, bundle=bundle, report=report)
        return learner


def make_learner(config: Config, run: RunFolder) -> LearnerLike:
    """The learner of a run."""
    from hucrl_ros.learning.learner import Learner  # With torch: it takes seconds.

    return Learner(config, run)
