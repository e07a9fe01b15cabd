"""For `hucrl bench delay`: records an episode that simulator and controller play."""

import sys
from pathlib import Path

from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from hucrl_ros.benchmarks.nodes.episode_client import EpisodeClient
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.controller.state_reader import JointStateReader
from hucrl_ros.nodes import conversions, topics
from hucrl_ros.nodes.conversions import to_tick
from hucrl_ros.nodes.parameters import own_parameter
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.topics import STREAM


class EpisodeLogger(EpisodeClient):
    """Writes the episode's states `(T, p)` and the efforts `(T, q)` that acted.

    Parameters: `bundle`, whose manifest says robot and steps; `out`, the file to write.
    """

    def __init__(self) -> None:
        super().__init__("episode_logger")
        manifest = read_manifest(Path(own_parameter(self, "bundle", "")))
        self._steps = manifest.steps
        self._motors = [manifest.joint_names.index(name) for name in manifest.actuated_joints]
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
        reading = conversions.to_reading(message)
        state = self._reader.read(reading)
        efforts = [float(message.effort[motor]) for motor in self._motors]
        self._states.append((reading.stamp_ns, state.tolist(), efforts))

    def _on_tick(self, message: Float64MultiArray) -> None:
        tick = to_tick(message)
        self._ticks.append((tick.stamp_ns, tick.tick_ms))


def main() -> int:
    """Run the node."""
    return run_node(EpisodeLogger)


if __name__ == "__main__":
    sys.exit(main())
