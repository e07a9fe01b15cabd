"""The controller: a lifecycle node that answers each joint state with one effort command."""

import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.timer import Timer
from sensor_msgs.msg import JointState

from hucrl_ros.nodes import realtime, topics
from hucrl_ros.nodes.bundle_slot import BundleSlot
from hucrl_ros.nodes.diagnostics import DiagnosticsPublisher, Health, Level
from hucrl_ros.nodes.lifeline import Lifeline, lifeline_name
from hucrl_ros.nodes.outlets import Outlets
from hucrl_ros.nodes.parameters import own_parameter, read_config
from hucrl_ros.nodes.plan_markers import PlanPublisher
from hucrl_ros.nodes.qos import NEWEST
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.runtime.control_loop import Answer, ControlLoop, JointReading
from hucrl_ros.runtime.deadline import PLANNING_THREAD
from hucrl_ros.ticks import NANOSECONDS

LOCKSTEP_PATIENCE = 0.5
"""[s] A simulator in lockstep repeats its joint state every 0.05 s while it waits."""
LOG_PERIOD = 1.0
"""[s] At most one line of a kind in this time."""
OWN_PARAMETERS = ("run", "bundle")


class Controller(LifecycleNode):
    """Plays bundles, see `docs/contracts.md`.

    A joint state that doesn't come is judged by the steady clock. In real time only a new stamp
    counts, and the safe command is sent every period until one comes. In lockstep a repetition
    counts as well, and the safe command is sent once: physics stands still without commands,
    and each further one would move the simulator by a step that nobody asked for.

    The last command before silence is always zero effort: a robot holds it, and damping held
    for long would drive.
    """

    def __init__(self) -> None:
        super().__init__("controller", automatically_declare_parameters_from_overrides=True)
        self.exit_code: int | None = None
        self._config = read_config(self, OWN_PARAMETERS)
        self._lockstep = self._config.mode == "lockstep"
        self._planning = ThreadPoolExecutor(1, PLANNING_THREAD)
        self._slot = BundleSlot(self, self._config, self._planning)
        self._loop: ControlLoop | None = None
        self._active = self._stale = self._prepared = False
        self._patience = self._heard = 0.0
        self._trouble = Health()
        self._outlets = Outlets(self)
        self._plan = PlanPublisher(self)
        self.create_subscription(JointState, topics.JOINT_STATES, self._on_joint_state, NEWEST)
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(0.05, self._swap, clock=self._steady)
        self._stale_timer: Timer | None = None
        self._lifeline = Lifeline(
            lifeline_name(self.context.get_domain_id(), self._outlets.activity_topic)
        )
        self._diagnostics = DiagnosticsPublisher(self, self._health)
        self._outlets.activity(False)

    # Lifecycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the bundle that the parameter `bundle` names, if any; listen for others."""
        path = own_parameter(self, "bundle", "")
        if path and not self._slot.load_now(path):
            return TransitionCallbackReturn.FAILURE
        self._swap()
        self._slot.listen()
        self._planning.submit(int).result()  # so that its thread exists
        self._prepared = realtime.prepare(self._config.control)
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin an episode."""
        self._swap()
        if self._loop is None:
            self.get_logger().error(
                f"no bundle: give the parameter 'bundle' or publish its path on {topics.BUNDLE!r}"
            )
            return TransitionCallbackReturn.FAILURE
        self._loop.start(self._config.seed)
        if self._config.control.pause_garbage_collection:
            realtime.pause_garbage_collection()
        self._active, self._stale, self._heard = True, False, time.monotonic()
        self._trouble = Health()
        assert self._stale_timer is not None
        self._stale_timer.reset()
        self._outlets.activity(True)
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the episode."""
        self._finish()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Forget the bundle."""
        self._finish()
        self._slot.forget()
        self._loop = None
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the episode."""
        self._finish()
        return TransitionCallbackReturn.SUCCESS

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """A transition failed by a bug: end the episode and start anew."""
        return self.on_cleanup(state)

    def close(self) -> None:
        """Last words."""
        self._finish()
        self._slot.close()
        self._planning.shutdown(wait=False, cancel_futures=True)

    # One tick

    def _on_joint_state(self, message: JointState) -> None:
        received = time.monotonic()
        if not self._active:
            return
        self._swap()
        assert self._loop is not None
        stamp_ns = message.header.stamp.sec * NANOSECONDS + message.header.stamp.nanosec
        reading = JointReading(message.name, message.position, message.velocity, stamp_ns)
        try:
            answer = self._loop.answer(reading, received)
        except Exception as error:  # a bug, but the robot must not be left under its last effort
            self._give_up(f"tick {self._loop.step}: {type(error).__name__}: {error}")
            return
        if answer is not None:
            self._send(answer, received)
        if answer is not None or self._lockstep:
            # Not `received`: what came during a long tick is still to be read.
            self._heard, self._stale = time.monotonic(), False

    def _send(self, answer: Answer, received: float) -> None:
        assert self._loop is not None
        if answer.record is None:
            self._finish()
            return
        self._outlets.command(answer.effort)
        record = self._loop.sent(answer.record, received)
        self._outlets.tick(record)
        if answer.problem:
            self._warn(f"{answer.problem}; sending the safe command")
        extra = self._loop.reader.extra_joints
        if extra:
            self.get_logger().warning(
                f"joint_states: joints that the task doesn't know are ignored: {', '.join(extra)}",
                once=True,
            )
        if answer.optimistic is not None and self._plan.due():
            self._plan.publish(answer.optimistic, self._loop.player.expected_plan())

    def _on_stale_timer(self) -> None:
        silence = time.monotonic() - self._heard
        if not self._active or silence <= self._patience:
            return
        assert self._loop is not None
        if self._lockstep and self._stale:
            return
        self._stale = True
        if self._loop.step >= self._loop.steps:
            self._finish()
            return
        self._outlets.command(self._loop.stale())
        self._warn(f"no new joint state for {1e3 * silence:.0f} ms; sending the safe command")

    # Beginning and end

    def _swap(self) -> None:
        """Take a bundle that has been loaded, between two ticks."""
        loop = self._slot.take()
        if loop is None:
            return
        if self._loop is not None:
            loop.take_over(self._loop, self._config.seed)
        self._loop = loop
        if self._prepared:
            realtime.prepare(self._config.control)  # the bundle may have brought threads
        self._outlets.prepare(loop.spec.action_dim)
        limit = self._slot.safety.stale_periods * loop.spec.period
        self._patience = max(limit, LOCKSTEP_PATIENCE) if self._lockstep else limit
        if self._stale_timer is not None:
            self.destroy_timer(self._stale_timer)
        self._stale_timer = self.create_timer(
            loop.spec.period, self._on_stale_timer, clock=self._steady
        )
        if not self._active:
            self._stale_timer.cancel()

    def _finish(self) -> None:
        """Leave the robot without effort and say so."""
        if not self._active:
            return
        self._active = False
        if self._stale_timer is not None:
            self._stale_timer.cancel()
        assert self._loop is not None
        self._outlets.command(self._loop.guard.safe_effort(None))
        self._outlets.activity(False)
        if self._config.control.pause_garbage_collection:
            realtime.resume_garbage_collection()

    def _give_up(self, reason: str) -> None:
        """End the episode because of a bug."""
        self._finish()
        self._trouble = Health(Level.ERROR, reason)
        self.get_logger().error(f"{reason}; sent the safe command and deactivated")
        self.get_logger().error(traceback.format_exc())
        self.trigger_deactivate()

    def _warn(self, line: str) -> None:
        self._trouble = Health(Level.WARN, line)
        self.get_logger().warning(line, throttle_duration_sec=LOG_PERIOD)

    def _health(self) -> Health:
        trouble = self._trouble
        if trouble.level is Level.WARN:
            self._trouble = Health()
        values = self._loop.counters.values() if self._loop is not None else {}
        described = {"active": self._active, "bundle": self._slot.name, **values}
        return Health(trouble.level, trouble.message, described)


def main() -> int:
    """Run the node."""
    realtime.prefer_control_loop()
    return run_node(Controller)


if __name__ == "__main__":
    sys.exit(main())
