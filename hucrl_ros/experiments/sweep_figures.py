"""Figures of a sweep: learning curves and best returns, over seeds."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hucrl_ros.envs.base import Array
from hucrl_ros.experiments.results import Results, Series
from hucrl_ros.experiments.statistics import Group, best_returns, mean_interval
from hucrl_ros.experiments.style import GREY, INK, save, styled


def draw_learning_curves(path: Path, results: Results) -> Path:
    """Mean return of each episode with its interval over seeds; one column for each penalty."""
    with styled():
        columns = len(results.penalties)
        figure = Figure(figsize=(max(3.9 * columns, 6.0), 4.2), layout="constrained")
        panels = figure.subplots(1, columns, sharey=True, squeeze=False)[0]
        for axes, penalty in zip(panels, results.penalties, strict=True):
            for group, returns in results.groups.items():
                if group.action_penalty == penalty:
                    series = results.series[group.strategy, group.value]
                    _draw_curve(axes, returns, series)
            _draw_optimum(axes, results.optima[penalty])
            axes.set(xlabel="episode")
            axes.set_title(f"action penalty ρ = {penalty:g}", loc="left")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            axes.grid(visible=False, axis="x")
            axes.margins(y=0.12)
        panels[0].set_ylabel("return")
        _title(figure, results)
        _legend(figure, panels[0], results)
        return save(figure, path)


def _draw_curve(axes: Axes, returns: Array, series: Series) -> None:
    intervals = [mean_interval(column) for column in returns.T]
    mean, low, high = np.array(intervals).T
    episodes = np.arange(len(mean))
    axes.fill_between(episodes, low, high, color=series.colour, alpha=0.18, lw=0)
    axes.plot(episodes, mean, color=series.colour, marker=series.marker, ms=5, label=series.label)


def draw_best_returns(path: Path, results: Results) -> Path:
    """Mean of each run's best return with its interval, and every seed as a dot."""
    with styled():
        columns = len(results.penalties)
        width = max(columns * (0.62 * len(results.series) + 1.4), 6.0)
        figure = Figure(figsize=(width, 4.2), layout="constrained")
        panels = figure.subplots(1, columns, sharey=True, squeeze=False)[0]
        for axes, penalty in zip(panels, results.penalties, strict=True):
            for k, (key, series) in enumerate(results.series.items()):
                returns = results.groups.get(Group(key[0], penalty, key[1]))
                if returns is not None:
                    _draw_bar(axes, k, best_returns(returns), series)
            _draw_optimum(axes, results.optima[penalty])
            _label_bars(axes, results)
            axes.set_title(f"action penalty ρ = {penalty:g}", loc="left")
            axes.grid(visible=False, axis="x")
            axes.axhline(0.0, color=GREY, lw=0.8)
            axes.margins(y=0.12)
            axes.set_xlim(-0.7, len(results.series) - 0.3)
        panels[0].set_ylabel("best return of a run")
        _title(figure, results)
        if panels[0].get_xlabel() == "":
            _legend(figure, panels[0], results)
        return save(figure, path)


def _draw_bar(axes: Axes, position: int, best: Array, series: Series) -> None:
    mean, low, high = mean_interval(best)
    axes.bar(position, mean, width=0.76, color=series.colour, alpha=0.3, label=series.label)
    axes.vlines(position + 0.2, low, high, color=series.colour, lw=3)
    axes.plot(position + 0.2, mean, series.marker, color=series.colour, ms=7, mec="white")
    # Seeds stand next to each other in their order, so that equal ones stay apart.
    places = position + np.linspace(-0.3, 0.05, len(best))
    axes.plot(places, best, ".", color=INK, ms=6, alpha=0.6, mew=0)


def _label_bars(axes: Axes, results: Results) -> None:
    """Values below the bars, where they are all that differs."""
    strategies = {strategy for strategy, _ in results.series}
    if results.setting and len(strategies) == 1:
        axes.set_xticks(range(len(results.series)), [value for _, value in results.series])
        axes.set_xlabel(results.setting)
    else:
        axes.set_xticks([])


def _draw_optimum(axes: Axes, optimum: float | None) -> None:
    if optimum is None:
        return
    axes.axhline(optimum, color=INK, lw=1.2, ls=(0, (1, 2)), zorder=1)
    axes.annotate(
        f"optimum {optimum:g}",
        (0.02, optimum),
        (0, 4),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        fontsize=9.5,
    )


def _title(figure: Figure, results: Results) -> None:
    seeds = max(len(returns) for returns in results.groups.values())
    figure.suptitle(
        f"{results.task}: mean and 95% interval over {seeds} seeds", x=0.01, ha="left",
        fontsize=13, fontweight="bold",
    )  # fmt: skip


def _legend(figure: Figure, axes: Axes, results: Results) -> None:
    """One legend for all panels."""
    handles, labels = axes.get_legend_handles_labels()
    columns = min(len(labels), 6)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns,
                  title=results.setting or None)  # fmt: skip
