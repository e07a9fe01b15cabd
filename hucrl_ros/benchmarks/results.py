"""What benchmarks measure: rows as they come, and scores over several of them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.experiments.statistics import Interval, mean_interval

Array = NDArray[np.float64]
QUANTILES = (50.0, 99.0, 99.9, 100.0)
ENOUGH = 1000
"""Times of which one in a thousand can be told."""
FALLBACKS = ("ticks_previous", "ticks_policy", "ticks_safe")
POLICY = "policy"
"""The planner that the others are compared with: π alone."""
FILE_NAMES = {"background_load": "hog", "peak_gflops": "yardstick_gflops"}
"""Fields that have another name in files, as they always had."""


class TickRow(NamedTuple):
    """Planning ticks of one size; times in ms, rates in 1e9 operations a second."""

    system: str
    heads: int
    layers: list[int]
    particles: int
    horizon: int
    iterations: int
    noise_draws: int
    engine: str
    threads: int
    ticks: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    gflops: float
    peak_gflops: float
    share: float
    """`gflops` over `peak_gflops` [1]."""
    filter_ms: float | None
    """Median of what the safety filter took on top; None: the robot has no constraints."""

    @property
    def case(self) -> tuple[str, str]:
        """Model and size, for people."""
        model = f"{self.system} {self.heads}x[{','.join(map(str, self.layers))}]"
        size = f"{self.particles}x{self.horizon}x{self.iterations}"
        return model, f"{size}, {self.noise_draws} draws"


class Tail(NamedTuple):
    """Quantiles of a distribution [ms]; NaN where nothing was measured."""

    p50: float
    p99: float
    p999: float
    """NaN of fewer than `ENOUGH` times, too."""
    max: float

    @classmethod
    def of(cls, seconds: Array) -> "Tail":
        """Quantiles of times [s]."""
        if not len(seconds):
            return cls(*[math.nan] * len(QUANTILES))
        tail = cls(*(round(1e3 * float(q), 4) for q in np.percentile(seconds, QUANTILES)))
        return tail if len(seconds) >= ENOUGH else tail._replace(p999=math.nan)

    @property
    def worst(self) -> float:
        """p99.9, or the largest where that isn't known [ms]."""
        return self.p999 if math.isfinite(self.p999) else self.max

    def numbers(self) -> dict[str, float | None]:
        """For CSV and JSON; None: not known."""
        return {
            name: time if math.isfinite(time) else None for name, time in self._asdict().items()
        }

    def __str__(self) -> str:
        return " / ".join(f"{time:.2f}" if math.isfinite(time) else "–" for time in self)


class LoopRow(NamedTuple):
    """One episode of joint states and commands between two processes."""

    task: str
    rate: float
    """[Hz]"""
    planning: str
    priority: int
    background_load: bool
    """One core was busy beside them."""
    states: int
    latency: Tail
    """From publishing a joint state to receiving its command."""
    jitter: Tail
    """Difference between the interval of two successive commands and the period."""
    first_ms: float
    """Latency of the first joint state of the episode."""
    missed: int
    """Joint states whose command wasn't back before the next one was due."""
    skipped: int
    """Joint states that were overtaken by a newer one, of those missed."""
    replaced: int
    """Ticks that sent the previous plan, π(s) or the safe command where planning is on."""
    overruns: int
    """Ticks whose plan wasn't ready at their deadline, of those."""
    unexpected: int
    """Commands without a joint state."""
    cpu: float
    """Share of a core that the controller used [1]."""
    stolen_s: float
    """Processor time that a hypervisor gave to other machines meanwhile [s]."""
    minor_faults: int
    rss_growth_mb: float
    latencies: Array
    """`(states,)` [s]; NaN where no command came."""

    @classmethod
    def of(
        cls,
        task: str,
        rate: float,
        planning: str,
        priority: int,
        background_load: bool,
        raw: Mapping[str, Any],
    ) -> "LoopRow":
        """From what the node `loop_source` has written."""
        published, answered = np.array(raw["published"]), np.array(raw["answered"])
        latencies = answered - published
        jitter = np.abs(np.diff(answered) - 1 / rate)
        counted = {key: int(value) for key, value in raw["diagnostics"].items() if value.isdigit()}
        return cls(
            task=task,
            rate=round(rate, 4),
            planning=planning,
            priority=priority,
            background_load=background_load,
            states=len(published),
            latency=Tail.of(latencies[np.isfinite(latencies)]),
            jitter=Tail.of(jitter[np.isfinite(jitter)]),
            first_ms=round(1e3 * float(latencies[0]), 4),
            missed=int(np.sum(~(latencies <= 1 / rate))),
            skipped=int(np.isnan(latencies).sum()),
            replaced=0 if planning == "off" else sum(counted[key] for key in FALLBACKS),
            overruns=counted["overruns"],
            unexpected=int(raw["unexpected_commands"]),
            cpu=round(float(raw["cpu_s"]) * rate / len(published), 4),
            stolen_s=round(float(raw["stolen_s"]), 4),
            minor_faults=int(raw["minor_faults"]),
            rss_growth_mb=round(float(raw["rss_mb"][1] - raw["rss_mb"][0]), 4),
            latencies=latencies,
        )


class DelayRow(NamedTuple):
    """One episode with commands that act late."""

    bundle: str
    delay_ms: float
    """From the sending of a command until it acts [ms]."""
    tick_ms: float
    """Median from a joint state to its command [ms]."""
    compensation: str
    """Setting `control.latency_compensation`."""
    seed: int
    return_: float
    compensated: float
    """Share of the ticks that planned from a predicted state [1]."""


class DelayScore(NamedTuple):
    """All episodes with one delay and one setting."""

    delay_ms: float
    compensation: str
    return_: Interval
    worst: float
    """Lowest return."""
    compensated: float
    """Mean share of ticks that planned from a predicted state [1]."""


def delay_scores(rows: Sequence[DelayRow]) -> list[DelayScore]:
    """One for each delay and setting, in the order of their first appearance."""
    found = []
    for delay, mode in dict.fromkeys((row.delay_ms, row.compensation) for row in rows):
        same = [row for row in rows if (row.delay_ms, row.compensation) == (delay, mode)]
        returns = np.array([row.return_ for row in same])
        share = float(np.mean([row.compensated for row in same]))
        found.append(DelayScore(delay, mode, mean_interval(returns), float(returns.min()), share))
    return found


class Size(NamedTuple):
    """How much of the model a tick may imagine."""

    particles: int
    iterations: int

    def __str__(self) -> str:
        return f"{self.particles}x{self.iterations}"


class PlannerRow(NamedTuple):
    """One episode of a planner."""

    bundle: str
    planner: str
    particles: int
    iterations: int
    """Allowed in a tick."""
    budget_ms: float
    """Time for planning in a tick [ms]; 0: no limit."""
    seed: int
    return_: float
    tick_p50_ms: float
    tick_p99_ms: float
    done: float
    """Mean iterations done in a tick."""
    unplanned: float
    """Share of the ticks that had no plan."""


class PlannerScore(NamedTuple):
    """A planner of one size and budget, over the seeds and perhaps over bundles."""

    planner: str
    size: Size
    budget_ms: float | None
    """None: no limit."""
    return_: Interval
    gain: Interval
    """Return minus that of the policy alone, with the same bundle and seed."""
    tick_p50_ms: float
    """Median over the episodes."""
    tick_p99_ms: float
    """Median over the episodes."""
    iterations_done: float
    unplanned: float
    """Mean share of the ticks that had no plan."""


def planner_scores(rows: Sequence[PlannerRow]) -> list[PlannerScore]:
    """One score for each planner, size and budget, in the order of the rows."""
    policy = {(r.bundle, r.seed): r.return_ for r in rows if r.planner == POLICY}
    groups: dict[tuple[str, Size, float], list[PlannerRow]] = {}
    for row in rows:
        key = row.planner, Size(row.particles, row.iterations), row.budget_ms
        groups.setdefault(key, []).append(row)
    scores = []
    for (planner, size, budget_ms), group in groups.items():
        gains = [row.return_ - policy.get((row.bundle, row.seed), np.nan) for row in group]
        score = PlannerScore(
            planner=planner,
            size=size,
            budget_ms=budget_ms or None,
            return_=mean_interval(np.array([row.return_ for row in group])),
            gain=mean_interval(np.array(gains)),
            tick_p50_ms=float(np.median([row.tick_p50_ms for row in group])),
            tick_p99_ms=float(np.median([row.tick_p99_ms for row in group])),
            iterations_done=float(np.mean([row.done for row in group])),
            unplanned=float(np.mean([row.unplanned for row in group])),
        )
        scores.append(score)
    return scores


class WatchdogRow(NamedTuple):
    """From a signal that ends or stops the controller to the safe command at the robot."""

    task: str
    rate: float
    """[Hz]"""
    signal: str
    load: int
    """Busy processes beside it."""
    priority: int
    browsers: int
    """That looked at the page of `hucrl watch`; 0: there was none."""
    signals: int
    time: Tail
    """Of those that came."""
    worst_periods: float
    """p99.9, or of fewer than `ENOUGH` signals the largest, in control periods."""
    missing: int
    """Signals after which none came."""

    @classmethod
    def of(
        cls,
        task: str,
        rate: float,
        signal: str,
        load: int,
        priority: int,
        browsers: int,
        times: Array,
    ) -> "WatchdogRow":
        """From times [s], NaN where no safe command came."""
        known = times[np.isfinite(times)]
        time = Tail.of(known)
        return cls(
            task=task,
            rate=round(rate, 4),
            signal=signal,
            load=load,
            priority=priority,
            browsers=browsers,
            signals=len(times),
            time=time,
            worst_periods=round(time.worst * rate / 1e3, 3),
            missing=len(times) - len(known),
        )


Result = TickRow | WatchdogRow | LoopRow | DelayRow | DelayScore | PlannerRow | PlannerScore


def known(value: object) -> object:
    """What it is, in JSON; None: a number that nobody knows."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def numbers(result: Result) -> dict[str, object]:
    """Flat, for CSV and JSON: an interval or a tail takes several entries, arrays none."""
    flat: dict[str, object] = {}
    for field, value in result._asdict().items():
        name = FILE_NAMES.get(field, field.rstrip("_"))
        if isinstance(value, Interval):
            bounds = value if math.isfinite(value.mean) else (None, None, None)
            flat |= zip((name, f"{name}_low", f"{name}_high"), bounds, strict=True)
        elif isinstance(value, Tail):
            flat |= {f"{name}_{quantile}_ms": time for quantile, time in value.numbers().items()}
        elif isinstance(value, Size):
            flat |= value._asdict()
        elif not isinstance(value, np.ndarray):
            flat[name] = known(value)
    return flat
