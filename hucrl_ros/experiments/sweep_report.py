"""Figures and a table of a sweep, from its rows alone."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hucrl_ros.config.yaml_files import write_atomically
from hucrl_ros.experiments.results import Results, collect
from hucrl_ros.experiments.statistics import (
    Group,
    Interval,
    Row,
    best_returns,
    first_reaching,
    mean_interval,
)
from hucrl_ros.experiments.style import signed
from hucrl_ros.experiments.sweep_figures import draw_best_returns, draw_learning_curves
from hucrl_ros.robots.mujoco_robot import Array

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
    files = [
        draw_learning_curves(folder / "learning_curves.png", results),
        draw_best_returns(folder / "best_returns.png", results),
    ]
    page = folder / "README.md"
    reading = folder / READING
    said = reading.read_text(encoding="utf-8").strip() if reading.is_file() else ""
    write_atomically(page, _page(results, rows, goal, command, said))
    return [*files, page]


def _page(
    results: Results, rows: Sequence[Row], goal: float | None, command: str, reading: str
) -> str:
    runs = {(row.strategy, row.action_penalty, row.value, row.seed): row for row in rows}
    seeds = sorted({row.seed for row in rows})
    cpu_s = sum(row.cpu_s for row in runs.values())
    which = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    return "\n".join(
        [
            f"# {results.task}: results of a sweep",
            "",
            f"Runs: {len(runs)} ({which}), with {cpu_s / 60:.1f} "
            "minutes of processor time in all. Made by",
            "",
            f"    {command}",
            "",
            "Numbers are means over seeds with 95% bootstrap intervals (BCa). `returns.csv` holds"
            if len(seeds) > 1
            else "Numbers are those of one seed. `returns.csv` holds",
            "every episode.",
            "",
            *markdown_table(results, goal),
            "",
            *([reading, ""] if reading else []),
            "![Returns of each episode](learning_curves.png)",
            "",
            "![Best return of each run](best_returns.png)",
            "",
        ]
    )


def markdown_table(results: Results, goal: float | None) -> list[str]:
    """Lines of a table with one row for each group."""
    setting = [f"`{results.setting}`"] if results.setting else []
    episodes = max(returns.shape[1] for returns in results.groups.values())
    header = [
        "ρ",
        "strategy",
        *setting,
        f"best return within {episodes} episodes",
        "return of the last episode",
        *([] if goal is None else [f"seeds ≥ {goal:g}", f"first episode ≥ {goal:g}"]),
        "optimum",
    ]
    lines = [_line(header), _line(["---"] * len(header))]
    for penalty in results.penalties:
        for strategy, value in results.series:
            returns = results.groups.get(Group(strategy, penalty, value))
            if returns is None:
                continue
            best = best_returns(returns)
            optimum = results.optima[penalty]
            lines.append(
                _line(
                    [
                        f"{penalty:g}",
                        strategy,
                        *([value] if setting else []),
                        _interval(mean_interval(best)),
                        _interval(mean_interval(returns[:, -1])),
                        *_reached(returns, goal),
                        "" if optimum is None else f"{optimum:g}",
                    ]
                )
            )
    return lines


def _reached(returns: Array, goal: float | None) -> list[str]:
    """How many seeds reached the goal, and when."""
    if goal is None:
        return []
    best = best_returns(returns)
    count = f"{int((best >= goal).sum())} of {len(best)}"
    return [count, _episodes(first_reaching(returns, goal))]


def _line(entries: Sequence[str]) -> str:
    return f"| {' | '.join(entries)} |"


def _interval(interval: Interval) -> str:
    if not np.isfinite(interval.mean):
        return "–"
    if interval.low == interval.high:  # of one run, or of equal ones
        return signed(interval.mean)
    return f"{signed(interval.mean)} [{signed(interval.low)}, {signed(interval.high)}]"


def _episodes(first: Array) -> str:
    """Median and worst over seeds; a seed that has none counts as the worst there is."""
    ordered = np.sort(np.where(np.isfinite(first), first, np.inf))
    median, worst = float(np.median(ordered)), float(ordered[-1])
    names = ["never" if np.isinf(episode) else f"{episode:g}" for episode in (median, worst)]
    return names[0] if names[0] == names[1] else f"median {names[0]}, worst {names[1]}"
