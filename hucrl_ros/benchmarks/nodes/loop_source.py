"""For `hucrl bench loop`: publishes joint states at a steady rate and times their commands."""

import math
import os
import sys
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
from rclpy.task import Future
from rclpy.timer import Timer
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from hucrl_ros.benchmarks.nodes.episode_logger import EpisodeClient
from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.nodes import realtime, topics
from hucrl_ros.nodes.controller_topics import to_tick
from hucrl_ros.nodes.parameters import own_parameter
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.topics import STEADY, STREAM

SWING = 0.3
"""[rad or m] Amplitude of the joints' motion."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def stolen_s() -> float:
    """Processor time that a hypervisor gave to other machines, since this one started [s]."""
    return float(psutil.cpu_times().steal)


class ProcessUse(NamedTuple):
    """What a process has used since it began."""

    cpu_s: float
    minor_faults: int
    """Pages touched for the first time."""
    rss_mb: float
    """Memory in use [MB]."""

    @classmethod
    def of(cls, pid: int) -> "ProcessUse":
        """See proc(5)."""
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
        return cls(cpu_s, int(fields[7]), int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6)


class LoopSource(EpisodeClient):
    """Publishes as many joint states as an episode has steps, one a control period.

    Parameters: `bundle`, whose manifest says robot, period and steps; `pid` of the controller;
    `priority` for itself, as `control.realtime_priority`; `out`, the file to write.
    """

    def __init__(self, name: str = "loop_source") -> None:
        super().__init__(name)
        manifest = read_manifest(Path(own_parameter(self, "bundle", "")))
        self._pid = own_parameter(self, "pid", 0)
        self._priority = own_parameter(self, "priority", 0)
        self._steps, self._period = manifest.steps, manifest.period
        self._period_ns = round(manifest.period * NANOSECONDS)
        self._message = JointState(name=list(manifest.joint_names))
        self._step = 0
        self._timer: Timer | None = None
        self._commands: deque[tuple[float, list[float]]] = deque()
        self._published = np.full(self._steps, math.nan)
        self._answered = np.full(self._steps, math.nan)
        self._unexpected = 0
        self._states = self.create_publisher(JointState, topics.JOINT_STATES, STREAM)
        listen = self.create_subscription
        listen(Float64MultiArray, topics.COMMANDS, self._on_command, STREAM)
        listen(Float64MultiArray, topics.TICKS, self._on_tick, STREAM)
        self._before = self._after = ProcessUse(0.0, 0, 0.0)
        self._stolen = 0.0

    def ready(self) -> bool:
        """The controller subscribes to joint states and publishes commands and ticks."""
        heard = (topics.COMMANDS, topics.TICKS)
        return self._states.get_subscription_count() > 0 and all(
            self.count_publishers(topic) > 0 for topic in heard
        )

    def prepare(self) -> Future | None:
        """Take the real-time priority and stop garbage collection."""
        realtime.prepare(
            ControlSettings(realtime_priority=self._priority, lock_memory=self._priority > 0)
        )
        realtime.pause_garbage_collection()
        return None

    def begin(self) -> None:
        """Start the clock."""
        self._before, self._stolen = ProcessUse.of(self._pid), stolen_s()
        self._timer = self.create_timer(self._period, self._publish, clock=STEADY)

    def result(self) -> dict[str, object]:
        """Times by step [s]; NaN where no command came."""
        assert self._timer is not None
        self._timer.cancel()
        final_commands = 1  # the one that ends the episode belongs to no tick
        return {
            "published": self._published.tolist(),
            "answered": self._answered.tolist(),
            "unexpected_commands": self._unexpected + len(self._commands) - final_commands,
            "cpu_s": self._after.cpu_s - self._before.cpu_s,
            "minor_faults": self._after.minor_faults - self._before.minor_faults,
            "stolen_s": stolen_s() - self._stolen,
            "rss_mb": [self._before.rss_mb, self._after.rss_mb],
        }

    def _publish(self) -> None:
        # The controller counts only states that it has read, so its episode may end after ours.
        step, self._step = self._step, self._step + 1
        joints = len(self._message.name)
        phase = 2 * math.pi * step * self._period
        self._message.position = [SWING * math.sin(phase + joint) for joint in range(joints)]
        self._message.velocity = [
            2 * math.pi * SWING * math.cos(phase + joint) for joint in range(joints)
        ]
        stamp_ns = (step + 1) * self._period_ns
        stamp = self._message.header.stamp
        stamp.sec, stamp.nanosec = divmod(stamp_ns, NANOSECONDS)
        if step == self._steps:
            self._after = ProcessUse.of(self._pid)
        if step < self._steps:
            self._published[step] = time.monotonic()
        self._states.publish(self._message)

    def _on_command(self, message: Float64MultiArray) -> None:
        self._commands.append((time.monotonic(), list(message.data)))

    def _on_tick(self, message: Float64MultiArray) -> None:
        tick = to_tick(message)
        step = round(tick.stamp_ns / self._period_ns) - 1
        while self._commands:
            arrived, effort = self._commands.popleft()
            if effort == list(tick.action):
                break
            self._unexpected += 1  # of no joint state: it was sent because none came
        else:
            return
        if step < self._steps:
            self._answered[step] = arrived


main = partial(run_node, LoopSource)

if __name__ == "__main__":
    sys.exit(main())
