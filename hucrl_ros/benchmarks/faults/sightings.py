"""What the node `witness` has heard at the robot, as it lies in its file."""

from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SIGHTING = np.dtype([("at", "<f8"), ("stamp_ns", "<i8"), ("step", "<i4"), ("kind", "<i4")])
"""One message: when it came by the machine's steady clock [s], stamp and step of a tick."""
Sightings = NDArray[np.void]


class Kind(IntEnum):
    """What was heard."""

    COMMAND = 0
    """A command within the limits."""
    SAFE = 1
    """The safe command of a robot that takes efforts: none."""
    UNSAFE = 2
    """A command beyond the limits, not finite, or of another length."""
    TICK = 3
    STATE = 4
    """A joint state."""


COMMANDS = (Kind.COMMAND, Kind.SAFE, Kind.UNSAFE)


def sighting(at: float, kind: Kind, stamp_ns: int, step: int) -> bytes:
    """A message as a record of the file."""
    return np.array((at, stamp_ns, step, kind), dtype=SIGHTING).tobytes()


def read_sightings(path: Path) -> Sightings:
    """All records of the file `(N,)`; one that is only half written is left out."""
    data = path.read_bytes() if path.exists() else b""
    return np.frombuffer(data[: len(data) - len(data) % SIGHTING.itemsize], dtype=SIGHTING)


def between(sightings: Sightings, begin: float, end: float) -> Sightings:
    """Those that came from `begin` on and before `end` [s]."""
    return sightings[(sightings["at"] >= begin) & (sightings["at"] < end)]


def of_kind(sightings: Sightings, *kinds: Kind) -> Sightings:
    """Those of some kinds."""
    return sightings[np.isin(sightings["kind"], kinds)]


def time_to_safe(sightings: Sightings, fault: float) -> float:
    """From the moment of the fault to the first safe command after it [s]; NaN: none came."""
    safe = of_kind(sightings[sightings["at"] >= fault], Kind.SAFE)
    return float(safe["at"][0] - fault) if len(safe) else float("nan")


def lost_ticks(
    sightings: Sightings, recorded: set[tuple[int, int]], states: set[int], until: float
) -> int:
    """Ticks heard before `until` of which the bags lack the tick or the joint state answered.

    Args:
        sightings: Of one session, in which no stamp comes twice.
        recorded: Stamp [ns] and step of each tick in its bags.
        states: Stamp [ns] of each joint state in its bags.
        until: What came later may be lost [s].
    """
    ticks = of_kind(sightings[sightings["at"] < until], Kind.TICK)
    heard = zip(ticks["stamp_ns"].tolist(), ticks["step"].tolist(), strict=True)
    return sum(tick not in recorded or tick[0] not in states for tick in heard)
