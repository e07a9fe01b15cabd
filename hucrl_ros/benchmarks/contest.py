"""Planners that play the same bundles with the same particles."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.evaluation import Played, evaluate, with_settings
from hucrl_ros.experiments.statistics import Interval, mean_interval
from hucrl_ros.tasks import Task

POLICY = "policy"
CONTESTANTS: dict[str, Mapping[str, Any]] = {
    POLICY: {"planner.algorithm": "policy"},
    "dyna_mpc": {"planner.algorithm": "dyna_mpc"},
    "poplin_a": {"planner.algorithm": "poplin_a"},
    "poplin_bias": {"planner.algorithm": "poplin_bias"},
    "cem warm": {"planner.algorithm": "cem", "planner.warm_start": True},
    "cem cold": {"planner.algorithm": "cem", "planner.warm_start": False},
    "icem": {"planner.algorithm": "icem"},
    "mppi": {"planner.algorithm": "mppi"},
    "random_shooting": {"planner.algorithm": "random_shooting"},
    "ilqr": {"planner.algorithm": "ilqr"},
}
"""What is compared, and its settings. Exact programming isn't: it plans between the episodes."""


class Size(NamedTuple):
    """How much of the model a tick may imagine."""

    particles: int
    iterations: int

    def __str__(self) -> str:
        return f"{self.particles}x{self.iterations}"


def parse_size(text: str) -> Size:
    """Particles and iterations from `64x3`.

    Raises:
        ConfigError: it has another form.
    """
    particles, cross, iterations = text.partition("x")
    if not (cross and particles.isdecimal() and iterations.isdecimal()):
        raise ConfigError(f"--sizes {text}: expected PARTICLESxITERATIONS, e.g. 64x3")
    return Size(int(particles), int(iterations))


class Entry(NamedTuple):
    """A bundle that is played."""

    name: str
    bundle: Bundle
    task: Task


class Row(NamedTuple):
    """One episode."""

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


class Score(NamedTuple):
    """A planner of one size and budget, over the seeds and perhaps over bundles."""

    planner: str
    size: Size
    budget_ms: float
    return_: Interval
    gain: Interval
    """Return minus that of the policy alone, with the same bundle and seed."""
    tick_p50_ms: float
    """Median over the episodes."""
    tick_p99_ms: float
    """Median over the episodes."""
    done: float
    unplanned: float
    """Mean share of the ticks that had no plan."""


class Contest(NamedTuple):
    """Who plays what, how long and how often."""

    entries: Sequence[Entry]
    planners: Sequence[str]
    """Keys of `CONTESTANTS`."""
    sizes: Sequence[Size]
    budgets_ms: Sequence[float]
    """Times for planning in a tick [ms]; 0: no limit."""
    episodes: int
    seed: int
    settings: Mapping[str, Any]
    """Settings of all planners, with dotted keys."""

    def play(self) -> Iterator[list[Row]]:
        """Rows of one bundle, planner, size and budget after another."""
        for entry in self.entries:
            for planner in self.planners:
                for size in [Size(1, 1)] if planner == POLICY else self.sizes:
                    for budget_ms in [0.0] if planner == POLICY else self.budgets_ms:
                        yield self._play(entry, planner, size, budget_ms)

    def check(self) -> None:
        """Refuse what can't be played, before anything is.

        Raises:
            ConfigError: a setting is unknown or out of range.
        """
        for entry in self.entries:
            for planner in self.planners:
                for size in self.sizes:
                    self._bundle(entry, planner, size)

    def _play(self, entry: Entry, planner: str, size: Size, budget_ms: float) -> list[Row]:
        bundle = self._bundle(entry, planner, size)
        budget_s = budget_ms / 1e3 if budget_ms else None
        played = evaluate(bundle, entry.task, self.episodes, self.seed, budget_s)
        return [
            _row(entry.name, planner, size, budget_ms, self.seed + k, episode)
            for k, episode in enumerate(played)
        ]

    def _bundle(self, entry: Entry, planner: str, size: Size) -> Bundle:
        """The entry's bundle with this planner; as many elites in proportion as it has."""
        if planner == POLICY:
            return with_settings(entry.bundle, CONTESTANTS[POLICY])
        planned = entry.bundle.manifest.planner
        elites = max(round(planned.elites / planned.particles * size.particles), 1)
        changes = {
            "planner.particles": size.particles,
            "planner.iterations": size.iterations,
            "planner.elites": elites,
        }
        return with_settings(entry.bundle, {**changes, **CONTESTANTS[planner], **self.settings})


def _row(
    bundle: str, planner: str, size: Size, budget_ms: float, seed: int, episode: Played
) -> Row:
    p50, p99 = np.percentile(episode.tick_ms, [50, 99])
    return Row(
        bundle=bundle,
        planner=planner,
        particles=size.particles,
        iterations=size.iterations,
        budget_ms=budget_ms,
        seed=seed,
        return_=episode.total,
        tick_p50_ms=float(p50),
        tick_p99_ms=float(p99),
        done=float(episode.iterations.mean()),
        unplanned=float((episode.iterations == 0).mean()),
    )


def scores(rows: Sequence[Row]) -> list[Score]:
    """One score for each planner, size and budget, in the order of the rows."""
    policy = {(r.bundle, r.seed): r.return_ for r in rows if r.planner == POLICY}
    groups: dict[tuple[str, Size, float], list[Row]] = {}
    for row in rows:
        key = row.planner, Size(row.particles, row.iterations), row.budget_ms
        groups.setdefault(key, []).append(row)
    return [_score(*key, group, policy) for key, group in groups.items()]


def _score(
    planner: str,
    size: Size,
    budget_ms: float,
    rows: Sequence[Row],
    policy: Mapping[tuple[str, int], float],
) -> Score:
    gains = [row.return_ - policy.get((row.bundle, row.seed), np.nan) for row in rows]
    return Score(
        planner=planner,
        size=size,
        budget_ms=budget_ms,
        return_=mean_interval(np.array([row.return_ for row in rows])),
        gain=mean_interval(np.array(gains)),
        tick_p50_ms=float(np.median([row.tick_p50_ms for row in rows])),
        tick_p99_ms=float(np.median([row.tick_p99_ms for row in rows])),
        done=float(np.mean([row.done for row in rows])),
        unplanned=float(np.mean([row.unplanned for row in rows])),
    )
