"""Which faults are tried, against whom, in which part of a run, and in which mode."""

from collections.abc import Sequence
from typing import NamedTuple

from hucrl_ros.benchmarks.faults.disks import FullDisk, ReadOnlyDisk
from hucrl_ros.benchmarks.faults.fault import MODES, Fault
from hucrl_ros.benchmarks.faults.messages import MESSAGES
from hucrl_ros.benchmarks.faults.network import CorruptedBytes, Cut
from hucrl_ros.benchmarks.faults.played_run import PHASES
from hucrl_ros.benchmarks.faults.processes import FileSize, Hog, Kill, Memory, Stop
from hucrl_ros.errors import ConfigError

FAULTS: tuple[type[Fault], ...] = (
    Kill,
    Stop,
    Hog,
    Memory,
    FileSize,
    FullDisk,
    ReadOnlyDisk,
    *MESSAGES,
    Cut,
    CorruptedBytes,
)
"""By their `name`, which may be written with `_` in the place of spaces."""
PARTS = tuple(name for name in dict.fromkeys(PHASES.values()) if name != "end")
"""Of a run, in which a fault can come."""


class Case(NamedTuple):
    """One fault to try."""

    fault: type[Fault]
    node: str
    phase: str
    mode: str

    def __str__(self) -> str:
        return f"{self.fault.name}, {self.node}, {self.phase}, {self.mode.replace('_', ' ')}"


def cases(only: Sequence[str], phases: Sequence[str], modes: Sequence[str]) -> list[Case]:
    """Every fault against each of its nodes, phases and modes, lockstep first.

    Args:
        only: `FAULT` or `NODE:FAULT`, of which others are left out; none: all are tried.
        phases: Of `PARTS`.
        modes: Of `MODES`.

    Raises:
        ConfigError: one of `only` is no fault, or no node that it can hit.
    """
    chosen = _chosen(only)
    return [
        Case(fault, node, phase, mode)
        for mode in MODES
        if mode in modes
        for fault in FAULTS
        if mode in fault.modes
        for node in fault.nodes
        if (fault, node) in chosen
        for phase in phases
    ]


def _chosen(only: Sequence[str]) -> set[tuple[type[Fault], str]]:
    every = {(fault, node) for fault in FAULTS for node in fault.nodes}
    if not only:
        return every
    chosen = set()
    for word in only:
        node, _, name = word.rpartition(":")
        found = {
            (fault, at)
            for fault, at in every
            if written(fault.name) == written(name) and written(node) in ("", written(at))
        }
        if not found:
            raise ConfigError(f"--only {word}: {_accepted(name)}")
        chosen |= found
    return chosen


def _accepted(name: str) -> str:
    fault = next((f for f in FAULTS if written(f.name) == written(name)), None)
    if fault is None:
        return f"expected FAULT or NODE:FAULT, one of {', '.join(written(f.name) for f in FAULTS)}"
    return f"{fault.name} hits {', '.join(map(written, fault.nodes))}"


def written(name: str) -> str:
    """A name as a word of a command line."""
    return name.lower().replace(" ", "_")
