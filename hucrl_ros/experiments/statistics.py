"""Numbers of many runs: one row an episode, means over seeds with confidence intervals."""

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.stats
from matplotlib.colors import to_hex

from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.presentation import (
    EFFORT_COLOURS,
    STRATEGY_COLOURS,
    STRATEGY_MARKERS,
    WORD_COLOURS,
    signed,
    write_csv,
)
from hucrl_ros.robots.mujoco_robot import Array
from hucrl_ros.tasks import known_optimum

CONFIDENCE = 0.95
RESAMPLES = 9999
MARKERS = "osD^vP*X"


class Row(NamedTuple):
    """One episode of one run. None: the run has no such number."""

    task: str
    strategy: str
    action_penalty: float
    setting: str
    """Dotted key of the setting that the sweep varied; empty: none."""
    value: str
    """Its value."""
    seed: int
    episode: int
    return_: float
    promised_return: float | None
    model_error: float | None
    """Of the model that the episode was played with [standard deviations of the targets]."""
    fit_s: float | None
    """Model fit that followed the episode [s]."""
    search_s: float | None
    """Policy search that followed the episode [s]."""
    wall_s: float
    """Of the whole run [s]."""
    cpu_s: float
    """Of the whole run [s]."""
    steps: int | None = None
    """Control periods. This and the rest are known of robots with constraints."""
    filtered: int | None = None
    """Ticks whose action was changed for a constraint."""
    outside: int | None = None
    """States beyond a constraint, counted once for each that they are beyond."""
    deepest: float | None = None
    """How far beyond one the worst of them was [its margins]."""


COLUMNS = tuple(field.rstrip("_") for field in Row._fields)
PLAIN = COLUMNS[: COLUMNS.index("steps")]
"""Those of robots without constraints."""


class Group(NamedTuple):
    """Runs that differ in nothing but their seed."""

    strategy: str
    action_penalty: float
    value: str
    """Of the varied setting; empty where none was."""


class Kept(NamedTuple):
    """How well runs kept within constraints, all of their episodes together."""

    runs: int
    """How many."""
    left: int
    """Of these, those that were beyond a constraint."""
    outside: float
    """States beyond a constraint [1 in 1,000]."""
    deepest: float
    """How far beyond one the worst was [its margins]."""
    filtered: float
    """Actions changed for a constraint [1 in 1,000]."""

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Kept | None":
        """Of some runs; None where a robot has no constraints."""
        known = [row for row in rows if row.steps and row.outside is not None]
        if not known:
            return None
        thousands = sum(row.steps or 0 for row in known) / 1000.0
        return cls(
            runs=len({row.seed for row in known}),
            left=len({row.seed for row in known if row.outside}),
            outside=sum(row.outside or 0 for row in known) / thousands,
            deepest=max(row.deepest or 0.0 for row in known),
            filtered=sum(row.filtered or 0 for row in known) / thousands,
        )


class Interval(NamedTuple):
    """A mean and its bootstrap confidence interval."""

    mean: float
    low: float
    high: float

    def text(self, decimals: int = 1) -> str:
        """For tables: `12.3 [11.0, 13.5]`; empty where there is no mean."""
        if np.isnan(self.mean):
            return ""
        mean, low, high = (signed(number, decimals) for number in self)
        return f"{mean} [{low}, {high}]"


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a CSV file with a header."""
    rows = list(rows)
    columns = PLAIN if all(row.outside is None for row in rows) else COLUMNS
    write_csv(path, columns, (row[: len(columns)] for row in rows))


def read_rows(path: Path) -> list[Row]:
    """Read what `write_rows` wrote.

    Raises:
        ConfigError: it is no such file.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            header, *lines = csv.reader(file)
        if tuple(header) not in (PLAIN, COLUMNS):
            raise ValueError(f"its columns are {', '.join(header)}")
        return [_row(line) for line in lines]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: no table of returns: {reason}") from None


def _row(line: Sequence[str]) -> Row:
    task, strategy, penalty, setting, value, seed, episode, *numbers = line
    read = [*[float] * (len(PLAIN) - 7), int, int, int, float]
    known = [kind(text) if text else None for kind, text in zip(read, numbers, strict=False)]
    return Row(task, strategy, float(penalty), setting, value, int(seed), int(episode), *known)  # type: ignore[arg-type]


def _group_of(row: Row) -> Group:
    return Group(row.strategy, row.action_penalty, row.value)


def group_returns(rows: Iterable[Row]) -> dict[Group, Array]:
    """Returns `(seeds, episodes)` of each group, seeds in order; NaN where an episode is missing.

    Groups come in the order of their first rows.
    """
    return _by_episode(rows, lambda row: row.return_)


def group_outside(rows: Iterable[Row]) -> dict[Group, Array]:
    """States beyond a constraint, of 1,000, in the same form; of robots with constraints."""
    return _by_episode(rows, _outside)


def _outside(row: Row) -> float | None:
    return None if row.outside is None or not row.steps else 1000.0 * row.outside / row.steps


def _by_episode(rows: Iterable[Row], number: Callable[[Row], float | None]) -> dict[Group, Array]:
    found: dict[Group, dict[int, dict[int, float]]] = {}
    for row in rows:
        value = number(row)
        if value is not None:
            found.setdefault(_group_of(row), {}).setdefault(row.seed, {})[row.episode] = value
    return {group: _to_array(seeds) for group, seeds in found.items()}


def _to_array(seeds: Mapping[int, Mapping[int, float]]) -> Array:
    episodes = 1 + max(max(returns) for returns in seeds.values())
    array = np.full((len(seeds), episodes), np.nan)
    for i, seed in enumerate(sorted(seeds)):
        for episode, total in seeds[seed].items():
            array[i, episode] = total
    return array


def mean_interval(values: Array) -> Interval:
    """Mean of `values` `(n,)` with its bootstrap interval (BCa), NaN left out.

    One value, or ones that are equal but for rounding, have an interval without width.
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return Interval(np.nan, np.nan, np.nan)
    mean = float(known.mean())
    if np.ptp(known) <= 1e-12 * abs(mean):  # Rounding alone would leave no interval.
        return Interval(mean, mean, mean)
    interval = scipy.stats.bootstrap(
        (known,),
        np.mean,
        confidence_level=CONFIDENCE,
        n_resamples=RESAMPLES,
        method="BCa",
        rng=np.random.default_rng(0),  # the same numbers give the same interval
    ).confidence_interval
    return Interval(mean, float(interval.low), float(interval.high))


def interquartile_interval(scores: Array) -> Interval:
    """Interquartile mean of `scores` `(runs,)` of one task with its bootstrap interval.

    The mean of what is left when a quarter of the scores is cut off at each end, rounded down: of
    three runs nothing is. The interval holds the middle of what runs that are drawn anew give
    (percentiles). Scores that aren't finite don't count.

    Source: Agarwal et al., "Deep reinforcement learning at the edge of the statistical
    precipice", 2021; the definitions of their library rliable.
    """
    known = scores[np.isfinite(scores)]
    if not len(known):
        return Interval(math.nan, math.nan, math.nan)
    mean = float(_interquartile_mean(known))
    if len(known) == 1:
        return Interval(mean, mean, mean)
    interval = scipy.stats.bootstrap(
        (known,),
        _interquartile_mean,
        confidence_level=CONFIDENCE,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Interval(mean, float(interval.low), float(interval.high))


def _interquartile_mean(scores: Array, axis: int = -1) -> Array:
    found: Array = scipy.stats.trim_mean(scores, 0.25, axis=axis)
    return found


def best_returns(returns: Array) -> Array:
    """Best return `(seeds,)` of each run in `(seeds, episodes)`."""
    known = np.isfinite(returns)
    best: Array = np.where(known, returns, -np.inf).max(axis=1)
    return np.where(known.any(axis=1), best, np.nan)


def first_reaching(returns: Array, goal: float) -> Array:
    """First episode `(seeds,)` whose return is at least `goal`; NaN: none."""
    reached = returns >= goal
    return np.where(reached.any(axis=1), reached.argmax(axis=1), np.nan)


class Series(NamedTuple):
    """How a line or bar of one strategy (and value) looks."""

    label: str
    colour: str
    marker: str


class Panel(NamedTuple):
    """What is drawn into one pair of axes."""

    title: str
    action_penalty: float
    series: dict[tuple[str, str], Series]
    """By strategy and value."""


class Results(NamedTuple):
    """A sweep's returns, ordered for figures."""

    task: str
    setting: str
    """Dotted key of the varied setting; empty: none."""
    penalties: tuple[float, ...]
    optima: dict[float, float | None]
    """By action penalty."""
    groups: dict[Group, Array]
    """Returns `(seeds, episodes)`."""
    series: dict[tuple[str, str], Series]
    """By strategy and value."""
    kept: dict[Group, Kept]
    """Of robots with constraints."""
    outside: dict[Group, Array]
    """States beyond a constraint, of 1,000, `(seeds, episodes)`; of robots with constraints."""

    @property
    def panels(self) -> list[list[Panel]]:
        """Rows of panels: one for each penalty; where values vary, one for each strategy too."""
        strategies = list(dict.fromkeys(strategy for strategy, _ in self.series))
        if not self.setting or len(strategies) == 1:
            titles = [f"action penalty ρ = {penalty:g}" for penalty in self.penalties]
            panels = zip(titles, self.penalties, strict=True)
            return [[Panel(title, penalty, self.series) for title, penalty in panels]]
        return [
            [
                Panel(
                    f"{strategy}, ρ = {penalty:g}",
                    penalty,
                    {key: series for key, series in self.series.items() if key[0] == strategy},
                )
                for strategy in strategies
            ]
            for penalty in self.penalties
        ]


def collect(rows: Sequence[Row], optima: Mapping[float, float] | None = None) -> Results:
    """Group the rows of one sweep.

    Args:
        rows: Of one task, at least one.
        optima: Its best achievable returns by action penalty, as far as they are known; None: as
            of the paper's task of that name, if it is one.
    """
    groups = group_returns(rows)
    penalties = tuple(sorted({group.action_penalty for group in groups}))
    strategies = list(dict.fromkeys(group.strategy for group in groups))
    values = list(dict.fromkeys(group.value for group in groups))
    task = rows[0].task
    kept = {group: Kept.of([row for row in rows if _group_of(row) == group]) for group in groups}
    return Results(
        task=task,
        setting=rows[0].setting,
        penalties=penalties,
        optima={
            penalty: known_optimum(task, penalty) if optima is None else optima.get(penalty)
            for penalty in penalties
        },
        groups=groups,
        series=_series(strategies, values),
        kept={group: found for group, found in kept.items() if found is not None},
        outside=group_outside(rows),
    )


def _series(strategies: Sequence[str], values: Sequence[str]) -> dict[tuple[str, str], Series]:
    if len(values) == 1:
        return {
            (name, values[0]): Series(name, STRATEGY_COLOURS[name], STRATEGY_MARKERS[name])
            for name in strategies
        }
    return {
        (name, value): Series(value, colour, MARKERS[k % len(MARKERS)])
        for name in strategies
        for k, (value, colour) in enumerate(zip(values, _colours(values), strict=True))
    }


def _colours(values: Sequence[str]) -> list[str]:
    """Of numbers darker is later; words have no order."""
    if len(values) <= len(WORD_COLOURS) and not any(map(_is_number, values)):
        return list(WORD_COLOURS[: len(values)])
    return [to_hex(EFFORT_COLOURS(shade)) for shade in np.linspace(0.0, 1.0, len(values))]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
