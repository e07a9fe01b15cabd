"""The watchdog: sends the safe command when the controller no longer controls."""

import functools
import sys
import time
from collections.abc import Callable, Mapping

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from numpy.typing import NDArray
from rcl_interfaces.msg import ParameterEvent
from rclpy.node import Node
from rclpy.timer import Timer
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, MultiArrayDimension, MultiArrayLayout, String

from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.state_reader import JointStateReader, velocity_estimator
from hucrl_ros.controller.watch import LABEL, SENDING, Watch, patience
from hucrl_ros.errors import HucrlError, StateError, shortened
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.controller_topics import to_reading
from hucrl_ros.nodes.controller_words import ControllerWords
from hucrl_ros.nodes.diagnostics import DiagnosticsPublisher, Health, Level
from hucrl_ros.nodes.offered_bundles import OfferedBundles
from hucrl_ros.nodes.parameters import make_admission, make_trust, read_config
from hucrl_ros.nodes.realtime import set_realtime_priority, try_realtime_priority
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.setting_parameters import SettingParameters, to_limits
from hucrl_ros.nodes.strangers import strangers
from hucrl_ros.nodes.topics import ARRIVAL_WAIT, LATCHED, MEASURED, NEWEST, STEADY, STREAM

Array = NDArray[np.float64]
CHECKS = 4
"""Looks at the watch in a control period."""
TRUSTED = ("control.bundle_root", "control.trusted_keys")
USES = ("task", "mode", "safety", "driver", "control.realtime_priority", *TRUSTED)
"""Settings."""
OFFERS = 0.05
"""[s] Between two looks whether a bundle has been read, or a controller's process is there."""
UNKNOWING = "armed, but knows no bundle yet, so it has no safe command to send"
"""What it says until it has read what the controller plays."""
COMPANY = 1.0
"""[s] Between two looks at who publishes."""


class Watchdog(Node):
    """Stands by while an episode is under way.

    It trips when the controller's process has ended, or when a joint state gets no command for
    `safety.stale_periods` control periods (half a period earlier, so that the safe command is
    out in time). Then it sends the safe command every period, until the controller sends a
    command again or the episode is over. A dead controller counts as dead until a new episode
    begins, whatever of its messages may still arrive.

    In lockstep physics waits for a slow tick, so only a controller that has ended or hangs for
    seconds trips the watch; each safe command then moves the simulator by one step.

    It believes the controller's process where that is on its machine, whatever others publish in
    the controller's name. What it must know of the robot it reads from the manifest of the bundle
    that the controller says it plays, so both have to see the same file system. Whatever it hears
    leaves it standing: a bundle that it can't read or admit changes nothing.
    """

    def __init__(self) -> None:
        super().__init__(LABEL, automatically_declare_parameters_from_overrides=True)
        self.exit_code: int | None = None
        self._config = read_config(self, ("run", "robot"))
        admission = make_admission(self, self._config, "safety", "driver")
        trust = make_trust(self, self._config)
        self._bundles = OfferedBundles(admission, trust.read_manifest)
        self._settings = SettingParameters(self, self._config, USES, self._tighten)
        self._watch = Watch()
        self._guard: Guard | None = None
        self._bundle = ""
        self._reader = JointStateReader(())
        self._state: Array | None = None
        self._period = self._heard = self._next = self._looked = 0.0
        self._layout = MultiArrayLayout()
        self._trips = self._sent = self._foreign = 0
        self._strangers: list[str] = []
        self._trouble = Health()
        self._commands = self.create_publisher(Float64MultiArray, topics.COMMANDS, STREAM)
        self._tripped = self.create_publisher(DiagnosticStatus, topics.TRIPPED, LATCHED)
        delivery = NEWEST if self._config.mode == "lockstep" else MEASURED
        hear = self._standing(self._on_joint_state)
        self.create_subscription(JointState, topics.JOINT_STATES, hear, delivery)
        words = (
            (String, topics.LOADED_BUNDLE, self._standing(self._on_bundle), LATCHED),
            (ParameterEvent, topics.LIMITS, self._standing(self._on_limits), LATCHED),
            (Bool, topics.ACTIVE, self._standing(self._on_active), LATCHED),
        )
        self._controller = ControllerWords(
            self, words, self._on_sent, self._standing(self._on_arrived), self._meet
        )
        self._timer = self._make_timer(1.0)
        self.create_timer(OFFERS, self._standing(self._take_offer), clock=STEADY)
        self.create_timer(COMPANY, self._standing(self._look_around), clock=STEADY)
        self._diagnostics = DiagnosticsPublisher(self, self._health)

    def close(self) -> None:
        """Watch no longer; what this node has been sending ends with what may last."""
        if self._watch.tripped:
            self._send_last_command()
            self._commands.wait_for_all_acked(ARRIVAL_WAIT)  # with this process it would be lost
        self._controller.close()
        self._bundles.close()

    def _standing(self, callback: Callable[..., None]) -> Callable[..., None]:
        """`callback`, but what it raises becomes one line and ends no watch."""

        @functools.wraps(callback)
        def call(*heard: object) -> None:
            try:
                callback(*heard)
            except Exception as error:
                kind = "" if isinstance(error, HucrlError) else f"{type(error).__name__}: "
                line = shortened(f"can't stand by as told: {kind}{error}", 1000)
                if line != self._trouble.message:  # or a timer would repeat it for ever
                    self._report(Level.ERROR, line)

        return call

    def _make_timer(self, period: float) -> Timer:
        return self.create_timer(period, self._standing(self._look), clock=STEADY)

    # What the others say

    def _meet(self) -> None:
        """The controller is on this machine: what anybody else has said is nothing."""
        self._on_active(Bool(data=False))
        self._bundles.forget()
        self._guard, self._bundle = None, ""

    def _on_bundle(self, message: String) -> None:
        if not message.data.startswith("error:"):
            self._bundles.offer(message.data)

    def _take_offer(self) -> None:
        """Stand by for a bundle that has been read and admitted; raises why it wasn't."""
        self._controller.listen()
        admitted = self._bundles.take()
        if admitted is None:
            return
        self._bundle, manifest = admitted
        self._period = manifest.period
        estimator = velocity_estimator(manifest.driver, manifest.period)
        self._reader = JointStateReader(manifest.joint_names, estimator=estimator)
        count = manifest.spec.action_dim
        dimension = MultiArrayDimension(label=LABEL, size=count, stride=count)
        self._layout = MultiArrayLayout(dim=[dimension])
        guard = self._bundles.guard
        assert guard is not None
        self._obey(guard)
        self._settings.show(safety=guard.safety, driver=manifest.driver)
        self._diagnostics.hardware_id = manifest.robot
        # It needs next to no time, but that at once: taken wherever it is allowed. Now, because
        # the executor's own threads didn't exist yet when this node was made.
        wished = self._config.control.realtime_priority
        if set_realtime_priority(wished):
            try_realtime_priority(min(wished + 1, 99))
        self.destroy_timer(self._timer)
        self._timer = self._make_timer(manifest.period / CHECKS)
        if self._watch.armed and self._trouble.message == UNKNOWING:
            self._report(Level.OK, "armed")

    def _on_limits(self, message: ParameterEvent) -> None:
        """Limits were tightened in the controller: they hold here too."""
        guard = self._bundles.follow(to_limits(message))
        if guard is not None:
            self._obey(guard)
            self._settings.show(safety=guard.safety)

    def _tighten(self, limits: Mapping[str, object]) -> None:
        """Somebody tightens limits here."""
        self._obey(self._bundles.tighten(limits))

    def _obey(self, guard: Guard) -> None:
        guard.reset(self._guard)  # it goes on from what was sent
        self._guard = guard
        lockstep = self._config.mode == "lockstep"
        self._watch.limit_s = patience(guard.safety.stale_periods, guard.spec.period, lockstep)
        self._watch.period = guard.spec.period

    def _on_active(self, message: Bool) -> None:
        if self._watch.tripped:
            self._send_last_command()
        if not message.data:
            self._watch.disarm()
            return
        self._watch.arm()
        self._state = None
        if self._guard is not None:
            self._guard.reset()  # a position of the episode before is nothing to hold now
        self._controller.ended, self._looked = False, time.monotonic()
        self._reader.reset()
        if not self._controller.connected:
            self.get_logger().warning(
                "the controller's process is not on this machine; only missing commands will "
                "tell that it has ended, and whoever reaches it by DDS can speak for it"
            )
        self._report(Level.OK, "armed" if self._bundle else UNKNOWING)
        if not self._bundle:
            self._trouble = Health(Level.WARN, UNKNOWING)  # in diagnostics; no trip yet

    def _on_joint_state(self, message: JointState) -> None:
        if not self._watch.armed:
            return
        now = time.monotonic()
        reading = to_reading(message)
        if self._watch.joint_state(reading.stamp_ns, now):
            self._heard = now
            try:
                self._state = self._reader.read(reading)
            except StateError:
                self._state = None  # the controller has said why

    def _on_sent(self, command: Array) -> None:
        if self._guard is not None:
            self._guard.hear(command)

    def _on_arrived(self, known: bool) -> None:
        """A command has come by DDS, of the controller if it is known."""
        if not known:
            self._foreign += self._watch.armed
        elif self._watch.command():
            self._report(Level.OK, "armed: the controller sends commands again")

    def _look_around(self) -> None:
        """Say once who speaks out of turn; whatever it is, it isn't believed."""
        before, self._strangers = self._strangers, strangers(self)
        for line in self._strangers:
            if line not in before:
                self.get_logger().warning(line)

    # What the watchdog does

    def _look(self) -> None:
        # At the second look: what DDS brings of before it happened has come by then.
        ended, stopped = self._controller.ended, self._controller.stopped
        self._controller.listen()
        if not self._watch.armed:
            return
        if ended and self._controller.ended:
            self._watch.ended()
        now = time.monotonic()
        stopped = stopped and self._controller.stopped
        if self._config.mode == "lockstep":  # nobody is in danger meanwhile
            stopped = False
            self._watch.excuse(max(now - self._looked - self._period, 0.0), now)
        self._looked = now
        reason, sent = self._watch.check(now, stopped), False
        if self._watch.tripped and (reason or now >= self._next):
            # Once a period; what a late look has missed is not made up for.
            on_time = not reason and now < self._next + self._period
            self._next = (self._next if on_time else now) + self._period
            sent = self._send(lambda guard: guard.safe_command(self._fresh_state(now)))
        if reason:
            self._trips += 1
            known = "place of the robot" if self._bundle else "bundle"
            done = SENDING if sent else f"there is no safe command, as no {known} is known"
            self._report(Level.ERROR, f"{reason}; {done}")

    def _fresh_state(self, now: float) -> Array | None:
        return self._state if now - self._heard <= self._watch.limit_s else None

    def _send_last_command(self) -> None:
        self._send(lambda guard: guard.last_command(self._fresh_state(time.monotonic())))

    def _send(self, choose: Callable[[Guard], Array | None]) -> bool:
        """Send what a guard chooses, if there is one, and it finds something."""
        command = None if self._guard is None or not self._bundle else choose(self._guard)
        if command is None:
            return False
        self._sent += 1
        message = Float64MultiArray(layout=self._layout, data=command.tolist())
        self._controller.tell(message)
        self._commands.publish(message)
        return True

    def _report(self, level: Level, line: str) -> None:
        self._trouble = Health(level, line)
        self._tripped.publish(self._trouble.status(self.get_fully_qualified_name()))
        if level is Level.ERROR:
            self.get_logger().error(line)

    def _health(self) -> Health:
        values = {
            "armed": self._watch.armed,
            "bundle": self._bundle,
            "trips": self._trips,
            "safe_commands": self._sent,
            "foreign_commands": self._foreign,
            "strangers": "; ".join(self._strangers),
        }
        return Health(self._trouble.level, self._trouble.message, values)


main = functools.partial(run_node, Watchdog)

if __name__ == "__main__":
    sys.exit(main())
