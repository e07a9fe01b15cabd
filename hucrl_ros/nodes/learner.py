"""Learns from the recorded episodes when it is asked to, and writes the next bundle."""

import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.node import Node
from std_srvs.srv import Trigger

from hucrl_ros.config.schema import Config
from hucrl_ros.controller.manifest import LearningReport, read_manifest
from hucrl_ros.errors import HucrlError
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.diagnostics import DiagnosticsPublisher, Health, Level
from hucrl_ros.nodes.parameters import own_parameter, own_run, read_config, robot_of_run
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.setting_parameters import SettingParameters
from hucrl_ros.nodes.topics import LATCHED, STEADY
from hucrl_ros.run.folder import RunFolder

NICENESS = 5
"""Lower priority than the control loop's, where both share a machine."""
logger = logging.getLogger("hucrl_ros.nodes.learner")
"""By name, as this module is `__main__` in the node's process."""


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
        }
        return {key: value for key, value in values.items() if value is not None}


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
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="learning", daemon=True)
        self._thread.start()

    def request(self) -> None:
        """Learn from all finished episodes; only while not `busy`."""
        assert not self.busy
        self.busy = True
        self.status = Status("fitting", episode=self._last_episode, progress=0.0)
        self._requests.put(True)

    def close(self, timeout_s: float) -> bool:
        """Stop learning, nothing is written any more; False where it goes on after `timeout_s`."""
        self._cancelled.set()
        self._requests.put(False)
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
        while not self._cancelled.is_set() and self._requests.get():
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
        except Exception as error:
            logger.exception("learning failed")
            kind = type(error).__name__
            self.status = Status(f"{kind}: {' '.join(str(error).split())}", failed=True)
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


REPORT_PERIOD = 0.1
"""[s] Between two looks at what the worker is doing."""
CLOSE_TIMEOUT = 2.0
"""[s] Time for the worker to stop in the middle of learning."""


def make_learner(config: Config, run: RunFolder) -> LearnerLike:
    """The learner of a run."""
    from hucrl_ros.learning.learner import Learner  # With torch: it takes seconds.

    return Learner(config, run)


class Learner(Node):
    """Answers `learner/learn`; says on `learner/report` what came of it."""

    def __init__(self, factory: LearnerFactory = make_learner) -> None:
        super().__init__("learner", automatically_declare_parameters_from_overrides=True)
        self.exit_code: int | None = None
        threads = own_parameter(self, "threads", 1)
        run = own_run(self)
        config = read_config(self, own=("run", "threads"))
        SettingParameters(self, config, tuple(Config.model_fields))
        self._run = run
        self._random = config.exploration.random_episodes > 0
        self._worker = LearningWorker(config, run, threads, factory)
        self._reported: Status | None = None
        self._publisher = self.create_publisher(DiagnosticStatus, topics.LEARNER_REPORT, LATCHED)
        self._service = self.create_service(Trigger, topics.LEARN, self._on_learn)
        robot = robot_of_run(self, config.task)
        self._diagnostics = DiagnosticsPublisher(self, self._health, robot.name if robot else "")
        self._timer = self.create_timer(REPORT_PERIOD, self._report, clock=STEADY)

    def close(self) -> None:
        """Stop learning; what was learned so far of this episode is done again on resume."""
        # Files appear under their names when they are complete, so that nothing half done is
        # left where the thread doesn't stop in time and ends with the process.
        if not self._worker.close(CLOSE_TIMEOUT):
            self.get_logger().warning("learning doesn't stop; the process ends without it")

    def _on_learn(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        episodes = self._run.finished_episodes()
        if self._worker.busy:
            response.message = f"busy: {self._worker.status.message}"
        elif not episodes and self._random:
            response.message = "no finished episode to learn from"
        else:
            self._worker.request()
            response.success = True
            response.message = f"learning from {episodes} episodes"
            self._report()
        return response

    def _report(self) -> None:
        status = self._worker.status
        if status is not self._reported:
            self._reported = status
            self._publisher.publish(_health_of(status).status(self.get_fully_qualified_name()))

    def _health(self) -> Health:
        return _health_of(self._worker.status)


def _health_of(status: Status) -> Health:
    refused = status.report is not None and status.report.refused > 0
    level = Level.ERROR if status.failed else Level.WARN if refused else Level.OK
    return Health(level, status.message, status.values)


def main() -> NoReturn:
    """Run the node."""
    code = run_node(Learner)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # Python would take seconds to take torch apart, for which whoever ends a run had to wait.
    os._exit(code)


if __name__ == "__main__":
    main()
