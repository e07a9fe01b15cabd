"""Table, page and figure of returns against the delay of commands."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from hucrl_ros.config.yaml_files import write_atomically
from hucrl_ros.experiments.statistics import Interval, mean_interval
from hucrl_ros.experiments.style import BLUE, INK, VERMILION, headline, save, signed, styled
from hucrl_ros.tasks import Task

NAMES = {"never": "without compensation", "auto": "with compensation"}
COLOURS = {"never": VERMILION, "auto": BLUE}
MARKERS = {"never": "s", "auto": "o"}


class Row(NamedTuple):
    """One episode."""

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


class Score(NamedTuple):
    """All episodes with one delay and one setting."""

    delay_ms: float
    compensation: str
    return_: Interval
    worst: float
    """Lowest return."""
    compensated: float
    """Mean share of ticks that planned from a predicted state [1]."""


def scores(rows: Sequence[Row]) -> list[Score]:
    """One for each delay and setting, in the order of their first appearance."""
    found = []
    for delay, mode in dict.fromkeys((row.delay_ms, row.compensation) for row in rows):
        same = [row for row in rows if (row.delay_ms, row.compensation) == (delay, mode)]
        returns = np.array([row.return_ for row in same])
        share = float(np.mean([row.compensated for row in same]))
        found.append(Score(delay, mode, mean_interval(returns), float(returns.min()), share))
    return found


def table(rows: Sequence[Row], *, as_json: bool) -> list[str]:
    """Lines to print."""
    if as_json:
        found = [
            {
                "delay_ms": score.delay_ms,
                "compensation": score.compensation,
                "return": score.return_.mean,
                "return_low": score.return_.low,
                "return_high": score.return_.high,
                "worst": score.worst,
                "compensated": score.compensated,
            }
            for score in scores(rows)
        ]
        return [json.dumps(found, indent=1)]
    lines = [f"{'delay':>8} {'compensation':>13} {'return':>25} {'worst':>8} {'predicted':>10}"]
    for score in scores(rows):
        lines.append(
            f"{score.delay_ms:5g} ms {score.compensation:>13} {_interval(score.return_):>25} "
            f"{score.worst:8.1f} {score.compensated:10.0%}"
        )
    return lines


def write(folder: Path, rows: Sequence[Row], command: str, task: Task) -> list[Path]:
    """Write `episodes.csv`, `return_against_delay.png` and `README.md`; returns them."""
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.rstrip("_") for field in Row._fields])
    for row in rows:
        writer.writerow([f"{x:.6g}" if isinstance(x, float) else x for x in row])
    data, page = folder / "episodes.csv", folder / "README.md"
    write_atomically(data, text.getvalue())
    figure = draw(folder / "return_against_delay.png", rows, task)
    write_atomically(page, _page(rows, command, task, figure.name))
    return [data, figure, page]


def draw(path: Path, rows: Sequence[Row], task: Task) -> Path:
    """Mean return and every episode against the delay."""
    with styled():
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        axes = figure.add_subplot()
        for mode, name in NAMES.items():
            same = [score for score in scores(rows) if score.compensation == mode]
            delays = [score.delay_ms for score in same]
            axes.plot(delays, [score.return_.mean for score in same], color=COLOURS[mode],
                      marker=MARKERS[mode], ms=7, label=name)  # fmt: skip
            episodes = [row for row in rows if row.compensation == mode]
            axes.plot([row.delay_ms for row in episodes], [row.return_ for row in episodes],
                      MARKERS[mode], color=COLOURS[mode], ms=4, alpha=0.3, mew=0)  # fmt: skip
        if task.optimum is not None:
            axes.axhline(task.optimum, color=INK, lw=1.2, ls=(0, (1, 2)), zorder=1)
            axes.annotate(f"optimum without delay {task.optimum:g}", (0, task.optimum), (4, 4),
                          xycoords=("axes fraction", "data"), textcoords="offset points",
                          color=INK, fontsize=10)  # fmt: skip
        axes.set(xlabel="delay from sending a command until it acts [ms]", ylabel="return")
        axes.margins(y=0.1)
        axes.legend(loc="lower left")
        bundles = len({row.bundle for row in rows})
        remark = (
            f"{bundles} bundles, {len(rows) // len(scores(rows))} episodes a point, "
            f"period {1e3 * task.spec.period:g} ms"
        )
        headline(axes, f"{task.name}: commands that act late", remark)
        return save(figure, path)


def _page(rows: Sequence[Row], command: str, task: Task, figure: str) -> str:
    lines = [
        f"# {task.name}: return against the delay of commands",
        "",
        "Made by",
        "",
        f"    {command}",
        "",
        "Physics never waits: a command acts after the tick that chose it and the delay. Returns "
        "are those of the efforts that acted; means over "
        f"{len({row.bundle for row in rows})} bundles and "
        f"{len({row.seed for row in rows})} seeds of planning with 95% bootstrap intervals "
        "(BCa). `episodes.csv` holds every episode. "
        f"The tick takes {np.median([row.tick_ms for row in rows]):.3g} ms, the control period "
        f"{1e3 * task.spec.period:g} ms; the controller is told the delay "
        "(`control.extra_delay`).",
        "",
        "| delay | compensation | return | worst episode | predicted ticks |",
        "| --- | --- | --- | --- | --- |",
    ]
    for score in scores(rows):
        lines.append(
            f"| {score.delay_ms:g} ms | {score.compensation} | {_interval(score.return_)} | "
            f"{signed(score.worst)} | {score.compensated:.0%} |"
        )
    return "\n".join([*lines, "", f"![Return against delay]({figure})", ""])


def _interval(interval: Interval) -> str:
    low, high = signed(interval.low), signed(interval.high)
    return f"{signed(interval.mean)} [{low}, {high}]"
