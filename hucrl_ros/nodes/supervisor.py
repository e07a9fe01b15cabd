"""Runs the episodes: reset, activate, T ticks, deactivate, learn, next; shows the progress."""

import contextlib
import os
import sys
import time
from functools import partial

from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from hucrl_ros.config.schema import Config
from hucrl_ros.controller.watch import SENDING
from hucrl_ros.errors import HucrlError, MessageError, RunError
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.controller_topics import listen_for_poses, to_reading, to_tick
from hucrl_ros.nodes.delivery import undelivered
from hucrl_ros.nodes.diagnostics import DiagnosticsPublisher, Health, Level, Refusals
from hucrl_ros.nodes.node_clients import PEERS, NodeClients
from hucrl_ros.nodes.parameters import own_parameter, own_run, read_config
from hucrl_ros.nodes.protocol import Protocol
from hucrl_ros.nodes.readiness import reset_of
from hucrl_ros.nodes.region_markers import region_markers
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.script import Wait
from hucrl_ros.nodes.setting_parameters import SettingParameters
from hucrl_ros.nodes.steering import RunWishes, Steering
from hucrl_ros.nodes.strangers import another_robot, strangers
from hucrl_ros.nodes.topics import ARCHIVE, LATCHED, MEASURED_ARCHIVE, STEADY
from hucrl_ros.nodes.wishes import HeardWishes
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.judged_task import BundledTask, JudgedTask
from hucrl_ros.run.live_view import make_view
from hucrl_ros.run.processes import GAVE_UP, PERSON_IS_READY, STOPPED
from hucrl_ros.run.progress import EpisodeMonitor, Phase, Progress
from hucrl_ros.run.summary_writer import Ledger

ADVANCE_PERIOD = 0.05
"""[s] Between two looks at what is waited for; messages are looked at as they come."""
VIEW_PERIOD = 0.25
"""[s]"""
DELIVERY_PERIOD = 1.0
"""[s] Between two looks at who doesn't hear whom, and who speaks besides."""
FAREWELL_S = 5.0
"""[s] For the other nodes to react, and the watchdog to speak, before the run is given up."""
USES = ("task", "strategy", "action_penalty", "seed", "episodes", "mode", "driver")
"""Settings."""
_STDIN = 0


class Supervisor(Node):
    """Sees a run through, or gives it up safely with one line that says why.

    Parameters: the settings of a run; `run`, its folder; `parent_reports` (bool): the parent
    process writes a line on standard input for each process that it lost, and
    `PERSON_IS_READY` when somebody presses Enter; `remote_learner` (bool): the learner is on
    another machine, and torch need not be on this one. While it runs, a person may set
    `next.bundle` and `pause`.
    """

    def __init__(self) -> None:
        super().__init__("supervisor", automatically_declare_parameters_from_overrides=True)
        self.exit_code: int | None = None
        self._parent_reports = own_parameter(self, "parent_reports", False)
        remote = own_parameter(self, "remote_learner", False)
        run = own_run(self)
        config = read_config(self, own=("run", "parent_reports", "remote_learner"))
        SettingParameters(self, config, USES)
        self._progress = Progress(config, episode=run.finished_episodes())
        self._view = make_view()
        self._view.update(self._progress)
        task = _judged_task(run, config, remote)
        self._lockstep = config.mode == "lockstep"
        self._simulated = not run.on_robot.exists()
        self._robot = task.spec.name
        self._markers = region_markers(task.described.constraints)
        self._monitor = EpisodeMonitor(task, None if self._lockstep else config.driver)
        self._ledger = Ledger(run, config, task)
        self._ledger.write()
        self._progress.notes = self._ledger.events
        self._progress.earlier_notes = len(self._ledger.events)
        self._progress.steps, self._progress.optimum = task.steps, task.optimum
        self._progress.finished = list(self._ledger.episodes)
        self._progress.model_errors = self._ledger.model_errors()
        self._steering = Steering()
        self._wishes = RunWishes(self, run, config)
        self._heard_wishes = HeardWishes(self, config.strategy, self._note_wish)
        how = reset_of(config)
        self._others = NodeClients(self, self._advance, how == "service", how == "home")
        self._protocol = Protocol(
            run,
            config,
            self._others,
            self._ledger,
            self._monitor,
            self._progress,
            self._steering,
        )
        self._script = self._protocol.script()
        self._wait: Wait | None = None
        self._since = 0.0
        self._activity: object = None
        self._advancing = False  # An answer may come while it is being asked for.
        self._reason = ""
        self._give_up_at = 0.0
        self._expect_trip = False
        self._heard = ""
        self._undelivered: list[str] = []
        self._refused = Refusals(self)
        self._connect()

    def _connect(self) -> None:
        if self._parent_reports:
            os.set_blocking(_STDIN, False)
        listen_for_poses(self, self._monitor.poses, self._lockstep)
        delivery = ARCHIVE if self._lockstep else MEASURED_ARCHIVE
        self.create_subscription(JointState, topics.JOINT_STATES, self._on_state, delivery)
        self.create_subscription(Float64MultiArray, topics.TICKS, self._on_tick, ARCHIVE)
        self._ticking = [
            self.create_timer(ADVANCE_PERIOD, self._look, clock=STEADY),
            self.create_timer(VIEW_PERIOD, self._show, clock=STEADY),
            self.create_timer(DELIVERY_PERIOD, self._judge_delivery, clock=STEADY),
        ]
        self.create_service(Trigger, topics.START, self._on_start)
        self._diagnostics = DiagnosticsPublisher(self, self._health, self._robot)
        self._regions = self.create_publisher(MarkerArray, topics.REGIONS, LATCHED)
        self._regions.publish(self._markers)

    def close(self) -> None:
        """Leave the summary and the terminal in order."""
        if self.exit_code is None:
            # `ros2 launch` stops it where the controller was lost, which the watchdog has told.
            trip = f"watchdog: {self._others.trip}; " if self._others.trip else ""
            why = f"{self._reason}; " if self._reason else f"{self._protocol.place}: "
            self._note_or_say(f"{why}{trip}{STOPPED}")
            self._progress.enter(Phase.STOPPED)
        self._show()
        self._view.close()

    # The script

    def _look(self) -> None:
        lost = self._lost_node() or self._endangered_robot()
        if lost:
            self._give_up(lost)
        self._advance()

    def _advance(self) -> None:
        """Go on with the script as far as what it waits for has come."""
        if self.exit_code is not None or self._advancing:
            return
        if self._reason:
            self._finish_giving_up()
            return
        self._wishes.show(self._steering)
        self._advancing = True
        try:
            while self._wait is None or self._wait.ready():
                self._wait = next(self._script)
                self._since, self._activity = time.monotonic(), self._wait.activity()
                self._show()
            self._judge_patience(self._wait)
        except StopIteration:
            self._show()
            self.exit_code = 0
        except HucrlError as error:
            self._give_up(str(error))
        finally:
            self._advancing = False

    def _judge_patience(self, wait: Wait) -> None:
        activity, now = wait.activity(), time.monotonic()
        if activity != self._activity:
            self._since, self._activity = now, activity
        if now - self._since > wait.timeout_s:
            raise RunError(wait.complaint())

    def _lost_node(self) -> str:
        """What the parent or, without one, a long silence says of a lost node; or nothing."""
        if self._parent_reports:
            with contextlib.suppress(BlockingIOError):
                self._heard += os.read(_STDIN, 4096).decode(errors="replace")
            line, newline, rest = self._heard.partition("\n")
            self._heard = rest if newline else line
            if newline and line == PERSON_IS_READY:
                self._protocol.confirm()
                return ""
            return line if newline else ""
        # Nobody watches the processes. Silence may also mean that a machine is overloaded.
        silent = self._others.silent()
        return f"{silent[0]} gives no sign of life" if silent else ""

    def _endangered_robot(self) -> str:
        """Whose joint states say that a robot would obey what is meant for the simulator."""
        # Before all nodes are there nothing is sent, and those of a killed run may still end.
        if not self._simulated or self._progress.phase is Phase.WAITING:
            return ""
        found = another_robot(self)
        if not found:
            return ""
        domain = os.environ.get("ROS_DOMAIN_ID") or 0
        return (
            f"another robot is in ROS domain {domain}, and might obey: {found}; end its driver, "
            "take another ROS_DOMAIN_ID, or --no-simulator to teach that one"
        )

    def _on_start(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.message = self._protocol.confirm()
        response.success = not response.message
        return response

    def _note_wish(self, line: str) -> None:
        self._note(f"{self._protocol.place}: {line}")

    def _note(self, line: str) -> None:
        """Put it into the summary; a run whose summary can't be written is given up."""
        try:
            self._ledger.note(line)
        except RunError as error:
            self._give_up(str(error))

    def _judge_delivery(self) -> None:
        """Say it on the terminal where somebody isn't heard, or nobody expects him to speak."""
        ours = (*PEERS, self.get_name())
        self._undelivered = [*undelivered(self, ours), *strangers(self)]
        told = self._ledger.events[self._progress.earlier_notes :]
        for line in self._undelivered:
            if line not in told:
                self._note(line)

    # The end of a run that can't go on

    def _give_up(self, reason: str) -> None:
        """Have the controller stop; then wait a moment for the watchdog to say what it did."""
        if self._reason or self.exit_code is not None:
            return
        self._reason = f"{self._protocol.place}: {reason}"
        self._give_up_at = time.monotonic() + FAREWELL_S
        playing = self._progress.phase is Phase.RUNNING
        self._expect_trip = playing and reason.startswith("controller ")
        self._progress.enter(Phase.STOPPED)
        self._others.deactivate()

    def _finish_giving_up(self) -> None:
        trip, late = self._others.trip, time.monotonic() > self._give_up_at
        done = trip is not None if self._expect_trip else not self._others.active
        if not (done or late):
            return
        if self._expect_trip:
            said = "the watchdog sent the safe command" if trip else "no word from the watchdog"
            if trip and not trip.endswith(SENDING):
                said = f"watchdog: {trip}"
            self._reason += f"; {said}"
        self.exit_code = GAVE_UP if self._note_or_say(self._reason) else 1

    def _note_or_say(self, line: str) -> bool:
        """The last word; where there is no room for it, whoever reads the log finds it there.

        Returns whether it is in the summary.
        """
        try:
            self._ledger.note(line)
        except RunError:
            sys.stderr.write(line + "\n")
            return False
        return True

    # Messages

    def _on_state(self, message: JointState) -> None:
        if self._progress.phase is Phase.RUNNING:
            self._monitor.see_joint_state(to_reading(message))

    def _on_tick(self, message: Float64MultiArray) -> None:
        if self._progress.phase is Phase.RUNNING:
            try:
                self._monitor.see_tick(to_tick(message))
            except MessageError as error:
                self._refused.note(topics.TICKS, error)

    def _show(self) -> None:
        if self._progress.phase is Phase.RUNNING:
            self._see_episode()
        try:
            self._view.update(self._progress)
        except BrokenPipeError:
            self._give_up("nobody reads the standard output")

    def _see_episode(self) -> None:
        progress, monitor = self._progress, self._monitor
        progress.step, progress.misses = monitor.steps, monitor.misses
        progress.return_so_far = monitor.return_so_far()
        progress.tick_p50, progress.tick_p99 = monitor.tick_quantiles() or (None, None)

    def _health(self) -> Health:
        values = {
            "phase": self._progress.phase.value,
            "episode": self._progress.episode,
            "finished_episodes": len(self._ledger.episodes),
            "refused_messages": self._refused.count,
        }
        if self._undelivered:
            return Health(Level.WARN, self._undelivered[0], values)
        return Health(values=values)


def _judged_task(run: RunFolder, config: Config, remote: bool) -> JudgedTask:
    """The run's task, for returns: with torch, or by bundles that come from elsewhere."""
    if remote:
        from hucrl_ros.robots import describe

        return BundledTask(run, config, describe(config.task, run.robot))
    # With torch: it takes seconds, in which a person should see something.
    from hucrl_ros.tasks import make_task

    return make_task(config.task, config.action_penalty, run.robot)


main = partial(run_node, Supervisor)

if __name__ == "__main__":
    sys.exit(main())
