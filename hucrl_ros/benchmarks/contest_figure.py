"""Figure of a contest between planners: return against milliseconds."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from hucrl_ros.benchmarks.contest import CONTESTANTS, POLICY, Row, Score, scores
from hucrl_ros.experiments.style import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    INK,
    VERMILION,
    save,
    styled,
)
from hucrl_ros.tasks import Task

SKY, PURPLE, BROWN, OLIVE = "#56B4E9", "#CC79A7", "#8C6D46", "#6B7A1F"
COLOURS = (INK, BLUE, SKY, PURPLE, VERMILION, AMBER, GREEN, BROWN, GREY, OLIVE)
MARKERS = "_os^DdvPX*"
DEPTH = 2.0
"""How far below the median a panel reaches, in distances from the median to the best."""
LOOKS = dict(zip(CONTESTANTS, zip(COLOURS, MARKERS, strict=True), strict=True))


def draw(path: Path, rows: Sequence[Row], task: Task) -> Path:
    """One panel for each bundle, and before them their mean, where there are several.

    A planner's points of as many particles are joined; those of more particles than the fewest
    are hollow. Bars are intervals over episodes. What is far below the others is left out.
    """
    names = list(dict.fromkeys(row.bundle for row in rows))
    with styled():
        panels = len(names) + (len(names) > 1)
        columns = 2 if panels == 4 else min(panels, 3)
        lines = -(-panels // columns)
        figure = Figure(figsize=(max(4.2 * columns, 7.0), 3.6 * lines + 1.0), layout="constrained")
        grid = figure.subplots(lines, columns, squeeze=False).flat
        axes = list(grid)
        for unused in axes[panels:]:
            unused.set_visible(False)
        titled = [(name, [row for row in rows if row.bundle == name]) for name in names]
        if len(names) > 1:
            titled = [("mean over the bundles", list(rows)), *titled]
        for panel, (title, own) in zip(axes, titled, strict=False):
            _draw_panel(panel, scores(own), intervals=title in names)
            panel.set_title(title, loc="left")
            if task.optimum is not None:
                panel.axhline(task.optimum, color=INK, lw=1.2, ls=(0, (1, 2)), zorder=1)
            means = [score.return_.mean for score in scores(own)]
            _zoom(panel, means, top=max(means))
        for left in axes[:panels:columns]:
            left.set_ylabel("return")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=min(len(labels), 3 if columns == 1 else 5),
        )
        figure.suptitle(
            f"{task.name}: return against planning time", x=0.01, ha="left", fontsize=13,
            fontweight="bold",
        )  # fmt: skip
        return save(figure, path)


def _zoom(axes: Axes, returns: Sequence[float], top: float) -> None:
    """Leave out what is far below the middle, so that the good ones can be told apart."""
    middle = float(np.median(returns))
    floor = middle - DEPTH * (top - middle)
    if min(returns) < floor:
        highest = max(axes.dataLim.y1, top)
        axes.set_ylim(floor, highest + 0.05 * (highest - floor))


def _draw_panel(axes: Axes, found: Sequence[Score], intervals: bool) -> None:
    planned = [score for score in found if score.planner != POLICY]
    for score in found:
        if score.planner == POLICY:
            axes.axhline(score.return_.mean, color=INK, lw=1.5, label="policy alone")
    fewest = min((score.size.particles for score in planned), default=0)
    for name, particles in dict.fromkeys((s.planner, s.size.particles) for s in planned):
        own = [s for s in planned if (s.planner, s.size.particles) == (name, particles)]
        own.sort(key=lambda score: score.tick_p50_ms)
        colour, marker = LOOKS[name]
        times = [score.tick_p50_ms for score in own]
        if intervals:
            low, high = zip(*((s.return_.low, s.return_.high) for s in own), strict=True)
            axes.vlines(times, low, high, color=colour, lw=1.5, alpha=0.4)
        few = particles == fewest
        axes.plot(
            times,
            [score.return_.mean for score in own],
            marker=marker,
            color=colour,
            mfc=colour if few else "white",
            ms=6,
            lw=1.2,
            label=name if few else None,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("median tick [ms]")
