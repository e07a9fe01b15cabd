"""From a bag to what its commands were computed from, tick by tick."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hucrl_ros.bags.contents import about, read_contents
from hucrl_ros.bags.decode import by_clock_of_ticks, decode_poses, told_setup
from hucrl_ros.bags.messages import RawMessage, deserialize, stamp_ns
from hucrl_ros.config.files import checked
from hucrl_ros.controller.setup import Setup
from hucrl_ros.controller.state_reader import JointReading, PoseBuffer
from hucrl_ros.controller.ticks import NANOSECONDS, TickRecord, decode_decided, decode_tick
from hucrl_ros.controller.topics import GOAL, JOINT_STATES, OBJECT_POSE, SETUP, TICKS
from hucrl_ros.errors import BagError

MOST = 1e5
"""Of iterations, periods, silences in a tick."""


class PlayedTick(NamedTuple):
    """A tick, and the joint state that it answered."""

    record: TickRecord
    decided: Mapping[str, float]
    """What time decided, see `controller.ticks.DECIDED`."""
    reading: JointReading | None
    """None: the bag lacks it."""


class Played(NamedTuple):
    """What a bag tells of how an episode was played."""

    setups: list[Setup]
    """In order, the first for step 0."""
    ticks: list[PlayedTick]
    """In the order of their steps."""
    poses: PoseBuffer
    """What was recorded of object and goal."""


def read_played(path: Path) -> Played:
    """Read a bag's folder, or an MCAP file, also one that was cut off.

    Raises:
        BagError: it is damaged, holds no tick, or doesn't tell how its ticks were computed.
    """
    with about(path):
        return _played(path, read_contents(path).messages)


def _played(path: Path, messages: list[RawMessage]) -> Played:
    heard = {
        name: [message for message in messages if message.is_of(name)]
        for name in (JOINT_STATES, OBJECT_POSE, GOAL, TICKS, SETUP)
    }
    told = {}
    for raw in heard[TICKS]:
        record, decided = _tick(path, raw)
        told[record.step] = record, decided
    if not told:
        raise BagError(f"{path}: holds no tick of a controller, so there is nothing to recompute")
    setups = _setups(path, heard[SETUP])
    ticks = [told[step] for step in sorted(told)]
    stamps = [record.stamp_ns for record, _ in ticks]
    period = float(np.median(np.diff(stamps))) / NANOSECONDS if len(stamps) > 1 else 0.0
    joint_states = by_clock_of_ticks(heard[JOINT_STATES], heard[TICKS], period)
    readings = _readings(joint_states)
    played = [
        PlayedTick(record, decided, readings.get(record.stamp_ns)) for record, decided in ticks
    ]
    poses = decode_poses(heard[OBJECT_POSE], heard[GOAL], joint_states, stamps[0], period)
    return Played(setups, played, poses)


def _readings(messages: list[RawMessage]) -> dict[int, JointReading]:
    """Joint states by their stamps; of several with one stamp the first was answered."""
    found: dict[int, JointReading] = {}
    for raw in messages:
        message = deserialize(raw.data, raw.type)
        stamp = stamp_ns(message.header)
        positions, velocities = message.position.tolist(), message.velocity.tolist()
        found.setdefault(stamp, JointReading(message.name, positions, velocities, stamp))
    return found


def _tick(path: Path, raw: RawMessage) -> tuple[TickRecord, dict[str, float]]:
    message = deserialize(raw.data, raw.type)
    labels, data = [each.label for each in message.layout.dim], message.data.tolist()
    record, decided = decode_tick(labels, data), decode_decided(labels, data)
    for label, value in decided.items():
        if not abs(value) <= MOST and not label.startswith("state_"):
            raise BagError(f"{path}: {TICKS}: {label} = {value}: at most {MOST:g}")
    return record, decided


def _setups(path: Path, messages: list[RawMessage]) -> list[Setup]:
    """Those of the bag's episode: a bag begins with what was latched before."""
    setups: list[Setup] = []
    for raw in messages:
        told = told_setup(raw)
        if told is None:
            raise BagError(f"{path}: {SETUP}: not what a controller says")
        setup = checked(Setup, told, f"{path}: {SETUP}", BagError)
        setups = [setup] if setup.step == 0 else [*setups, setup]
    if not setups or setups[0].step:
        raise BagError(
            f"{path}: {SETUP} is missing, which tells bundle, seed and settings; bags recorded "
            "before there was `hucrl replay` haven't got it"
        )
    return setups
