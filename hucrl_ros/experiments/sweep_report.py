"""Figures and a table of a sweep, from its rows alone."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from numpy.typing import NDArray

from hucrl_ros.experiments.presentation import (
    BLUE,
    GREY,
    INK,
    Column,
    Table,
    draw_optimum,
    drawing,
    overall_title,
    signed,
    write_page,
)
from hucrl_ros.experiments.statistics import (
    Group,
    Interval,
    Kept,
    Panel,
    Results,
    Row,
    Series,
    best_returns,
    collect,
    first_reaching,
    interquartile_interval,
    mean_interval,
)
from hucrl_ros.robots.mujoco_robot import Array

HANDLE_IN, LETTER_IN = 0.75, 0.085
"""Width of a legend's line with its distances, and of a letter [inch]."""
MOST_LINES = 8
"""In one pair of axes; with more of them each gets its own."""
MOST_MARKS = 25
"""Episodes of a line that are marked; more of them would hide it."""
NOTHING_KNOWN = Kept(0, 0, np.nan, np.nan, np.nan)
READING = "reading.md"
"""What people make of the numbers; a page that is written anew takes it in."""
FIRST = (
    "*First episode* is the median over seeds, and the worst where it differs; a seed that "
    "never gets there counts as the last, so the median may be *never* where some do. "
)


def write_report(
    folder: Path,
    rows: Sequence[Row],
    goal: float | None,
    command: str,
    optima: Mapping[float, float] | None = None,
) -> list[Path]:
    """Write `README.md` and its pictures; `outside.png` is of robots with constraints.

    Args:
        folder: Where they go; may hold a file `READING`.
        rows: At least one.
        goal: Return that counts as learned; None: nothing is counted.
        command: The command line that made the rows.
        optima: As of `collect`.

    Returns:
        The files.
    """
    results = collect(rows, optima)
    folder.mkdir(parents=True, exist_ok=True)
    reading = folder / READING
    runs = {(row.strategy, row.action_penalty, row.value, row.seed): row for row in rows}
    seeds = sorted({row.seed for row in rows})
    several = len(seeds) > 1
    numbers = "means over seeds with 95% bootstrap intervals (BCa)" if several else "of one seed"
    first = FIRST if several and goal is not None else ""
    page = write_page(
        folder / "README.md",
        f"{results.task}: results of a sweep",
        f"Runs: {len(runs)} (seed{'s' * several} {', '.join(map(str, seeds))}), with "
        f"{sum(row.cpu_s for row in runs.values()) / 60:.1f} minutes of processor time in all. "
        "Made by",
        command,
        f"Numbers are {numbers}. {first}`returns.csv` holds every episode.",
        markdown_table(results, goal),
        reading.read_text(encoding="utf-8").strip() if reading.is_file() else "",
        *(["![States outside in each episode](outside.png)"] if results.outside else []),
        "![Returns of each episode](learning_curves.png)",
        "![Best return of each run](best_returns.png)",
    )
    outside = [draw_outside(folder / "outside.png", results)] if results.outside else []
    curves = draw_learning_curves(folder / "learning_curves.png", results)
    return [*outside, curves, draw_best_returns(folder / "best_returns.png", results), page]


def markdown_table(results: Results, goal: float | None) -> str:
    """A table with one row for each group."""
    groups = [
        Group(strategy, penalty, value)
        for penalty in results.penalties
        for strategy, value in results.series
    ]
    episodes = max(returns.shape[1] for returns in results.groups.values())

    def returns_of(group: Group) -> Array:
        return results.groups[group]

    def best_of(group: Group) -> Array:
        return best_returns(returns_of(group))

    def optimum_of(group: Group) -> str:
        optimum = results.optima[group.action_penalty]
        return "" if optimum is None else f"{optimum:g}"

    columns: list[Column[Group]] = [
        Column("ρ", lambda group: f"{group.action_penalty:g}"),
        Column("strategy", lambda group: group.strategy),
    ]
    if results.setting:
        columns.append(Column(f"`{results.setting}`", lambda group: group.value))
    columns += [
        Column(f"best return within {episodes} episodes", lambda group: _mean(best_of(group))),
        Column("return of the last episode", lambda group: _mean(returns_of(group)[:, -1])),
    ]
    if goal is not None:
        columns += [
            Column(
                f"seeds ≥ {goal:g}",
                lambda group: f"{(best_of(group) >= goal).sum()} of {len(best_of(group))}",
            ),
            Column(
                f"first episode ≥ {goal:g}",
                lambda group: _episodes(first_reaching(returns_of(group), goal)),
            ),
        ]
    columns.append(Column("optimum", optimum_of))
    if results.kept:
        # Of what an older version made nothing is known.
        kept = {group: results.kept.get(group, NOTHING_KNOWN) for group in results.groups}
        columns += [
            Column("seeds outside", lambda group: f"{kept[group].left} of {kept[group].runs}"),
            Column("states outside, of 1,000", lambda group: f"{kept[group].outside:.1f}"),
            Column("furthest outside [margins]", lambda group: f"{kept[group].deepest:.1f}"),
            Column("actions changed, of 1,000", lambda group: f"{kept[group].filtered:.1f}"),
        ]
    return Table(columns).markdown(group for group in groups if group in results.groups)


def _mean(values: Array) -> str:
    interval: Interval = mean_interval(values)
    if interval.low == interval.high:  # of one run, or of equal ones
        return signed(interval.mean)
    return interval.text() or "–"


def _episodes(first: Array) -> str:
    """Median and worst over seeds; a seed that has none counts as the worst there is."""
    ordered = np.sort(np.where(np.isfinite(first), first, np.inf))
    median, worst = float(np.median(ordered)), float(ordered[-1])
    names = ["never" if np.isinf(episode) else f"{episode:g}" for episode in (median, worst)]
    return names[0] if names[0] == names[1] else f"median {names[0]}, worst {names[1]}"


def draw_outside(path: Path, results: Results) -> Path:
    """Mean number of states outside in each episode, of 1,000, with its interval over seeds."""
    nowhere = dict.fromkeys(results.optima)
    outside = results._replace(groups=results.outside, optima=nowhere)
    return draw_learning_curves(path, outside, beside="states outside, of 1,000")


def draw_learning_curves(
    path: Path, results: Results, seconds: float | None = None, beside: str = "return"
) -> Path:
    """Mean return of each episode with its interval over seeds.

    Args:
        path: The picture's file.
        results: What to draw.
        seconds: Length of an episode [s]: interquartile means over the seconds of movement, whose
            axis is logarithmic, as groups may have moved for very different times; None: means
            over the number of the episode.
        beside: What the numbers are.
    """
    if any(len(panel.series) > MOST_LINES for panel in itertools.chain(*results.panels)):
        return _draw_apart(path, results, seconds, beside)
    below = "episode" if seconds is None else "movement of the robot [s]"
    rows, columns = len(results.panels), len(results.panels[0])
    with drawing(path, (max(3.9 * columns, 6.0), 3.2 * rows + 1.0)) as figure:
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, panel in _panels(grid, results, below, beside):
            for key, series in panel.series.items():
                returns = results.groups.get(Group(key[0], panel.action_penalty, key[1]))
                if returns is not None:
                    draw_curve(axes, returns, series, seconds)
            _scale(axes, seconds)
        _title(figure, results, "mean" if seconds is None else "IQM")
        _legend(figure, results)
    return path


def _draw_apart(path: Path, results: Results, seconds: float | None, beside: str) -> Path:
    """Each line in axes of its own, all others of its panel in grey behind it."""
    below = "episode" if seconds is None else "movement of the robot [s]"
    drawn = [(panel, key) for panel in itertools.chain(*results.panels) for key in panel.series]
    columns = 4
    rows = -(-len(drawn) // columns)
    with drawing(path, (2.7 * columns, 2.0 * rows + 0.6)) as figure:
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, (panel, shown) in zip(grid.flat, drawn, strict=False):
            for key, series in sorted(panel.series.items(), key=lambda item: item[0] == shown):
                returns = results.groups.get(Group(key[0], panel.action_penalty, key[1]))
                if returns is None:
                    continue
                if key == shown:
                    draw_curve(axes, returns, series._replace(colour=BLUE, marker="o"), seconds)
                else:
                    x, mean, *_ = _curve(returns, seconds)
                    axes.plot(x, mean, color=GREY, lw=0.7, alpha=0.5)
            draw_optimum(axes, results.optima[panel.action_penalty])
            of = "" if len(results.panels) * len(results.panels[0]) == 1 else f", {panel.title}"
            axes.set_title(panel.series[shown].label + of, loc="left", fontsize=11)
            axes.grid(visible=False, axis="x")
            axes.margins(y=0.25)  # for the optimum's name
            _scale(axes, seconds)
        for axes in grid.flat[len(drawn) :]:
            axes.set_visible(False)
        for axes in grid[-1]:
            axes.set_xlabel(below)
        for axes in grid[:, 0]:
            axes.set_ylabel(beside)
        _title(figure, results, "mean" if seconds is None else "IQM")
    return path


def _scale(axes: Axes, seconds: float | None) -> None:
    if seconds is None:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    else:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _panels(
    grid: NDArray[Any], results: Results, below: str, beside: str
) -> Iterator[tuple[Axes, Panel]]:
    """Each panel to draw into; what all of them have is added after that."""
    for axes, panel in zip(grid.flat, itertools.chain(*results.panels), strict=True):
        yield axes, panel
        draw_optimum(axes, results.optima[panel.action_penalty])
        axes.set_title(panel.title, loc="left")
        axes.grid(visible=False, axis="x")
        axes.margins(y=0.12)
    for axes in grid[-1]:
        axes.set_xlabel(below)
    for axes in grid[:, 0]:
        axes.set_ylabel(beside)


def draw_curve(axes: Axes, returns: Array, series: Series, seconds: float | None = None) -> None:
    """Mean of `returns` `(seeds, episodes)` with its interval; `seconds` as above."""
    x, mean, low, high = _curve(returns, seconds)
    axes.fill_between(x, low, high, color=series.colour, alpha=0.18, lw=0)
    apart = -(-len(x) // MOST_MARKS)
    axes.plot(x, mean, color=series.colour, marker=series.marker, ms=5, markevery=apart,
              label=series.label)  # fmt: skip


def _curve(returns: Array, seconds: float | None) -> tuple[Array, Array, Array, Array]:
    """Episodes or seconds, mean, and the interval's ends `(episodes,)` each."""
    interval = mean_interval if seconds is None else interquartile_interval
    mean, low, high = np.array([interval(column) for column in returns.T]).T
    episodes = range(len(mean))
    x = episodes if seconds is None else [seconds * (episode + 1) for episode in episodes]
    return np.array(x, float), mean, low, high


def draw_best_returns(path: Path, results: Results) -> Path:
    """Mean of each run's best return with its interval, and every seed of several as a dot.

    Costs have no bars, as the longest would be the worst.
    """
    rows, columns = len(results.panels), len(results.panels[0])
    bars = len(results.panels[0][0].series)
    with drawing(path, (max(columns * (0.62 * bars + 1.4), 6.0), 3.2 * rows + 1.0)) as figure:
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
        bars_from_0 = all((best_returns(found) >= 0.0).all() for found in results.groups.values())
        for axes, panel in _panels(grid, results, results.setting, "best return of a run"):
            for k, (key, series) in enumerate(panel.series.items()):
                returns = results.groups.get(Group(key[0], panel.action_penalty, key[1]))
                if returns is not None:
                    best = best_returns(returns)
                    if bars_from_0:
                        axes.bar(k, best.mean(), width=0.76, color=series.colour, alpha=0.3)
                    _draw_best(axes, k, best, series)
            axes.set_xticks(range(bars), [series.label for series in panel.series.values()])
            if results.setting:
                axes.tick_params(axis="x", labelrotation=30)
                for label in axes.get_xticklabels():
                    label.set_horizontalalignment("right")
            if bars_from_0:
                axes.axhline(0.0, color=GREY, lw=0.8)
            axes.set_xlim(-0.7, bars - 0.3)
        _title(figure, results)
    return path


def _draw_best(axes: Axes, position: int, best: Array, series: Series) -> None:
    mean, low, high = mean_interval(best)
    alone = len(best) == 1
    middle = position if alone else position + 0.2
    axes.vlines(middle, low, high, color=series.colour, lw=3)
    axes.plot(middle, mean, series.marker, color=series.colour, ms=7, mec="white")
    if alone:
        return
    # Seeds stand next to each other in their order, so that equal ones stay apart.
    places = position + np.linspace(-0.3, 0.05, len(best))
    axes.plot(places, best, ".", color=INK, ms=6, alpha=0.6, mew=0)


def _title(figure: Figure, results: Results, centre: str = "mean") -> None:
    fewest, seeds = np.sort([len(returns) for returns in results.groups.values()])[[0, -1]]
    count = f"{seeds}" if fewest == seeds else f"{fewest} to {seeds}"
    of = f"{centre} and 95% interval over {count} seeds" if seeds > 1 else "one seed"
    overall_title(figure, f"{results.task}: {of}")


def _legend(figure: Figure, results: Results) -> None:
    """One legend for all panels, of which none need have all lines."""
    drawn = [axes.get_legend_handles_labels() for axes in figure.axes]
    named = {label: handle for of in drawn for handle, label in zip(*of, strict=True)}
    handles, labels = list(named.values()), list(named)
    widest = HANDLE_IN + LETTER_IN * max(map(len, labels))
    columns = max(1, min(len(labels), int(figure.get_figwidth() / widest)))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns,
                  title=results.setting or None)  # fmt: skip
