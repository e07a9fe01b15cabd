"""The controller: a lifecycle node that answers each joint state with one command."""

import sys
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_msgs.msg import Bool

from hucrl_ros.controller.control_loop import Answer, ControlLoop
from hucrl_ros.controller.setup import setup_of
from hucrl_ros.controller.ticks import TickRecord
from hucrl_ros.controller.timing import OUTAGE, PLANNING_THREAD, STOPPED
from hucrl_ros.errors import OutageError, SurpriseError, shortened
from hucrl_ros.nodes import realtime, topics
from hucrl_ros.nodes.bundle_slot import BundleSlot
from hucrl_ros.nodes.controller_topics import ControllerInputs, ControllerOutputs, Heard
from hucrl_ros.nodes.diagnostics import DiagnosticsPublisher, Health, Level
from hucrl_ros.nodes.parameters import make_admission, make_trust, own_parameter, read_config
from hucrl_ros.nodes.plan_publisher import PlanPublisher
from hucrl_ros.nodes.process_liveness import ProcessLiveness, liveness_name
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.setting_parameters import BUNDLES, SettingParameters

GREETING = 0.05
"""[s] Between two looks for a watchdog that has come."""
LOG_PERIOD = 1.0
"""[s] At most one line of a kind in this time."""
OWN_PARAMETERS = ("run", "robot", "bundle")
USES = ("task", "mode", "seed", "control", *BUNDLES)
"""Settings."""


class Controller(LifecycleNode):
    """Plays bundles, see `docs/contracts.md`.

    The last command before silence is always zero effort, zero velocity or to hold: a robot stays
    under it, and damping held for long would drive.
    """

    def __init__(self) -> None:
        super().__init__("controller", automatically_declare_parameters_from_overrides=True)
        self.exit_code: int | None = None
        self._config = read_config(self, OWN_PARAMETERS)
        self._admission = make_admission(self, self._config, *BUNDLES)
        self._settings = SettingParameters(self, self._config, USES, self._tighten)
        own_parameter(self, "bundle", "")
        lockstep = self._config.mode == "lockstep"
        self._planning = ThreadPoolExecutor(1, PLANNING_THREAD)
        self._inputs = ControllerInputs(self, lockstep, self._on_joint_state, self._on_silence)
        poses = self._inputs.poses
        name = liveness_name(self.context.get_domain_id(), self.resolve_topic_name(topics.ACTIVE))
        # Where a robot may be moved: one whose name another has is watched by nobody.
        self._liveness = ProcessLiveness(name, alone=not lockstep)
        trust = make_trust(self, self._config)
        self._slot = BundleSlot(
            self, self._config, self._admission, trust, self._planning, poses, self._liveness
        )
        self._loop: ControlLoop | None = None
        self._active = self._prepared = self._stopped = False
        self._trouble = Health()
        self._outputs = ControllerOutputs(self, self._liveness, self._config.mode == "lockstep")
        self._plan = PlanPublisher(self)
        self.create_subscription(Bool, topics.STOP, self._on_stop, topics.STREAM)
        self.create_timer(0.05, self._swap, clock=topics.STEADY)
        self.create_timer(GREETING, self._liveness.greet, clock=topics.STEADY)
        self._diagnostics = DiagnosticsPublisher(self, self._health)
        self._outputs.ended()

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
            return self._refuse(
                f"no bundle: give the parameter 'bundle' or publish its path on {topics.BUNDLE!r}"
            )
        if problem := self._inputs.wrong_rate() or self._stop_line * self._stopped:
            return self._refuse(problem)
        if self._loop.reader.needs_goal:
            topic = self.resolve_topic_name(topics.GOAL)
            return self._refuse(f"no goal: publish a geometry_msgs/PoseStamped on {topic!r}")
        self._loop.start(self._config.seed)
        self._outputs.setup(setup_of(self._loop, self._config.seed))
        if self._config.control.pause_garbage_collection:
            realtime.pause_garbage_collection()
        self._active, self._trouble = True, Health()
        self._inputs.begin(self._loop.reader)
        self._outputs.began()
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
        """End the episode and the threads of this node."""
        if self._active:
            self._finish(topics.ARRIVAL_WAIT)
            self._outputs.await_arrival()
        self._slot.close()
        self._planning.shutdown(wait=False, cancel_futures=True)
        self._liveness.close()

    # One tick

    def _on_joint_state(self, heard: Heard) -> bool:
        """Answer a joint state; returns whether it was a new one."""
        assert self._loop is not None
        if problem := self._inputs.wrong_rate() or self._inputs.outage:
            self._give_up(problem)
            return True
        try:
            answer = self._loop.answer(*heard, self._outputs.command)
            if answer is not None and answer.record is not None:
                self._report(answer, answer.record)
        except (OutageError, SurpriseError) as error:
            self._give_up(str(error))
            return True
        except Exception as error:  # a bug, but the robot must not be left under its last effort
            self._give_up(f"tick {self._loop.step}: {type(error).__name__}: {error}")
            self.get_logger().error(traceback.format_exc())
            return True
        if answer is None:
            return False
        if answer.record is None:
            self._finish()
        self._swap()
        return True

    def _report(self, answer: Answer, record: TickRecord) -> None:
        """Say what a tick did, after its command has been sent."""
        assert self._loop is not None
        self._outputs.tick(record, answer.decided)
        if answer.problem:
            line = self._note(f"{answer.problem}; sending the safe command")
            self.get_logger().warning(line, throttle_duration_sec=LOG_PERIOD)
        extra = self._loop.reader.joints.extra_joints
        if extra:
            named = shortened(", ".join(extra), 500)
            self.get_logger().warning(
                f"joint_states: joints that the task doesn't know are ignored: {named}", once=True
            )
        if answer.optimistic is not None and self._plan.due():
            self._plan.publish(answer.optimistic, self._loop.player.expected_plan())

    def _on_silence(self, silence: float) -> None:
        assert self._loop is not None
        if self._loop.step >= self._loop.steps:
            self._finish()
            return
        try:
            command = self._loop.stale()
        except OutageError as error:
            self._give_up(str(error))
            return
        self._outputs.command(command)
        line = f"no new joint state for {1e3 * silence:.0f} ms; sending the safe command"
        # Not by a method of both: lines from one place are throttled as one kind.
        self.get_logger().warning(self._note(line), throttle_duration_sec=LOG_PERIOD)

    # Beginning and end

    def _swap(self) -> None:
        """Take a bundle that has been loaded, between two ticks."""
        loop = self._slot.take()
        if loop is None:
            return
        if self._loop is not None:
            loop.take_over(self._loop, self._config.seed)
        loop.others = self._outputs.others
        self._loop = loop
        if self._active:
            self._outputs.setup(setup_of(loop, self._config.seed))
        if self._prepared:
            realtime.prepare(self._config.control)  # the bundle may have brought threads
        self._outputs.prepare(loop.spec.action_dim)
        self._plan.prepare(loop.spec)
        manifest, safety = loop.player.bundle.manifest, loop.guard.safety
        self._inputs.set_period(loop.spec.period, safety.stale_periods)
        self._diagnostics.hardware_id = loop.spec.name
        self._settings.show(safety=safety, planner=manifest.planner, driver=manifest.driver)

    def _tighten(self, limits: Mapping[str, object]) -> None:
        """Obey stricter limits from the next tick on, and tell the watchdog."""
        guard = self._admission.tighten(limits)
        if self._loop is not None:
            self._loop.obey(guard)
            if self._active:
                self._outputs.setup(setup_of(self._loop, self._config.seed))
            self._inputs.set_period(guard.spec.period, guard.safety.stale_periods)
        self._outputs.limits(self._admission.tightened)
        told = ", ".join(f"{name} = {value}" for name, value in limits.items())
        self.get_logger().info(f"stricter from now on: {told}")

    @property
    def _stop_line(self) -> str:
        return f"{STOPPED} {self.resolve_topic_name(topics.STOP)!r}"

    def _on_stop(self, message: Bool) -> None:
        """Somebody stops the robot (True), or lets it be moved again after a reset (False)."""
        self._stopped = bool(message.data)
        if self._stopped and self._active:
            self._give_up(f"{OUTAGE}: {self._stop_line}")

    def _finish(self, patience: Duration = topics.LOCKSTEP_ARRIVAL_WAIT) -> None:
        """Leave the robot without effort, at rest or holding, and say so; see `ended`."""
        if not self._active:
            return
        self._active = False
        self._inputs.end()
        assert self._loop is not None
        self._outputs.command(self._loop.finish())
        self._outputs.ended(patience)
        if self._config.control.pause_garbage_collection:
            realtime.resume_garbage_collection()

    def _refuse(self, reason: str) -> TransitionCallbackReturn:
        """Don't begin an episode."""
        self._trouble = Health(Level.WARN, reason)
        self.get_logger().error(reason)
        return TransitionCallbackReturn.FAILURE

    def _give_up(self, reason: str) -> None:
        """End the episode before its last step; another one needs another activation."""
        self._finish()
        self._trouble = Health(Level.ERROR, reason)
        self.get_logger().error(f"{reason}; sent the safe command and deactivated")
        self._diagnostics.publish()
        self.trigger_deactivate()

    def _note(self, line: str) -> str:
        """Have the diagnostics say so, too."""
        self._trouble = Health(Level.WARN, line)
        return line

    def _health(self) -> Health:
        trouble = self._trouble
        if trouble.level is Level.WARN:
            self._trouble = Health()
        values = self._loop.counters.values() if self._loop is not None else {}
        described = {"active": self._active, "bundle": self._slot.name, **values}
        described["overtaken_joint_states"] = self._inputs.overtaken
        return Health(trouble.level, trouble.message, described)


def main() -> int:
    """Run the node."""
    realtime.prefer_control_loop()
    return run_node(Controller)


if __name__ == "__main__":
    sys.exit(main())
