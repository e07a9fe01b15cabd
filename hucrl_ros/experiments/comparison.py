"""Other people's algorithms beside ours: returns against seconds of movement, and their cost."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from hucrl_ros.experiments.presentation import Column, Table, signed, write_page
from hucrl_ros.experiments.statistics import (
    Group,
    Results,
    Row,
    best_returns,
    collect,
    first_reaching,
    interquartile_interval,
)
from hucrl_ros.experiments.sweep_report import READING, draw_learning_curves
from hucrl_ros.robots.mujoco_robot import Array


def write_comparison(
    folder: Path,
    rows: Sequence[Row],
    seconds: float,
    goal: float | None,
    command: str,
    optima: Mapping[float, float] | None = None,
) -> list[Path]:
    """Write `comparison.png` and `README.md`.

    Args:
        folder: Where they go; may hold a file `READING`.
        rows: Of one task, at least one; `strategy` names the algorithm.
        seconds: Length of an episode [s].
        goal: Return that counts as learned; None: nothing is counted.
        command: The command line that made the page.
        optima: As of `collect`.

    Returns:
        The files.
    """
    results, reading = collect(rows, optima), folder / READING
    folder.mkdir(parents=True, exist_ok=True)
    page = write_page(
        folder / "README.md",
        f"{results.task}: other algorithms beside ours",
        "Made by",
        command,
        "Returns are those of training episodes: interquartile means over seeds with 95% "
        "bootstrap intervals (percentiles). Times are of a whole run, means over the runs.",
        _table(rows, results, seconds, goal),
        reading.read_text(encoding="utf-8").strip() if reading.is_file() else "",
        "![Returns against seconds of movement](comparison.png)",
    )
    return [draw_learning_curves(folder / "comparison.png", results, seconds), page]


def _table(rows: Sequence[Row], results: Results, seconds: float, goal: float | None) -> str:
    """One row for each algorithm and penalty; each length of a run has a column of its own.

    Runs of one algorithm may differ in length, too. What would be a mean of some of them alone, or
    of longer and shorter ones, isn't told.
    """
    returns = results.groups
    last = {Group(row.strategy, row.action_penalty, row.value): dict[int, Row]() for row in rows}
    for row in rows:
        last[Group(row.strategy, row.action_penalty, row.value)][row.seed] = row
    lengths = {group: {row.episode + 1 for row in ends.values()} for group, ends in last.items()}

    def best_within(episodes: int, group: Group) -> str:
        known = min(lengths[group]) >= episodes
        return _mean(best_returns(returns[group][:, :episodes])) if known else "–"

    def last_return(group: Group) -> str:
        return _mean(returns[group][:, -1]) if len(lengths[group]) == 1 else "–"

    def mean_time(group: Group, name: str) -> str:
        if len(lengths[group]) > 1:
            return "–"
        return f"{np.mean([getattr(row, name) for row in last[group].values()]):.0f}"

    columns: list[Column[Group]] = [
        Column("ρ", lambda group: f"{group.action_penalty:g}"),
        Column("algorithm", lambda group: f"{group.strategy} {group.value}".strip()),
        Column("seeds", lambda group: f"{len(returns[group])}"),
    ]
    for episodes in sorted(set().union(*lengths.values())):
        title = f"best return within {seconds * episodes:g} s of movement"
        columns.append(Column(title, partial(best_within, episodes)))
    columns.append(Column("return of the last episode", last_return))
    if goal is not None:
        columns.append(
            Column(
                f"movement until ≥ {goal:g} [s]",
                lambda group: _seconds(first_reaching(returns[group], goal), seconds),
            )
        )
    columns += [
        Column("wall time [s]", lambda group: mean_time(group, "wall_s")),
        Column("processor time [s]", lambda group: mean_time(group, "cpu_s")),
    ]
    order = [
        Group(name, rho, value) for rho in results.penalties for name, value in results.series
    ]
    return Table(columns).markdown(group for group in order if group in returns)


def _mean(values: Array) -> str:
    interval = interquartile_interval(values)
    return interval.text() if len(values) > 1 else signed(interval.mean)


def _seconds(first: Array, seconds: float) -> str:
    """Of each seed in turn, up to the end of its first such episode."""
    return ", ".join("never" if np.isnan(k) else f"{seconds * (k + 1):g}" for k in first)
