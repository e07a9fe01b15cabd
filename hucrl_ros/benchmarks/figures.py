"""Figures of the benchmarks' results."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter, StrMethodFormatter

from hucrl_ros.benchmarks.results import (
    POLICY,
    DelayRow,
    LoopRow,
    PlannerRow,
    PlannerScore,
    TickRow,
    delay_scores,
    planner_scores,
)
from hucrl_ros.experiments.presentation import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    INK,
    VERMILION,
    draw_optimum,
    drawing,
    headline,
    overall_title,
)
from hucrl_ros.tasks import Task

ENGINES = {"compiled": BLUE, "onnx": GREEN}
COMPENSATION = {
    "never": ("without compensation", VERMILION, "s"),
    "auto": ("with compensation", BLUE, "o"),
}
PLANNERS = {
    POLICY: (INK, "_"),
    "dyna_mpc": (BLUE, "o"),
    "poplin_a": ("#56B4E9", "s"),
    "poplin_bias": ("#CC79A7", "^"),
    "cem warm": (VERMILION, "D"),
    "cem cold": (AMBER, "d"),
    "icem": (GREEN, "v"),
    "mppi": ("#8C6D46", "P"),
    "random_shooting": (GREY, "X"),
    "ilqr": ("#6B7A1F", "*"),
}
"""Colour and marker of each planner."""
DEPTH = 2.0
"""How far below the median a panel reaches, in distances from the median to the best."""


def draw_ticks(path: Path, rows: Sequence[TickRow]) -> Path:
    """Median tick of each system and size: a bar for each engine and number of threads."""
    cases = list(dict.fromkeys(row.case for row in rows))
    ways = list(dict.fromkeys((row.engine, row.threads) for row in rows))
    height = 0.8 / len(ways)
    tall = 1.6 + 0.2 * len(cases) * (len(ways) + 1)
    with drawing(path, (9.0, tall)) as figure:
        axes = figure.add_subplot()
        for row in rows:
            way = ways.index((row.engine, row.threads))
            at = cases.index(row.case) + (way - (len(ways) - 1) / 2) * height
            alpha = 0.55 if row.threads > 1 else 1.0
            axes.barh(at, row.p50_ms, 0.9 * height, color=ENGINES[row.engine], alpha=alpha)
            axes.plot([row.p50_ms, row.p99_ms], [at, at], color=GREY, linewidth=1.0)
            remark = f" {row.p50_ms:.2f} ms, {row.share:.0%}"
            axes.annotate(remark, (max(row.p50_ms, row.p99_ms), at), va="center", fontsize=8.5)
        axes.set_yticks(range(len(cases)), ["\n".join(case) for case in cases])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlim(right=3.0 * max(row.p99_ms for row in rows))
        axes.set_xlabel("one planning tick [ms]: bar to the median, line to p99")
        axes.grid(axis="y", visible=False)
        for engine, threads in ways:
            label = f"{engine}, {threads} thread{'s' * (threads > 1)}"
            alpha = 0.55 if threads > 1 else 1.0
            axes.barh([0], [np.nan], color=ENGINES[engine], alpha=alpha, label=label)
        figure.legend(loc="outside lower center", ncols=3)
        axes.margins(y=0.01)
        headline(axes, "A planning tick", "% of the rate of a 512³ matrix product")
    return path


def draw_latencies(path: Path, rows: Sequence[LoopRow], machine: str) -> Path:
    """How many joint states wait longer than a time for their command, down to the rarest."""
    rates = list(dict.fromkeys(row.rate for row in rows))
    with drawing(path, (1.6 + 3.4 * len(rates), 4.4)) as figure:
        panels = figure.subplots(1, len(rates), squeeze=False)[0]
        for axes, rate in zip(panels, rates, strict=True):
            for row in (row for row in rows if row.rate == rate):
                known = np.sort(row.latencies[np.isfinite(row.latencies)])
                # A state without a command waits longer than any.
                shares = 1.0 - np.arange(len(known)) / len(row.latencies)
                colour = BLUE if row.planning == "on" else GREEN
                axes.plot(1e3 * known, shares, color=colour, label=f"planning {row.planning}")
            axes.axvline(1e3 / rate, color=VERMILION, lw=1.4, label="period")
            axes.set(xlabel="latency [ms]", xscale="log", yscale="log", title=f"{rate:g} Hz")
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        panels[0].set(ylabel="share of joint states that waits longer")
        panels[0].legend(loc="lower left")
        figure.suptitle(f"{rows[0].task}: from joint state to command and back\n{machine}")
    return path


def draw_delays(path: Path, rows: Sequence[DelayRow], task: Task) -> Path:
    """Mean return and every episode against the delay."""
    scores = delay_scores(rows)
    with drawing(path, (7.2, 4.4)) as figure:
        axes = figure.add_subplot()
        for mode, (name, colour, marker) in COMPENSATION.items():
            same = [score for score in scores if score.compensation == mode]
            delays = [score.delay_ms for score in same]
            axes.plot(delays, [score.return_.mean for score in same], color=colour,
                      marker=marker, ms=7, label=name)  # fmt: skip
            episodes = [row for row in rows if row.compensation == mode]
            axes.plot([row.delay_ms for row in episodes], [row.return_ for row in episodes],
                      marker, color=colour, ms=4, alpha=0.3, mew=0)  # fmt: skip
        draw_optimum(axes, task.optimum, "optimum without delay")
        axes.set(xlabel="delay from sending a command until it acts [ms]", ylabel="return")
        axes.margins(y=0.1)
        axes.legend(loc="lower left")
        bundles = len({row.bundle for row in rows})
        remark = (
            f"{bundles} bundles, {len(rows) // len(scores)} episodes a point, "
            f"period {1e3 * task.spec.period:g} ms"
        )
        headline(axes, f"{task.name}: commands that act late", remark)
    return path


def draw_planners(path: Path, rows: Sequence[PlannerRow], tasks: Mapping[str, Task]) -> Path:
    """One panel for each bundle, and before them their mean, where there are several.

    A planner's points of as many particles are joined; those of more particles than the fewest
    are hollow. Bars are intervals over episodes. What is far below the others is left out.
    """
    names = list(dict.fromkeys(row.bundle for row in rows))
    titled = [(name, [row for row in rows if row.bundle == name]) for name in names]
    if len(names) > 1:
        titled = [("mean over the bundles", list(rows)), *titled]
    panels = len(titled)
    columns = 2 if panels == 4 else min(panels, 3)
    lines = -(-panels // columns)
    with drawing(path, (max(4.2 * columns, 7.0), 3.6 * lines + 1.0)) as figure:
        every = list(figure.subplots(lines, columns, squeeze=False).flat)
        for unused in every[panels:]:
            unused.set_visible(False)
        for axes, (title, own) in zip(every, titled, strict=False):
            scores = planner_scores(own)
            _draw_scores(axes, scores, intervals=title in names)
            axes.set_title(title, loc="left")
            own_tasks = [tasks[title]] if title in tasks else list(tasks.values())
            optimum, *others = dict.fromkeys(task.optimum for task in own_tasks)
            if optimum is not None and not others:  # of one action penalty
                axes.axhline(optimum, color=INK, lw=1.2, ls=(0, (1, 2)), zorder=1)
            _zoom(axes, [score.return_.mean for score in scores])
        for left in every[:panels:columns]:
            left.set_ylabel("return")
        handles, labels = every[0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=min(len(labels), 3 if columns == 1 else 5),
        )
        title = f"{next(iter(tasks.values())).name}: return against planning time"
        overall_title(figure, title)
    return path


def _zoom(axes: Axes, returns: Sequence[float]) -> None:
    """Leave out what is far below the middle, so that the good ones can be told apart."""
    middle, top = float(np.median(returns)), max(returns)
    floor = middle - DEPTH * (top - middle)
    if min(returns) < floor:
        highest = max(axes.dataLim.y1, top)
        axes.set_ylim(floor, highest + 0.05 * (highest - floor))


def _draw_scores(axes: Axes, scores: Sequence[PlannerScore], intervals: bool) -> None:
    planned = [score for score in scores if score.planner != POLICY]
    for score in scores:
        if score.planner == POLICY:
            axes.axhline(score.return_.mean, color=INK, lw=1.5, label="policy alone")
    fewest = min((score.size.particles for score in planned), default=0)
    for name, particles in dict.fromkeys((s.planner, s.size.particles) for s in planned):
        own = [s for s in planned if (s.planner, s.size.particles) == (name, particles)]
        own.sort(key=lambda score: score.tick_p50_ms)
        colour, marker = PLANNERS[name]
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
