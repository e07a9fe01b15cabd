"""The order of things in a run: `docs/contracts.md`, "One episode", written down once.

The steps are scripts. So the supervisor's single thread stays free for messages, signals and the
live view, and the order still reads from top to bottom.
"""

import time
from typing import Any

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.client import Client
from std_srvs.srv import SetBool, Trigger

from hucrl_ros.config.schema import Config
from hucrl_ros.controller.surprise import SURPRISE
from hucrl_ros.controller.timing import OUTAGE, STOPPED
from hucrl_ros.errors import RunError
from hucrl_ros.nodes.node_clients import LearnerReport, NodeClients
from hucrl_ros.nodes.readiness import Readiness, reset_of
from hucrl_ros.nodes.script import Script, Wait, held, pause
from hucrl_ros.nodes.steering import Steering
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.progress import EpisodeMonitor, Phase, Progress
from hucrl_ros.run.summary_writer import Ledger

MEET_S = 120.0
"""[s] For all nodes to appear."""
ANSWER_S = 30.0
"""[s] For a service to answer."""
STALL_S = 30.0
"""[s] Longest time between two ticks."""
PREPARE_S = 600.0
"""[s] For the learner to import torch and write bundle 0."""
ARRIVE_S = 15.0
"""[s] For what was sent before to arrive or to be written."""
BEGIN_S = 10.0
"""[s] For the controller to hear of the goal, without which it begins no episode."""
RETRY_S = 0.3
"""[s] Between two tries."""
REPLAYS = 2
"""Times that an episode is played again because of an outage."""
AWAY = "away"
"""What is reported in the place of a learner on another machine that isn't heard."""
REFUSED = "refused: "
"""What is reported, and why, where nothing is taken of one that is heard."""
MOST_REFUSALS = 3
"""That are told of a bundle, as each may be in other words."""
LEARNING = {
    "fitting": Phase.FITTING,
    "searching": Phase.SEARCHING,
    "exporting": Phase.EXPORTING,
    "judging": Phase.JUDGING,
    "preparing": Phase.FITTING,
    AWAY: Phase.AWAY,
}
"""What the learner reports while it is busy."""


class Protocol:
    """Plays the episodes that are left and has the learner learn from each."""

    def __init__(
        self,
        run: RunFolder,
        config: Config,
        clients: NodeClients,
        ledger: Ledger,
        monitor: EpisodeMonitor,
        progress: Progress,
        steering: Steering,
    ) -> None:
        self._run, self._config = run, config
        self._clients, self._ledger = clients, ledger
        self._monitor, self._progress = monitor, progress
        self._steering = steering
        self._away = False
        self._refusals = set[str]()
        self._readiness = Readiness(
            run, config, clients, ledger, progress, steering, lambda: self.place
        )

    def script(self) -> Script[None]:
        """Everything, from meeting the other nodes to the last bundle."""
        yield from self._meet()
        for index in range(len(self._ledger.episodes), self._config.episodes):
            yield from self._learn_for(index)
            yield from self._play(index)
        yield from self._learn_for(self._config.episodes)
        self._enter(Phase.FINISHED)

    def confirm(self) -> str:
        """A person has put the robot at the start; returns why that doesn't count, or nothing."""
        return self._readiness.confirm()

    @property
    def place(self) -> str:
        """Where the run stands, for messages."""
        progress = self._progress
        if progress.phase is Phase.RUNNING:
            return f"episode {progress.episode}, step {self._monitor.steps}"
        if progress.phase in LEARNING.values():
            done = len(self._ledger.episodes)
            return f"learning from episode {done - 1}" if done else "learning from another run"
        return f"before episode {progress.episode} ({progress.phase.value})"

    def _meet(self) -> Script[None]:
        self._enter(Phase.WAITING, episode=len(self._ledger.episodes))
        clients = self._clients

        def all_there() -> bool:
            missing = clients.missing()
            self._progress.detail = ", ".join(missing)
            return not missing

        def complaint() -> str:
            return f"no sign of the {' and the '.join(clients.missing())} for {MEET_S:g} s"

        yield Wait(all_there, MEET_S, complaint)
        yield Wait(
            self._learner_is_ready,
            PREPARE_S,
            lambda: f"learner not ready in {PREPARE_S:g} s",
            activity=lambda: clients.report,  # Where one is away, each second brings another.
        )
        if clients.active:
            yield from self._change_state(Transition.TRANSITION_DEACTIVATE)
        yield from self._change_state(Transition.TRANSITION_CONFIGURE)

    def _learner_is_ready(self) -> bool:
        report = self._clients.report
        self._progress.detail = "learner"
        if report is not None:
            self._refuse_failure(report)
            self._note_absence(report)
        return report is not None and report.message in ("idle", "done")

    def _learn_for(self, index: int) -> Script[None]:
        """Learn bundle `index` if it isn't there yet."""
        bundle = self._run.bundle(index)
        if bundle.is_dir():
            return
        if index == 0 and self._config.exploration.random_episodes:
            raise RunError(f"{bundle}: the learner has not written it")
        if self._steering.paused:
            self._enter(Phase.PAUSED)
            yield held(lambda: self._steering.paused)
        self._enter(Phase.FITTING)
        self._refusals.clear()
        answer = yield from self._call(self._clients.learn, Trigger.Request(), "learner/learn")
        if not answer.success:
            raise RunError(f"learner: {answer.message}")
        yield Wait(
            lambda: self._has_learned(index - 1) and bundle.is_dir(),
            float("inf"),
            lambda: "learner: no bundle",
        )
        self._ledger.close_learning()
        self._show_learned()

    def _has_learned(self, episode: int) -> bool:
        report = self._clients.report
        if report is None:
            return False
        self._refuse_failure(report)
        if report.values.get("episode") != str(episode):
            return False
        self._progress.phase = LEARNING.get(report.message, self._progress.phase)
        self._progress.detail = f"{report.progress:.0%}"
        self._note_absence(report)
        return report.message == "done"

    def _note_absence(self, report: LearnerReport) -> None:
        """Say once, when a learner on another machine isn't heard, how it is started.

        And why what it sends isn't taken, as the run waits for it just so.
        """
        if report.message.startswith(REFUSED) and len(self._refusals) < MOST_REFUSALS:
            if report.message not in self._refusals:
                self._ledger.note(f"{self.place}: what the learner sent was {report.message}")
            self._refusals.add(report.message)
        away = report.message == AWAY
        if away:
            since, advice = (report.values.get(key, "") for key in ("since", "advice"))
            self._progress.detail = f"learner, not heard since {since}"
            if not self._away:
                self._ledger.note(
                    f"{self.place}: the learner isn't heard since {since}, and the run waits for "
                    f"it; on its machine: {advice}"
                )
        self._away = away

    def _play(self, index: int) -> Script[None]:
        """One episode that counts; after an outage it is played again.

        One that ended by a surprise counts as far as it went: what surprised is to be learned.
        """
        replays = 0
        while failure := (yield from self._try(index)):
            if failure.startswith(SURPRISE):
                self._ledger.note(f"{self.place}: {failure}")
                break
            replays += STOPPED not in failure  # else somebody wished it, and lets it go on
            if not failure.startswith(OUTAGE) or replays > REPLAYS:
                raise RunError(self._stopped_early())
            self._ledger.note(f"{self.place}: {failure}; playing the episode again")
        if not failure:  # else it has deactivated itself
            yield from self._change_state(Transition.TRANSITION_DEACTIVATE)
        yield from self._record(False)
        yield Wait(
            lambda: self._run.finished_episodes() > index,
            ARRIVE_S,
            lambda: f"recorder: the bag of episode {index} was not closed",
        )
        self._progress.finished.append(self._ledger.close_episode())

    def _try(self, index: int) -> Script[str]:
        """All steps of an episode; returns why the controller ended it before, or nothing.

        The bag stays open: that of an episode to be played again is closed as interrupted when
        the next one is opened.
        """
        clients, monitor, steps = self._clients, self._monitor, self._progress.steps
        while True:
            yield from self._readiness.make_ready(index)
            stops = clients.stops
            self._enter(Phase.RESETTING)
            yield from self._record(True)
            if reset_of(self._config) == "service":
                yield from self._reset(stops)
            if clients.stops == stops and self._readiness.is_ready(index):
                break  # Else somebody held it back meanwhile, or wished for another bundle.
        monitor.start()
        count = clients.activity_count
        self._enter(Phase.RUNNING)
        yield from self._activate()
        clients.forgive("controller")
        yield Wait(
            lambda: (
                clients.stops > stops or (clients.activity_count > count and not clients.active)
            ),
            STALL_S,
            lambda: f"no tick for {STALL_S:g} s; {self._troubles()}",
            activity=lambda: monitor.steps,
        )
        if clients.stops > stops and monitor.steps < steps:
            # Who says it once may have reached only this node.
            yield from self._change_state(Transition.TRANSITION_DEACTIVATE)
            return f"{OUTAGE}: {STOPPED} 'stop'"
        yield Wait(
            lambda: monitor.steps >= steps or bool(clients.failure("controller")),
            ARRIVE_S,
            self._stopped_early,
            activity=lambda: monitor.steps,
        )
        failure = "" if monitor.steps >= steps else clients.failure("controller")
        if STOPPED in failure and clients.stops == stops:
            clients.hold()  # It has reached the controller alone.
        return failure

    def _reset(self, stops: int) -> Script[None]:
        """Have the robot put at the start; a real one takes as long as it takes.

        Who was stopped on the way may say that it isn't there: since `stops` stops it was.
        """
        client, name = self._clients.reset, "simulator/reset"
        future = self._clients.call(client, Trigger.Request())
        patience = float("inf") if self._run.on_robot.exists() else ANSWER_S
        yield Wait(
            lambda: future.done() or not client.service_is_ready(),
            patience,
            lambda: f"{name}: no answer in {ANSWER_S:g} s",
        )
        if not future.done():
            raise RunError(f"{name}: whoever offered it has gone")
        answer = future.result()
        if not answer.success and self._clients.stops == stops:
            raise RunError(f"simulator: {answer.message}")

    def _stopped_early(self) -> str:
        steps = f"{self._monitor.steps} of {self._progress.steps} steps"
        return f"controller: stopped after {steps}; {self._troubles()}"

    def _activate(self) -> Script[None]:
        deadline = time.monotonic() + BEGIN_S
        while not (yield from self._change_state(Transition.TRANSITION_ACTIVATE)):
            if self._clients.stopped:
                return
            if time.monotonic() >= deadline:
                trouble = self._clients.trouble("controller")
                if STOPPED in trouble:
                    self._clients.hold()  # It has reached the controller alone.
                    return
                raise RunError(f"controller: refused to start; {trouble}")
            yield from pause(RETRY_S)

    def _record(self, on: bool) -> Script[None]:
        request = SetBool.Request(data=on)
        answer = yield from self._call(self._clients.record, request, "recorder/record")
        if not answer.success:
            raise RunError(f"recorder: {answer.message}")

    def _change_state(self, transition: int) -> Script[bool]:
        request = ChangeState.Request(transition=Transition(id=transition))
        answer = yield from self._call(
            self._clients.change_state, request, "controller/change_state"
        )
        return bool(answer.success)

    def _call(self, client: Client, request: Any, name: str) -> Script[Any]:  # noqa: ANN401
        """Send a request and wait for the answer."""
        future = self._clients.call(client, request)
        yield Wait(future.done, ANSWER_S, lambda: f"{name}: no answer in {ANSWER_S:g} s")
        return future.result()

    def _enter(self, phase: Phase, episode: int | None = None) -> None:
        self._progress.enter(phase, episode)

    def _show_learned(self) -> None:
        if not self._ledger.episodes:
            return
        last = self._ledger.episodes[-1]
        self._progress.finished[-1:] = [last]
        report = self._ledger.learning_report(last.index)
        if report is not None and report.model_error is not None:
            self._progress.model_errors[last.index] = report.model_error

    def _refuse_failure(self, report: LearnerReport) -> None:
        if report.failed:
            raise RunError(f"learner: {report.message}")

    def _troubles(self) -> str:
        names = ("simulator", "controller", "watchdog", "recorder")
        found = [f"{name}: {self._clients.trouble(name)}" for name in names]
        return "; ".join(line for line in found if not line.endswith(": ")) or "nobody says why"
