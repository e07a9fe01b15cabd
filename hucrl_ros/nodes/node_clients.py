"""The other nodes as the supervisor sees them: services, topics, signs of life."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.client import Client
from rclpy.node import Node
from std_msgs.msg import Bool, String
from std_srvs.srv import SetBool, Trigger

from hucrl_ros.nodes import topics
from hucrl_ros.nodes.diagnostics import speaker
from hucrl_ros.nodes.topics import LATCHED, STREAM

PEERS = ("simulator", "controller", "watchdog", "recorder", "learner", "homing")
SILENCE_S = 30.0
"""[s] Without diagnostics, which come every second, a node counts as lost."""
RECENT_S = 60.0
"""[s] What a node said longer ago, and hasn't repeated since, is over."""


@dataclass
class LearnerReport:
    """The newest message on `learner/report`."""

    message: str
    failed: bool
    values: dict[str, str] = field(default_factory=dict)

    @property
    def progress(self) -> float:
        """Share of the work that is done; 0 where nothing sensible is said."""
        try:
            return float(self.values.get("progress", 0))
        except ValueError:
            return 0.0


class NodeClients:
    """What the supervisor knows of the other nodes, and how it speaks to them."""

    def __init__(
        self, node: Node, changed: Callable[[], None], resets: bool = True, homes: bool = False
    ) -> None:
        """Connect.

        Args:
            node: The supervisor.
            changed: Called after each message or answer.
            resets: Whether the robot has a service that resets it.
            homes: Whether there is the node `homing`, which moves it to the start.
        """
        self._node, self._changed = node, changed
        self._resets, self._homes = resets, homes
        self.active: bool | None = None
        self.stopped = False
        """Somebody has stopped the robot on the topic `stop`, and not let it go on."""
        self.stops = 0
        """How often so far; who lets it go on at once has stopped it all the same."""
        self._stop = node.create_publisher(Bool, topics.STOP, STREAM)
        self.activity_count = 0
        """Messages on `controller/active` so far."""
        self.loaded: str | None = None
        """Newest message on `controller/bundle`."""
        self.loaded_count = 0
        """Messages on `controller/bundle` so far."""
        self.report: LearnerReport | None = None
        self.trip: str | None = None
        """Why the watchdog sent the safe command; None while it is armed."""
        self._last_seen: dict[str, float] = {}
        self._trouble: dict[str, tuple[str, float]] = {}
        self._failure: dict[str, str] = {}
        self.reset = node.create_client(Trigger, topics.RESET)
        self.home = node.create_client(Trigger, topics.HOME)
        self.record = node.create_client(SetBool, topics.RECORD)
        self.learn = node.create_client(Trigger, topics.LEARN)
        self.change_state = node.create_client(ChangeState, topics.CHANGE_STATE)
        self._bundle = node.create_publisher(String, topics.BUNDLE, LATCHED)
        # Publishers are counted by the name that a topic really has.
        self._joint_states = node.resolve_topic_name(topics.JOINT_STATES)
        self._subscriptions = [
            node.create_subscription(Bool, topics.ACTIVE, self._on_active, LATCHED),
            node.create_subscription(Bool, topics.STOP, self._on_stop, STREAM),
            node.create_subscription(String, topics.LOADED_BUNDLE, self._on_loaded, LATCHED),
            node.create_subscription(
                DiagnosticStatus, topics.LEARNER_REPORT, self._on_report, LATCHED
            ),
            node.create_subscription(DiagnosticStatus, topics.TRIPPED, self._on_trip, LATCHED),
            node.create_subscription(DiagnosticArray, topics.DIAGNOSTICS, self._on_health, 10),
        ]

    def missing(self) -> list[str]:
        """Names of the nodes that aren't there yet."""
        found = {
            "simulator": (self.reset.service_is_ready() or not self._resets)
            and self._node.count_publishers(self._joint_states) > 0,
            "controller": self.change_state.service_is_ready() and self.active is not None,
            "watchdog": self._node.count_publishers(topics.TRIPPED) > 0,
            "recorder": self.record.service_is_ready(),
            "learner": self.learn.service_is_ready(),
            "homing": self.home.service_is_ready() or not self._homes,
        }
        return [name for name, there in found.items() if not there]

    def silent(self) -> list[str]:
        """Names of the nodes that have given no sign of life for `SILENCE_S`."""
        now = time.monotonic()
        return [name for name, seen in self._last_seen.items() if now - seen > SILENCE_S]

    def trouble(self, name: str) -> str:
        """The newest warning or error on `/diagnostics` of a node, or nothing for long."""
        message, said = self._trouble.get(name, ("", 0.0))
        return message if time.monotonic() - said <= RECENT_S else ""

    def failure(self, name: str) -> str:
        """The newest error on `/diagnostics` of a node since `forgive`, or nothing."""
        return self._failure.get(name, "")

    def forgive(self, name: str) -> None:
        """Let what a node has reported as an error be over."""
        self._failure.pop(name, None)

    def publish_bundle(self, path: str) -> None:
        """Tell the controller which bundle to load."""
        self._bundle.publish(String(data=path))

    def deactivate(self) -> None:
        """Ask the controller to end the episode, whatever comes of it."""
        if self.active and self.change_state.service_is_ready():
            transition = Transition(id=Transition.TRANSITION_DEACTIVATE)
            self.change_state.call_async(ChangeState.Request(transition=transition))

    def call(self, client: Client, request: Any) -> Any:  # noqa: ANN401  # one type a service
        """Send a request; returns its future."""
        future = client.call_async(request)
        future.add_done_callback(lambda _: self._changed())
        return future

    def _on_active(self, message: Bool) -> None:
        self.active = bool(message.data)
        self.activity_count += 1
        self._changed()

    def hold(self) -> None:
        """Somebody has stopped the robot whom another node alone has heard."""
        self._set_stopped(True)

    def _on_stop(self, message: Bool) -> None:
        self._set_stopped(bool(message.data))
        self._changed()

    def _set_stopped(self, stopped: bool) -> None:
        if stopped == self.stopped:
            return
        self.stopped = stopped
        self.stops += stopped
        if stopped:
            # Whoever says it once may have reached this node alone. Letting go isn't passed on:
            # our own words come back late, and none that does may undo somebody's stop.
            self._stop.publish(Bool(data=True))

    def _on_loaded(self, message: String) -> None:
        self.loaded = str(message.data)
        self.loaded_count += 1
        self._changed()

    def _on_report(self, message: DiagnosticStatus) -> None:
        values = {entry.key: entry.value for entry in message.values}
        failed = message.level == DiagnosticStatus.ERROR
        self.report = LearnerReport(message.message, failed, values)
        self._changed()

    def _on_trip(self, message: DiagnosticStatus) -> None:
        self.trip = message.message if message.level == DiagnosticStatus.ERROR else None
        self._changed()

    def _on_health(self, message: DiagnosticArray) -> None:
        for status in message.status:
            name = speaker(self._node, status)
            if name not in PEERS:  # somebody else's, whose silence and trouble don't count
                continue
            self._last_seen[name] = time.monotonic()
            if status.level != DiagnosticStatus.OK:
                self._trouble[name] = status.message, self._last_seen[name]
            if status.level == DiagnosticStatus.ERROR:
                self._failure[name] = status.message
