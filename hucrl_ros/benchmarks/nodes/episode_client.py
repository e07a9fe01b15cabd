"""For benchmarks: lets the controller play an episode and writes a file of results."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.task import Future
from std_msgs.msg import Bool

from hucrl_ros.nodes import topics
from hucrl_ros.nodes.parameters import own_parameter
from hucrl_ros.nodes.topics import LATCHED

POLL_S = 0.02
"""[s] Between two looks at whether the next step can begin."""
CONTROLLER = "controller"


class EpisodeClient(Node, ABC):
    """Configures and activates the controller, and waits for the end of the episode.

    The process ends with code 0 and a JSON file written where the parameter `out` says, or with
    1 where the controller refuses.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.exit_code: int | None = None
        self.diagnostics: dict[str, str] = {}
        """Values of the controller's last diagnostics, by key."""
        self._out = Path(own_parameter(self, "out", f"{name}.json"))
        self._active = False
        self._client = self.create_client(ChangeState, topics.CHANGE_STATE)
        self.create_subscription(Bool, topics.ACTIVE, self._on_active, LATCHED)
        self.create_subscription(DiagnosticArray, topics.DIAGNOSTICS, self._on_diagnostics, 10)
        self.steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._order = self._play()
        self.create_timer(POLL_S, self._go_on, clock=self.steady)

    def close(self) -> None:
        """Nothing to do."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether the controller's topics and services are connected."""

    @abstractmethod
    def prepare(self) -> Future | None:
        """Get ready; the controller is activated when the future is done, or at once if None."""

    @abstractmethod
    def begin(self) -> None:
        """Called when the controller has become active."""

    @abstractmethod
    def result(self) -> dict[str, object]:
        """The measurement, for JSON."""

    def _on_active(self, message: Bool) -> None:
        self._active = message.data

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == CONTROLLER:
                self.diagnostics = {value.key: value.value for value in status.values}

    def _go_on(self) -> None:
        if next(self._order, False):
            self.exit_code = 1

    def _play(self) -> Iterator[bool]:
        """The order of an episode; yields False while it waits, True if the controller refuses."""
        while not (self._client.service_is_ready() and self.ready()):
            yield False
        for request in (self._configure, self.prepare, self._activate):
            future = request()
            while future is not None and not future.done():
                yield False
            if future is not None and not future.result().success:
                self.get_logger().error("the controller refused to start")
                yield True
        while not self._active:
            yield False
        self.begin()
        while self._active:
            yield False
        self.diagnostics = {}
        while not self.diagnostics:  # published after the end, they count the whole episode
            yield False
        self._out.write_text(json.dumps({**self.result(), "diagnostics": self.diagnostics}))
        self.exit_code = 0

    def _configure(self) -> Future:
        return self._change(Transition.TRANSITION_CONFIGURE)

    def _activate(self) -> Future:
        return self._change(Transition.TRANSITION_ACTIVATE)

    def _change(self, transition: int) -> Future:
        request = ChangeState.Request(transition=Transition(id=transition))
        return self._client.call_async(request)
