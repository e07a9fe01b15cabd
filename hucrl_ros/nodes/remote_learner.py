"""Stands in for the node `learner` where a process on another machine learns, over HTTP."""

import os
import sys
from datetime import datetime, timedelta
from functools import partial

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.node import Node
from std_srvs.srv import Trigger

from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.errors import ConfigError, shortened
from hucrl_ros.learning.worker import NICENESS, Status
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.diagnostics import DiagnosticsPublisher, Health
from hucrl_ros.nodes.learner import REPORT_PERIOD, health_of, strategy_wish
from hucrl_ros.nodes.parameters import own_parameter, own_run, read_config
from hucrl_ros.nodes.protocol import AWAY, REFUSED
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.setting_parameters import SettingParameters
from hucrl_ros.nodes.topics import LATCHED, STEADY
from hucrl_ros.nodes.wishes import STRATEGY
from hucrl_ros.robots import describe
from hucrl_ros.run.remote.contract import AWAY_S, LISTEN
from hucrl_ros.run.remote.exchange import Exchange
from hucrl_ros.run.remote.server import RunServer, learner_command, parse_address
from hucrl_ros.run.remote.token import made_token


class RemoteLearner(Node):
    """Answers `learner/learn` and fills `learner/report` as the node `learner` does.

    Parameters: the settings of a run; `run`, its folder; `listen` (HOST:PORT), where the process
    that learns is waited for.
    """

    def __init__(self) -> None:
        super().__init__("learner", automatically_declare_parameters_from_overrides=True)
        self.exit_code: int | None = None
        self._listen = own_parameter(self, "listen", LISTEN)
        run = own_run(self)
        config = read_config(self, own=("run", "listen"))
        SettingParameters(self, config, (), without=(STRATEGY,))
        self._wishes = strategy_wish(self, config.strategy, _refuse)
        if config != run.config:
            raise ConfigError("a learner on another machine takes the run's settings: pass none")
        os.nice(NICENESS)  # Hashes of large bags must not take time from control ticks.
        self._run = run
        self._asked: int | None = None
        self._done: Status | None = None
        described = describe(config.task, run.robot)
        self._exchange = Exchange(run, config, described)
        host, port = parse_address(self._listen)
        self._server = RunServer(host, port, self._exchange, made_token(run.token))
        self._reported: Status | None = None
        self._publisher = self.create_publisher(DiagnosticStatus, topics.LEARNER_REPORT, LATCHED)
        self.create_service(Trigger, topics.LEARN, self._on_learn)
        self._diagnostics = DiagnosticsPublisher(self, self._health, described.robot.spec.name)
        self.create_timer(REPORT_PERIOD, self._report, clock=STEADY)
        self._server.start()

    def close(self) -> None:
        """Stop listening; what was half-sent is sent anew in the next session."""
        self._server.server_close()
        self._exchange.close()

    def _on_learn(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        episodes = self._run.finished_episodes()
        if self._exchange.wanted is not None:
            response.message = f"busy: bundle {self._exchange.wanted} hasn't come"
        elif not episodes and not self._run.prior.is_dir():
            response.message = "no finished episode to learn from"
        else:
            self._exchange.request(episodes)
            self._asked, self._done = episodes, None
            response.success = True
            response.message = f"learning from {episodes} episodes"
            self._report()
        return response

    @property
    def _status(self) -> Status:
        asked, wanted, report = self._asked, self._exchange.wanted, self._exchange.report
        episode = None if asked is None else asked - 1
        if asked is not None and wanted is None:
            if self._done is None:
                bundle = self._run.bundle(asked)
                learned = read_manifest(bundle).report
                self._done = Status("done", False, episode, 1.0, bundle, learned)
            return self._done
        if report is not None and report.failed:  # also of what nobody waits for yet
            return Status(shortened(report.message, 500), True, episode, report.progress)
        if wanted is None:
            return Status("idle")
        silent_s = int(self._exchange.silent_s)
        if silent_s >= AWAY_S:
            since = datetime.now() - timedelta(seconds=silent_s)
            away = {
                "since": f"{since:%H:%M:%S}",
                "silent_s": silent_s,
                "advice": learner_command(self._listen),
            }
            return Status(AWAY, episode=episode, away=away)
        if self._exchange.refused:
            return Status(f"{REFUSED}{self._exchange.refused}"[:500], episode=episode)
        if report is None or report.episode != episode:
            return Status("preparing", episode=episode)  # or done with the episode before
        if report.message in ("idle", "done"):  # What is wanted is on its way.
            return Status("exporting", episode=episode, progress=1.0)
        return Status(shortened(report.message, 500), False, episode, report.progress)

    def _report(self) -> None:
        status = self._status
        if status != self._reported:
            self._reported = status
            self._publisher.publish(health_of(status).status(self.get_fully_qualified_name()))

    def _health(self) -> Health:
        return health_of(self._status)


def _refuse(strategy: str) -> None:
    raise ConfigError(
        f"{STRATEGY} = {strategy!r}: a learner on another machine takes the settings that the run "
        "began with; choose it for a new run: hucrl up --remote-learner --strategy NAME"
    )


main = partial(run_node, RemoteLearner)

if __name__ == "__main__":
    sys.exit(main())
