"""Figures and a table of a sweep, from its rows alone."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hucrl_ros.envs.base import Array
from hucrl_ros.experiments.statistics import (
    Group,
    Interval,
    Results,
    Row,
    best_returns,
    collect,
    first_reaching,
    mean_interval,
)
from hucrl_ros.experiments.style import signed
from hucrl_ros.experiments.sweep_figures import draw_best_returns, draw_learning_curves
from hucrl_ros.experiments.tables import Column, Table, write_page

READING = "reading.md"
"""What people make of the numbers; a page that is written anew takes it in."""


def write_report(
    folder: Path, rows: Sequence[Row], goal: float | None, command: str
) -> list[Path]:
    """Write `learning_curves.png`, `best_returns.png` and `README.md`.

    Args:
        folder: Where they go; may hold a file `READING`.
        rows: At least one.
        goal: Return that counts as learned; None: nothing is counted.
        command: The command line that made the rows.

    Returns:
        The files.
    """
    results = collect(rows)
    folder.mkdir(parents=True, exist_ok=True)
    reading = folder / READING
    runs = {(row.strategy, row.action_penalty, row.value, row.seed): row for row in rows}
    seeds = sorted({row.seed for row in rows})
    several = len(seeds) > 1
    numbers = "means over seeds with 95% bootstrap intervals (BCa)" if several else "of one seed"
    page = write_page(
        folder / "README.md",
        f"{results.task}: results of a sweep",
        f"Runs: {len(runs)} (seed{'s' * several} {', '.join(map(str, seeds))}), with "
        f"{sum(row.cpu_s for row in runs.values()) / 60:.1f} minutes of processor time in all. "
        "Made by",
        command,
        f"Numbers are {numbers}. `returns.csv` holds every episode.",
        markdown_table(results, goal),
        reading.read_text(encoding="utf-8").strip() if reading.is_file() else "",
        "![Returns of each episode](learning_curves.png)",
        "![Best return of each run](best_returns.png)",
    )
    curves = draw_learning_curves(folder / "learning_curves.png", results)
    return [curves, draw_best_returns(folder / "best_returns.png", results), page]


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
