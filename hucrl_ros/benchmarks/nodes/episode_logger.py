"""For `hucrl bench delay`: records an episode that simulator and controller play.

Its base class, with which an episode is started and awaited, is that of `loop_source` too.
"""

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import Trigger

from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.controller.state_reader import JointStateReader
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.controller_topics import to_reading, to_tick
from hucrl_ros.nodes.diagnostics import speaker
from hucrl_ros.nodes.parameters import own_parameter
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.topics import LATCHED, STEADY, STREAM

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
        self._order = self._play()
        self.create_timer(POLL_S, self._go_on, clock=STEADY)

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
            if speaker(self, status) == CONTROLLER:
                self.diagnostics = {value.key: value.value for value in status.values}

    def _go_on(self) -> None:
        if next(self._order, False):
            self.exit_code = 1

    def _play(self) -> Iterator[bool]:
        """The order of an episode; yields False while it waits, True if the controller refuses."""
        while not (self._client.service_is_ready() and self.ready()):
            yield False
        configure, activate = (
            partial(self._change, transition)
            for transition in (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE)
        )
        for request in (configure, self.prepare, activate):
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

    def _change(self, transition: int) -> Future:
        request = ChangeState.Request(transition=Transition(id=transition))
        return self._client.call_async(request)


class EpisodeLogger(EpisodeClient):
    """Writes the episode's states `(T, p)` and the efforts `(T, q)` that acted.

    Parameters: `bundle`, whose manifest says robot and steps; `out`, the file to write.
    """

    def __init__(self) -> None:
        super().__init__("episode_logger")
        manifest = read_manifest(Path(own_parameter(self, "bundle", "")))
        self._steps = manifest.steps
        self._motors = manifest.actuated_joints
        self._reader = JointStateReader(manifest.joint_names)
        self._states: list[tuple[int, list[float], list[float]]] = []
        self._ticks: list[tuple[int, float]] = []
        self._reset = self.create_client(Trigger, topics.RESET)
        self.create_subscription(JointState, topics.JOINT_STATES, self._on_state, STREAM)
        self.create_subscription(Float64MultiArray, topics.TICKS, self._on_tick, STREAM)

    def ready(self) -> bool:
        """The simulator publishes joint states and the controller announces its ticks."""
        return (
            self._reset.service_is_ready()
            and bool(self._states)
            and self.count_publishers(topics.TICKS) > 0
        )

    def prepare(self) -> Future | None:
        """Put the robot at the start of the episode."""
        return self._reset.call_async(Trigger.Request())

    def begin(self) -> None:
        """Nothing to do."""

    def result(self) -> dict[str, object]:
        """States, efforts, and the ticks' durations [ms]."""
        first_ns = self._ticks[0][0]
        played = [entry for entry in self._states if entry[0] >= first_ns][: self._steps + 1]
        return {
            "states": [state for _, state, _ in played[:-1]],
            "actions": [effort for _, _, effort in played[1:]],
            "tick_ms": [duration for _, duration in self._ticks],
        }

    def _on_state(self, message: JointState) -> None:
        reading = to_reading(message)
        state = self._reader.read(reading)
        efforts = [float(message.effort[message.name.index(name)]) for name in self._motors]
        self._states.append((reading.stamp_ns, state.tolist(), efforts))

    def _on_tick(self, message: Float64MultiArray) -> None:
        tick = to_tick(message)
        self._ticks.append((tick.stamp_ns, tick.tick_ms))


main = partial(run_node, EpisodeLogger)

if __name__ == "__main__":
    sys.exit(main())
