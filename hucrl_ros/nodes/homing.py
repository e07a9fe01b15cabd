"""Node `homing`: moves the robot to the start of an episode, slowly, when it is asked to."""

import sys
import time
from functools import partial

import numpy as np
from rcl_interfaces.msg import ParameterEvent
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import Trigger

from hucrl_ros.controller.admission import Admission
from hucrl_ros.controller.guard import Array, Guard
from hucrl_ros.controller.homing import HomeMotion
from hucrl_ros.controller.pace import Pace
from hucrl_ros.controller.state_reader import JointReading, JointStateReader, velocity_estimator
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.controller.timing import STOPPED, outage_limit
from hucrl_ros.errors import MessageError, StateError, shortened
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.controller_topics import to_reading
from hucrl_ros.nodes.delivery import UNKNOWN
from hucrl_ros.nodes.diagnostics import DiagnosticsPublisher, Health, Level, Refusals
from hucrl_ros.nodes.parameters import own_run, read_config
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.setting_parameters import SettingParameters, to_limits
from hucrl_ros.nodes.stopper import NAME as STOPPER
from hucrl_ros.nodes.stopper import Stopper
from hucrl_ros.nodes.topics import ARRIVAL_WAIT, LATCHED, MEASURED, STEADY, STREAM
from hucrl_ros.robots import describe
from hucrl_ros.run.home import away_from_window, home_plan, home_windows

LONGEST_TICK = 0.02
"""[s] Between two looks at the clock."""
GRAPH_PERIOD = 0.1
"""[s] Between two looks at who publishes commands."""
MEET_S = 15.0
"""[s] For robot, stopper and this node to find each other."""
USES = ("task", "mode", "driver", "home", "safety", "control.extra_delay")
"""Settings."""
SPEAKERS = ("controller", "watchdog", STOPPER)
"""Who else may be a publisher of commands: silent while this node moves the robot."""


class Homing(Node):
    """Answers `homing/home` once the robot is at the start, or with why it isn't.

    It sends commands during such a motion only, each through the guard. A second process sends
    zero effort or velocity where this one ends or hangs; of positions the last one is held, from
    which the robot is never far. It never begins while an episode is under way, and is silent
    from the moment at which one begins. MuJoCo is used before the node is ready, not later.

    Parameters: the settings of a run, and `run`, its folder.
    """

    def __init__(self) -> None:
        super().__init__("homing", automatically_declare_parameters_from_overrides=True)
        self.exit_code: int | None = None
        self._config = read_config(self, own=("run",))
        SettingParameters(self, self._config, USES)
        described = describe(self._config.task, own_run(self).robot)
        self._spec = spec = described.robot.spec
        self._plan = home_plan(described, self._config)
        self._windows = home_windows(described)
        self._reader = JointStateReader(
            spec.joint_names, estimator=velocity_estimator(self._config.driver, spec.period)
        )
        self._pace = Pace()
        self._state: Array = np.zeros(spec.state_dim)
        self._motion: HomeMotion | None = None
        self._guard = Guard(spec, self._config.safety)
        # Only to obey limits as the watchdog does: no bundle is ever offered to it.
        self._limits = Admission(self._config.task, {}, spec, "limits of the controller")
        self._limits.guard = self._guard
        self._stopper: Stopper | None = None
        self._answer: Future | None = None
        self._active = self._stopped = self._moving = self._halted = False
        self._begin = self._heard = self._looked = 0.0
        self._commands = self.create_publisher(Float64MultiArray, topics.COMMANDS, STREAM)
        self._states = self.create_subscription(
            JointState, topics.JOINT_STATES, self._on_joint_state, MEASURED
        )
        self.create_subscription(Bool, topics.ACTIVE, self._on_active, LATCHED)
        self.create_subscription(Bool, topics.STOP, self._on_stop, STREAM)
        self.create_subscription(ParameterEvent, topics.LIMITS, self._on_limits, LATCHED)
        self.create_service(Trigger, topics.HOME, self._on_home)
        self.create_timer(min(spec.period, LONGEST_TICK), self._look, clock=STEADY)
        self.create_timer(GRAPH_PERIOD, self._look_around, clock=STEADY)
        self._trouble = Health()
        self._refused = Refusals(self)
        self._diagnostics = DiagnosticsPublisher(self, self._health, spec.name)

    def close(self) -> None:
        """Leave the robot at rest."""
        if self._answer is not None:
            self._end("this process was ended")

    # What the others say

    async def _on_home(
        self, request: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        response.message = self._begun()
        if not response.message:
            assert self._answer is not None
            response.message = await self._answer
        response.success = not response.message
        return response

    def _begun(self) -> str:
        """Begin the motion; returns why not, or nothing."""
        if self._answer is not None:
            return "is moving the robot already"
        if self._active:
            return "an episode is under way"
        if self._stopped:
            return self._stop_line
        if self._spec.command != "position":  # zero would be a place to go to
            try:
                self._stopper = Stopper(self._spec.action_dim)
            except OSError as error:
                return f"the process that stops the robot can't be started: {error.strerror}"
        assert self._limits.guard is not None
        self._guard = Guard(self._spec, self._limits.guard.safety)
        self._motion = HomeMotion(self._spec, self._plan, self._config)
        self._reader.reset()
        self._pace = Pace()
        self._moving = self._halted = False
        self._begin = self._heard = self._looked = time.monotonic()
        self._answer = Future(executor=self.executor)
        return ""

    def _on_active(self, message: Bool) -> None:
        self._active = bool(message.data)
        if self._active and self._answer is not None:
            self._end("an episode began", silent=True)

    def _on_stop(self, message: Bool) -> None:
        self._stopped = bool(message.data)
        if self._stopped and self._answer is not None:
            self._end(self._stop_line)

    @property
    def _stop_line(self) -> str:
        return f"{STOPPED} {self.resolve_topic_name(topics.STOP)!r}"

    def _on_limits(self, message: ParameterEvent) -> None:
        """Limits were tightened in the controller: where stricter, they hold here from now on."""
        try:
            self._limits.follow(to_limits(message))
        except MessageError as error:
            self._refused.note(topics.LIMITS, error)
        if self._answer is not None:
            self._end("limits were tightened meanwhile")

    # The motion

    def _on_joint_state(self, message: JointState) -> None:
        """One, and all that have come since, as while this node was held up: the newest counts."""
        due: JointReading | None = None
        period = self._spec.period
        for heard in (message, *topics.waiting(self._states)):
            reading = to_reading(heard)
            if self._answer is None or self._pace.is_overtaken(reading.stamp_ns, period):
                continue
            new = self._pace.see(reading.stamp_ns)
            self._reader.see(reading)
            if self._pace.outage:
                self._end(self._pace.outage)
            elif new and self._pace.is_due(reading.stamp_ns, period):
                due = reading
        if due is None or self._answer is None or self._motion is None:
            return
        self._pace.answered(due.stamp_ns, period)
        try:
            joints = self._reader.read(due)
        except StateError as error:
            self._end(str(error))
            return
        self._state[: len(joints)] = joints
        self._heard, self._halted = time.monotonic(), False
        if self._moving:
            self._tick(self._motion, due.stamp_ns / NANOSECONDS)

    def _tick(self, motion: HomeMotion, now: float) -> None:
        places = self._state[: len(self._spec.joint_names)]
        action = motion.act(self._state, now)
        if outside := away_from_window(self._spec, self._windows, places):
            self._end(outside)
        elif motion.problem:
            self._end(motion.problem)
        elif motion.done:
            self._end("")
        else:
            self._send(self._guard.check(action, self._state).command)

    def _look(self) -> None:
        """Have the stopper wait, and look whether anything is wrong."""
        if self._answer is None:
            return
        now = time.monotonic()
        held_up, self._looked = now - self._looked, now
        silence = now - self._heard
        limit = outage_limit(self._guard.safety, self._spec.period)
        if self._stopper is not None and not self._stopper.hold():
            self._end("the process that stops the robot in case of need has ended or hangs")
        elif held_up > limit:
            self._end(f"held up for {1e3 * held_up:.0f} ms")
        elif not self._moving:
            self._meet(now)
        elif silence > limit:
            self._end(f"no joint state for {1e3 * silence:.0f} ms")
        elif silence > self._guard.safety.stale_periods * self._spec.period and not self._halted:
            self._halted = True
            self._send(self._guard.safe_command(None))

    def _meet(self, now: float) -> None:
        listeners = self._commands.get_subscription_count()
        ready = self._stopper is None or self._stopper.meets(listeners)
        if ready and listeners > 0 and self._heard > self._begin:
            self._look_around()  # No command beside somebody else's, not even the first one.
            self._moving = self._answer is not None
        elif now - self._begin > MEET_S:
            self._end(f"nobody was met on the topics within {MEET_S:g} s; run `hucrl doctor`")

    def _look_around(self) -> None:
        """Give up where somebody else may command the robot."""
        if self._answer is None:
            return
        known = (self.get_name(), *SPEAKERS, UNKNOWN[0])
        found = self.get_publishers_info_by_topic(self._commands.topic_name)
        if others := {str(each.node_name) for each in found} - {*known}:
            names = shortened(", ".join(sorted(others)))
            self._end(f"{names} publishes commands, too; stop it first", not self._moving)

    def _send(self, command: Array | None) -> None:
        if command is not None:
            self._commands.publish(Float64MultiArray(data=command.tolist()))

    def _end(self, problem: str, silent: bool = False) -> None:
        """The motion is over: the robot is without effort, at rest, or holds its place.

        Args:
            problem: Why it isn't at the start; empty: it is.
            silent: Somebody else commands the robot now.
        """
        answer, self._answer, self._motion = self._answer, None, None
        assert answer is not None
        stopper, self._stopper = self._stopper, None
        if silent:
            if stopper is not None:
                stopper.dismiss()
        else:
            if problem or self._spec.command != "position":  # at the start it holds that place
                self._send(self._guard.last_command(self._state if self._moving else None))
            self._commands.wait_for_all_acked(ARRIVAL_WAIT)
            if stopper is not None:
                stopper.release()
        self._moving = False
        self._trouble = Health(Level.WARN, problem) if problem else Health()
        if problem:
            done = "nothing more is sent" if silent else "the robot was stopped"
            self.get_logger().error(f"{problem}; {done}")
        answer.set_result(problem)

    def _health(self) -> Health:
        values = {
            "moving": self._moving,
            "active": self._active,
            "refused_messages": self._refused.count,
        }
        return Health(self._trouble.level, self._trouble.message, values)


main = partial(run_node, Homing)

if __name__ == "__main__":
    sys.exit(main())
