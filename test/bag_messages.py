"""Builds recorded messages and bags for the tests."""

import math
from collections.abc import Sequence
from pathlib import Path

from hucrl_ros.bags import messages
from hucrl_ros.bags.messages import Message, boolean, floats, typestore
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.bags.writer import EpisodeWriter
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.controller.ticks import TickRecord
from hucrl_ros.controller.topics import (
    ACTIVE,
    COMMANDS,
    GOAL,
    JOINT_STATES,
    OBJECT_POSE,
    RECORDED,
    TICKS,
    TRIPPED,
)
from hucrl_ros.errors import BagError

TOPICS = tuple(topic._replace(name=f"/{topic.name}") for topic in RECORDED)


def joint_state(
    stamp_ns: int,
    positions: Sequence[float],
    velocities: Sequence[float],
    efforts: Sequence[float] = (),
    names: Sequence[str] = ("pendulum_joint",),
) -> Message:
    return messages.joint_state(stamp_ns, names, positions, velocities, efforts)


def pose(stamp_ns: int, position: Sequence[float], frame: str = "world") -> Message:
    return messages.pose(stamp_ns, position, frame)


def tick(
    stamp_ns: int,
    step: int,
    action: Sequence[float],
    tick_ms: float = 1.5,
    surprise: float = math.nan,
) -> Message:
    record = TickRecord(
        *divmod(stamp_ns, 10**9),
        step=step,
        tick_ms=tick_ms,
        source=0,
        missed=step == 3,
        clamped=False,
        filtered=False,
        iterations=2,
        planned_return=10.0,
        epistemic_std=0.1,
        aleatoric_std=0.2,
        hallucination=0.5,
        surprise=surprise,
        action=tuple(action),
    )
    return messages.tick(record)


def diagnostic(level: int, message: str) -> Message:
    return typestore().types["diagnostic_msgs/msg/DiagnosticStatus"](level, "", message, "", [])


class Recording:
    """An `EpisodeWriter` with its own clock: each message arrives 1 ms after the one before."""

    def __init__(self, folder: Path) -> None:
        self.writer = EpisodeWriter(folder, TOPICS)
        self.now_ns = 1_700_000_000_000_000_000

    def add(self, topic: str, message: Message) -> None:
        self.now_ns += 1_000_000
        self.writer.write(f"/{topic}", message, self.now_ns)


def record_episode(
    folder: Path, steps: int, period_ns: int = 12_500_000, report_effort: bool = True
) -> Recording:
    """State k is (k, -k), action k is k / 1000; the bag is left open.

    Two states come before the first tick; one state is repeated.
    """
    recording = Recording(folder)
    start = 10 * period_ns
    for k in (-2, -1):
        recording.add(JOINT_STATES, joint_state(start + k * period_ns, [9.0], [9.0], [0.0]))
    recording.add(ACTIVE, boolean(True))
    for k in range(steps + 1):
        stamp = start + k * period_ns
        effort = [(k - 1) / 1000] if report_effort else []
        recording.add(JOINT_STATES, joint_state(stamp, [k], [-k], effort))
        if k == 2:
            recording.add(JOINT_STATES, joint_state(stamp, [k], [-k], effort))
        if k < steps:
            recording.add(COMMANDS, floats([k / 1000]))
            recording.add(TICKS, tick(stamp, k, [k / 1000]))
    recording.add(ACTIVE, boolean(False))
    return recording


__all__ = [
    "ACTIVE",
    "COMMANDS",
    "GOAL",
    "JOINT_STATES",
    "OBJECT_POSE",
    "TICKS",
    "TRIPPED",
    "Recording",
    "boolean",
    "diagnostic",
    "floats",
    "joint_state",
    "pose",
    "record_episode",
    "tick",
]


def actions_so_far(bag: Path, spec: RobotSpec, steps: int) -> int:
    """How many actions of an episode are in an open bag."""
    try:
        return len(read_episode(bag, spec, steps).actions)
    except BagError:  # none yet
        return 0
