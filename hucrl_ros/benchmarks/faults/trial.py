"""What came of one fault."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hucrl_ros.benchmarks.results import QUANTILES, Tail

LOSS_S = 0.1
"""[s] What happened in so long before a fault may be missing in a bag that it cut off."""


class Trial(NamedTuple):
    """One fault, and the session of a run that it hit."""

    fault: str
    node: str
    mode: str
    phase: str
    """Part of the run in which it came."""
    after_s: float
    """From the start of `hucrl up` [s]."""
    safe_s: float
    """From the fault to the next safe command at the robot [s]; NaN: none came."""
    told: str
    """The last line that the user saw; empty: none that the session ended with."""
    commands: int
    """That came to the robot in the session [1]."""
    unsafe: int
    """Of these, beyond the limits, not finite, or of another length [1]."""
    lost: int
    """Ticks from before the last 0.1 s ahead of the fault that no bag holds [1]."""
    defects: tuple[str, ...]
    """What mustn't be, one line each."""
    awaited: bool = False
    """In an episode in real time, once the robot was commanded, a safe command had to come."""
    finished: bool = False
    """With `--resume`, the run came to its end."""
    identical: bool | None = None
    """The finished run is that without a fault, to the last bit; None: nobody looked."""

    @property
    def wrong(self) -> bool:
        """Whether anything happened that a fault mustn't lead to."""
        return bool(self.defects or self.lost or self.unsafe) or self.identical is False


class FaultRow(NamedTuple):
    """All trials of a fault against a node in one mode."""

    fault: str
    node: str
    mode: str
    trials: int
    phases: str
    """How many of them in which part of a run."""
    awaited: int
    """Those after which the safe command had to come."""
    safe: Tail
    """Time from these to the safe command [ms]; NaN: none came."""
    missing: int
    """Those after which none came."""
    told: str
    """What users saw most often."""
    commands: int
    unsafe: int
    lost: int
    finished: int
    """Trials whose run came to its end with `--resume`."""
    identical: int
    """Trials whose finished run is that without a fault."""
    compared: int
    """Trials whose run was compared."""
    defects: int
    """Trials with something that mustn't be."""

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> "FaultRow":
        """Of at least one trial, all of one fault, node and mode."""
        first = trials[0]
        times = np.array([t.safe_s for t in trials if t.awaited], dtype=float)
        known = times[np.isfinite(times)]
        said = Counter(trial.told for trial in trials if trial.told)
        return cls(
            fault=first.fault,
            node=first.node,
            mode=first.mode,
            trials=len(trials),
            phases=", ".join(f"{n} {p}" for p, n in Counter(t.phase for t in trials).items()),
            awaited=len(times),
            safe=Tail.of(known) if len(known) else Tail(*[math.nan] * len(QUANTILES)),
            missing=len(times) - len(known),
            told=said.most_common(1)[0][0] if said else "",
            commands=sum(trial.commands for trial in trials),
            unsafe=sum(trial.unsafe for trial in trials),
            lost=sum(trial.lost for trial in trials),
            finished=sum(trial.finished for trial in trials),
            identical=sum(trial.identical is True for trial in trials),
            compared=sum(trial.identical is not None for trial in trials),
            defects=sum(bool(trial.defects) for trial in trials),
        )


def rows_of(trials: Sequence[Trial]) -> list[FaultRow]:
    """One for each fault, node and mode, in the order of their first trial."""
    groups: dict[tuple[str, str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.fault, trial.node, trial.mode), []).append(trial)
    return [FaultRow.of(group) for group in groups.values()]
