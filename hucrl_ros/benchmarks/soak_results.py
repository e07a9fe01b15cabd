"""What `hucrl bench soak` finds: what grew, and whose a late command was."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import theilslopes

from hucrl_ros.benchmarks.bare_loop import BareLoop
from hucrl_ros.benchmarks.process_samples import Sample
from hucrl_ros.benchmarks.results import Tail, known

Array = NDArray[np.float64]
WARM_UP = 0.1
"""Share of the time, at its beginning, that counts for no growth."""
MEMORY_MB = 1.0
"""[MB] What memory may differ by between the first and the last quarter: allocators aren't
exact."""
MEMORY = ("rss_mb", "uss_mb")
HOST_SHARE = 0.25
"""[control periods] A bare loop that is later than this was held up by the machine."""


class Growth(NamedTuple):
    """One quantity of one process over the hours."""

    process: str
    quantity: str
    """A field of `Sample`."""
    first: float
    """Median of the first quarter after warming up; of counts the least, which processes that
    come and go don't change."""
    last: float
    """The same of the last quarter."""
    hourly: float
    """Theil-Sen slope [1/h]."""
    hourly_low: float
    """Of its 95% interval."""
    hourly_high: float
    """Of its 95% interval."""

    @classmethod
    def of(cls, process: str, quantity: str, times: Array, values: Array) -> "Growth":
        """From samples `(n,)` at `times` [s], n at least 1."""
        settled = times >= times[0] + WARM_UP * (times[-1] - times[0])
        times, values = times[settled] / 3600, values[settled]
        quarter = max(len(values) // 4, 1)
        middle = np.median if quantity in MEMORY else np.min
        slope, low, high = 0.0, math.nan, math.nan
        if len(values) > 2:
            found = theilslopes(values, times)
            slope, low, high = found.slope, found.low_slope, found.high_slope
        return cls(
            process=process,
            quantity=quantity,
            first=round(float(middle(values[:quarter])), 3),
            last=round(float(middle(values[-quarter:])), 3),
            hourly=round(float(slope), 3),
            hourly_low=round(float(low), 3),
            hourly_high=round(float(high), 3),
        )

    @property
    def grew(self) -> bool:
        """Whether it is more in the end than chance or an allocator explains."""
        if self.quantity in MEMORY:
            return self.last > self.first + MEMORY_MB and self.hourly_low > 0
        return self.last > self.first

    def __str__(self) -> str:
        name, _, unit = self.quantity.partition("_")
        unit = f" {unit.upper()}" if unit else ""
        name = name.upper() if unit else name
        return (
            f"{self.process}: {name} +{self.last - self.first:.3g}{unit} "
            f"({self.hourly:.3g} [{self.hourly_low:.3g}, {self.hourly_high:.3g}] an hour)"
        )


def growths(
    times: Mapping[str, Sequence[float]], samples: Mapping[str, Sequence[Sample]]
) -> list[Growth]:
    """Of each process and each quantity."""
    return [
        Growth.of(process, quantity, np.array(times[process]), values)
        for process, own in samples.items()
        if own
        for quantity, values in zip(Sample._fields, np.array(own, float).T, strict=True)
    ]


class PaceRow(NamedTuple):
    """How late something was, over the hours."""

    what: str
    times: int
    time: Tail
    first_worst_ms: float
    """`Tail.worst` of the first quarter [ms]."""
    last_worst_ms: float
    """`Tail.worst` of the last quarter [ms]."""
    missed: int
    """Later than a control period."""
    host: int
    """Of those, while the bare loop was held up, too."""

    @classmethod
    def of(cls, what: str, period: float, due: Array, late: Array, bare: BareLoop) -> "PaceRow":
        """From moments `due` `(n,)` and how late each was `(n,)`; NaN: it never came [s]."""
        known = late[np.isfinite(late)]
        quarter = max(len(known) // 4, 1)
        missed = ~(late <= period)
        return cls(
            what=what,
            times=len(late),
            time=Tail.of(known),
            first_worst_ms=Tail.of(known[:quarter]).worst,
            last_worst_ms=Tail.of(known[-quarter:]).worst,
            missed=int(missed.sum()),
            host=int(held_up(bare, period, due[missed], late[missed]).sum()),
        )


def held_up(bare: BareLoop, period: float, due: Array, late: Array) -> NDArray[np.bool_]:
    """Whether the machine held up the bare loop while each of `(n,)` was on its way.

    Args:
        bare: The loop beside it.
        period: Control period [s].
        due: When each began `(n,)` [s].
        late: How long each took `(n,)`; NaN: it never came, so its own period counts [s].
    """
    hiccups = bare.late > HOST_SHARE * period
    begins, ends = bare.due[hiccups], (bare.due + bare.late)[hiccups]
    until = due + np.where(np.isfinite(late), late, period)
    spans = zip(due, until, strict=True)
    met = [bool(np.any((begins < stop) & (ends > start))) for start, stop in spans]
    return np.array(met, dtype=bool)


class Soak(NamedTuple):
    """Everything that was found."""

    task: str
    rate: float
    """[Hz]"""
    minutes: float
    priority: int
    realtime: bool
    """Whether SCHED_FIFO was allowed."""
    swaps: int
    """Bundles that the controller took."""
    refused: int
    """Bundles that it refused or never answered."""
    stolen_s: float
    """Processor time that a hypervisor gave to others [s]."""
    paces: list[PaceRow]
    growths: list[Growth]

    @property
    def verdict(self) -> str:
        """What grew, in one line."""
        grew = [str(each) for each in self.growths if each.grew]
        return f"grew: {'; '.join(grew)}" if grew else "nothing grew"

    def as_json(self) -> dict[str, Any]:
        """Flat objects in lists."""
        own = self._asdict()
        own["paces"] = [
            {
                **{name: known(value) for name, value in row._asdict().items()},
                "time": row.time.numbers(),
            }
            for row in self.paces
        ]
        own["growths"] = [
            {**{name: known(value) for name, value in each._asdict().items()}, "grew": each.grew}
            for each in self.growths
        ]
        return {**own, "verdict": self.verdict}
