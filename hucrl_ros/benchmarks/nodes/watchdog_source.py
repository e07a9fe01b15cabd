"""For `hucrl bench watchdog`: a robot that times the safe command after its controller is hurt."""

import json
import math
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from hucrl_ros.benchmarks.nodes.episode_logger import EpisodeClient
from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.controller.watch import LABEL
from hucrl_ros.nodes import realtime, topics
from hucrl_ros.nodes.parameters import own_parameter
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.topics import STEADY, STREAM

SETTLED = 20
"""Commands in a row of a controller that controls."""
LONGEST_S = 2.0
"""[s] Without a safe command: then none has come."""


class WatchdogSource(EpisodeClient):
    """Publishes joint states; stops the controller some times, kills it then, times what comes.

    Parameters: `bundle`, whose manifest says robot and period; `pid` of the controller; `stops`;
    `seed` of the moments within a period; `priority` for itself, as `control.realtime_priority`;
    `out`, the file to write.
    """

    def __init__(self) -> None:
        super().__init__("watchdog_source")
        manifest = read_manifest(Path(own_parameter(self, "bundle", "")))
        self._pid = own_parameter(self, "pid", 0)
        self._stops = own_parameter(self, "stops", 0)
        self._priority = own_parameter(self, "priority", 0)
        self._random = random.Random(own_parameter(self, "seed", 0))
        self._period = manifest.period
        self._message = JointState(name=list(manifest.joint_names))
        self._message.position = self._message.velocity = [0.0] * len(manifest.joint_names)
        self._step = self._in_a_row = 0
        self._hurt_at = self._safe_at = math.inf
        self._found: dict[str, list[float]] = {"SIGSTOP": [], "SIGKILL": []}
        self._states = self.create_publisher(JointState, topics.JOINT_STATES, STREAM)
        self.create_subscription(Float64MultiArray, topics.COMMANDS, self._on_command, STREAM)

    def ready(self) -> bool:
        """Controller and watchdog are connected."""
        commanding = self.count_publishers(topics.COMMANDS)
        ticking = self.count_publishers(topics.TICKS)
        return bool(self._states.get_subscription_count() > 1 and commanding > 1 and ticking > 0)

    def prepare(self) -> Future | None:
        """Take the real-time priority."""
        realtime.prepare(ControlSettings(realtime_priority=self._priority))
        return None

    def begin(self) -> None:
        """Start the clock."""
        self._script = self._hurt()
        self.create_timer(self._period, self._publish, clock=STEADY)

    def result(self) -> dict[str, object]:
        """Times from signal to safe command [s]; NaN where none came."""
        return dict(self._found)

    def _publish(self) -> None:
        self._step += 1
        stamp_ns = self._step * round(self._period * NANOSECONDS)
        stamp = self._message.header.stamp
        stamp.sec, stamp.nanosec = divmod(stamp_ns, NANOSECONDS)
        self._states.publish(self._message)
        if next(self._script, True):
            self._out.write_text(json.dumps(self.result()))
            self.exit_code = 0

    def _hurt(self) -> Iterator[bool]:
        """What happens at each joint state."""
        for name in (*["SIGSTOP"] * self._stops, "SIGKILL"):
            self._in_a_row = 0
            while self._in_a_row < SETTLED:
                yield False
            self._safe_at = math.inf
            # Anywhere in a period: asleep, so that this process needs no timer for it.
            time.sleep(self._random.random() * self._period)
            self._hurt_at = time.monotonic()
            os.kill(self._pid, getattr(signal, name))
            while self._safe_at == math.inf and time.monotonic() < self._hurt_at + LONGEST_S:
                yield False
            waited = self._safe_at - self._hurt_at
            self._found[name].append(waited if math.isfinite(waited) else math.nan)
            if name == "SIGSTOP":
                os.kill(self._pid, signal.SIGCONT)

    def _on_command(self, message: Float64MultiArray) -> None:
        safe = bool(message.layout.dim) and message.layout.dim[0].label == LABEL
        self._in_a_row = 0 if safe else self._in_a_row + 1
        if safe and self._safe_at == math.inf:
            self._safe_at = time.monotonic()


main = partial(run_node, WatchdogSource)

if __name__ == "__main__":
    sys.exit(main())
