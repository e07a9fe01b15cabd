"""Learns from the recorded episodes when it is asked to, and writes the next bundle."""

import logging
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.node import Node
from std_srvs.srv import Trigger

from hucrl_ros.config.defaults import accepted, docstrings
from hucrl_ros.config.files import override
from hucrl_ros.config.schema import Config
from hucrl_ros.learning.worker import LearnerFactory, LearningWorker, Status, make_learner
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.diagnostics import DiagnosticsPublisher, Health, Level
from hucrl_ros.nodes.parameters import (
    origin,
    own_parameter,
    own_run,
    read_config,
    robot_of_run,
)
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.setting_parameters import SettingParameters
from hucrl_ros.nodes.topics import LATCHED, STEADY
from hucrl_ros.nodes.wishes import STRATEGY, Wish, Wishes
from hucrl_ros.run.combination import check_combination

REPORT_PERIOD = 0.1
"""[s] Between two looks at what the worker is doing."""
CLOSE_TIMEOUT = 2.0
"""[s] Time for the worker to stop in the middle of learning."""


class Learner(Node):
    """Answers `learner/learn`; says on `learner/report` what came of it.

    While it runs, a person may set `strategy`, of the next bundle that it learns.
    """

    def __init__(self, factory: LearnerFactory = make_learner) -> None:
        super().__init__("learner", automatically_declare_parameters_from_overrides=True)
        self.exit_code: int | None = None
        threads = own_parameter(self, "threads", 1)
        run = own_run(self)
        config = read_config(self, own=("run", "threads"))
        SettingParameters(self, config, tuple(Config.model_fields), without=(STRATEGY,))
        self._run, self._config = run, config
        self._wishes = strategy_wish(self, config.strategy, self._judge)
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

    def _with(self, strategy: str) -> Config:
        """The settings with another strategy; raises a `ConfigError` where they don't fit it."""
        return override(self._config, {STRATEGY: strategy}, origin(self))

    def _judge(self, strategy: str) -> None:
        config = self._with(strategy)
        from hucrl_ros.tasks import make_task  # With torch: it takes seconds.

        check_combination(config, make_task(config.task, config.action_penalty, self._run.robot))

    def _on_learn(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        episodes = self._run.finished_episodes()
        if self._worker.busy:
            response.message = f"busy: {self._worker.status.message}"
        elif not episodes and self._random:
            response.message = "no finished episode to learn from"
        else:
            self._worker.request(self._with(self._wishes[STRATEGY]))
            response.success = True
            response.message = f"learning from {episodes} episodes"
            self._report()
        return response

    def _report(self) -> None:
        status = self._worker.status
        if status is not self._reported:
            self._reported = status
            self._publisher.publish(health_of(status).status(self.get_fully_qualified_name()))

    def _health(self) -> Health:
        return health_of(self._worker.status)


def strategy_wish(node: Node, strategy: str, judge: Callable[[str], None]) -> Wishes:
    """The parameter `strategy` of a learner, of the next bundle that it learns."""
    field = Config.model_fields[STRATEGY]
    rule = f"{accepted(field).text}; from the next learned bundle on"
    return Wishes(node, {STRATEGY: Wish(strategy, docstrings(Config)[STRATEGY], rule, judge)})


def health_of(status: Status) -> Health:
    """What the node says of itself while learning stands so."""
    refused = status.report is not None and status.report.refused > 0
    warning = refused or bool(status.away)
    level = Level.ERROR if status.failed else Level.WARN if warning else Level.OK
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
