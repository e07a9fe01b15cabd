"""Control ticks: what is told of one on `controller/ticks`, and what a controller counts.

Nodes, bags and scripts share this one definition of field names, encoding and decoding.
"""

import math
import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.errors import MessageError, shortened

NANOSECONDS = 1_000_000_000


class TickRecord(NamedTuple):
    """One control tick."""

    stamp_sec: int
    """Stamp of the joint state answered: whole seconds."""
    stamp_nanosec: int
    """Stamp of the joint state answered: the rest [ns]."""
    step: int
    """Number of the tick in the episode, from 0."""
    tick_ms: float
    """From receipt of the joint state to publication of the command [ms]."""
    source: int
    """0 planned, 1 previous plan shifted, 2 policy, 3 random, 4 safe."""
    missed: bool
    """The tick took longer than the control period."""
    clamped: bool
    """The guard changed the command."""
    filtered: int
    """Number, from 1, of the constraint for which the action was changed; 0: it wasn't."""
    iterations: int
    """Planner iterations done in this tick."""
    planned_return: float
    """Return that the plan is predicted to have from here, not bounded by the episode's end."""
    epistemic_std: float
    """Mean over state entries, in standard deviations of the normalised targets."""
    aleatoric_std: float
    """Mean over state entries, in standard deviations of the normalised targets."""
    hallucination: float
    """Mean |η|."""
    surprise: float
    """Of the last transitions, see `controller.surprise.Surprise.value` [standard deviations]."""
    action: tuple[float, ...]
    """Efforts as sent, in the order of `actuated_joints` [N m or N]."""

    @property
    def stamp_ns(self) -> int:
        """Stamp of the joint state answered [ns]."""
        return self.stamp_sec * NANOSECONDS + self.stamp_nanosec


SCALAR_FIELDS: tuple[str, ...] = TickRecord._fields[:-1]
"""Names of the entries before the action, in order."""
LARGEST_COUNT = 2**31
"""Of whole numbers in a tick."""
LATER: dict[str, float] = {"filtered": 0.0, "surprise": math.nan}
"""Entries that ticks recorded before them lack, and what holds there."""
DECIDED = {
    "in_force_": "control periods that each command acts until this tick's does, newest last",
    "state_": "entry of the state that its joint state doesn't tell; none where it made no sense",
    "bias_": "what was added to that entry of each predicted state that the plan begins after",
    "silences": "safe commands since the last tick, as no joint state came",
    "heard_": "entry of what somebody else has sent, in the order of the looks for it: before each"
    " of these safe commands, before this tick's action was chosen, and when it was",
    "granted": "iterations allowed, where the plan doesn't tell; -1: planning went on beyond this "
    "tick; -2: it never began",
    "late": "iterations allowed to the plan that an earlier tick began and this one took over",
    "fans": "fans that the safety filter had time for, where it would have asked for more",
}
"""Further entries of a tick in real time, each only where it tells anything: what time decided,
so that a bag tells all that a command depends on. `_`: a number follows."""
_DECIDED = re.compile("|".join(k + "[0-9]{1,4}" * k.endswith("_") for k in DECIDED))
LATE, NEVER_BEGUN = -1, -2


def tick_labels(action_dim: int) -> tuple[str, ...]:
    """Names of all entries of a tick message of a robot with `action_dim` efforts."""
    return (*SCALAR_FIELDS, *(f"action_{i}" for i in range(action_dim)))


def encode_tick(tick: TickRecord) -> list[float]:
    """Data of a tick message, in the order of `tick_labels(len(tick.action))`."""
    return [float(value) for value in (*tick[:-1], *tick.action)]


def decode_decided(labels: Sequence[str], data: Sequence[float]) -> dict[str, float]:
    """The entries `DECIDED` of a tick that `decode_tick` takes."""
    told = zip(labels, data, strict=True)
    return {label: value for label, value in told if _DECIDED.fullmatch(label)}


def numbered(decided: Mapping[str, float], kind: str) -> dict[int, float]:
    """The entries of one kind of `DECIDED` that has numbers, by these, in their order."""
    found = {int(k.removeprefix(kind)): v for k, v in decided.items() if k.startswith(kind)}
    return dict(sorted(found.items()))


def decode_tick(labels: Sequence[str], data: Sequence[float]) -> TickRecord:
    """A tick from a message's labels and data, in whatever order they came.

    Raises:
        MessageError: labels and data don't match, a field is missing, or a number makes no sense.
    """
    if len(labels) != len(data):
        raise MessageError(f"controller/ticks: {len(labels)} labels for {len(data)} values")
    values = {**LATER, **dict(zip(labels, data, strict=True))}
    action_dim = sum(label.startswith("action_") for label in labels)
    missing = [label for label in tick_labels(action_dim) if label not in values]
    if missing:
        among = shortened(", ".join(labels), 1000)
        raise MessageError(f"controller/ticks: no field {missing[0]!r} among {among}")
    kinds = TickRecord.__annotations__
    # A comparison with NaN is false.
    counts = {name: values[name] for name in SCALAR_FIELDS if kinds[name] is not float}
    acted = {f"action_{i}": values[f"action_{i}"] for i in range(action_dim)}
    for name, value in counts.items():
        if not (abs(value) < LARGEST_COUNT and value == int(value)):
            raise MessageError(f"controller/ticks: {name} is {value}; expected a whole number")
    for name, value in acted.items():
        if not math.isfinite(value):
            raise MessageError(f"controller/ticks: {name} is {value}; expected a finite number")
    if values["source"] not in list(Source):
        raise MessageError(f"controller/ticks: source {values['source']}; known: {list(Source)}")
    scalars = {name: kinds[name](values[name]) for name in SCALAR_FIELDS}
    return TickRecord(**scalars, action=tuple(acted.values()))


class Source(IntEnum):
    """Where an action came from."""

    PLANNED = 0
    PREVIOUS = 1
    """The previous tick's plan, shifted."""
    POLICY = 2
    RANDOM = 3
    SAFE = 4
    """No effort."""


class Tick(NamedTuple):
    """An action and what is known of it. A number that doesn't exist is NaN."""

    action: NDArray[np.float64]
    """`(q,)` efforts [N m or N], within the limits."""
    source: Source
    iterations: int
    """Planner iterations done in this tick."""
    planned_return: float
    """Discounted return predicted for the plan, with the critic of its last state."""
    hallucination: float
    """Mean |η| of the first step; 0 for a strategy without it."""
    optimistic: NDArray[np.float32] | None
    """`(H + 1, p)` trajectory that the plan imagines."""
    overrun: bool = False
    """The plan was not ready at the tick's deadline."""
    filtered: int = 0
    """Number, from 1, of the constraint for which the action was changed; 0: it wasn't."""
    proved: bool | None = None
    """Whether the filter knows how to stop the robot afterwards; None: none looked."""
    decided: Mapping[str, float] = MappingProxyType({})
    """What time decided of the planning, where `iterations` doesn't tell; see `DECIDED`."""


RECENT_TICKS = 1000


@dataclass
class Counters:
    """What happened since the controller started."""

    ticks: int = 0
    sources: Counter[Source] = field(default_factory=Counter)
    misses: int = 0
    clamps: int = 0
    filtered: int = 0
    """Ticks whose action the safety filter or the braking rule changed."""
    unproved: int = 0
    """Ticks in which the filter had no proof that the robot can be stopped within bounds."""
    bad_joint_states: int = 0
    repeated_joint_states: int = 0
    skipped_joint_states: int = 0
    """Control periods without a joint state, by the stamps: lost, or overtaken by a newer one."""
    overruns: int = 0
    """Ticks whose plan was not ready at their deadline; they sent the previous plan, or π(s)."""
    stale_commands: int = 0
    """Safe commands sent because no joint state came."""
    compensated: int = 0
    """Ticks that planned from where the robot would be when the command took effect."""
    wary: int = 0
    """Ticks at which the robot didn't do what the bundle claims."""
    surprise_level: int = 0
    """`controller.surprise.Level` of the last tick."""
    surprise: float = math.nan
    """That of the last tick."""
    delay_ms: float = 0.0
    """Expected from the receipt of a joint state until its command takes effect."""
    tick_ms: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_TICKS))

    def count(self, record: TickRecord, tick: Tick, delay_s: float, level: int = 0) -> None:
        """Take in a tick.

        Args:
            record: What is told of it.
            tick: What the agent knows of it.
            delay_s: Expected from now on until a command takes effect [s].
            level: `Level` of the surprise.
        """
        self.ticks += 1
        self.sources[Source(record.source)] += 1
        self.misses += record.missed
        self.clamps += record.clamped
        self.filtered += record.filtered > 0
        self.unproved += tick.proved is False
        self.overruns += tick.overrun
        self.tick_ms.append(record.tick_ms)
        self.delay_ms = 1e3 * delay_s
        self.surprise, self.surprise_level = record.surprise, int(level)
        self.wary += level > 0

    def values(self) -> dict[str, object]:
        """By name, for `/diagnostics`; tick times over the last `RECENT_TICKS` ticks."""
        p50, p99 = np.percentile(self.tick_ms, [50, 99]) if self.tick_ms else (0.0, 0.0)
        sources = {f"ticks_{source.name.lower()}": self.sources[source] for source in Source}
        measured = {"delay_ms": self.delay_ms, "tick_p50_ms": p50, "tick_p99_ms": p99}
        return {
            "ticks": self.ticks,
            **sources,
            **{name: value for name, value in vars(self).items() if isinstance(value, int)},
            "surprise": f"{self.surprise:.3f}",
            **{name: f"{value:.3f}" for name, value in measured.items()},
        }
