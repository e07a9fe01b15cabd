"""All pictures and videos of a run, from what lies in its folder."""

import logging
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, StrMethodFormatter
from numpy.typing import NDArray

from hucrl_ros.experiments.evaluation import PlayedEpisode, load_episodes
from hucrl_ros.experiments.phase import VIEWS, phase_plot, run_title
from hucrl_ros.experiments.presentation import (
    BLUE,
    GREY,
    VERMILION,
    draw_optimum,
    drawing,
    headline,
    signed,
)
from hucrl_ros.experiments.video import Clip, render_videos
from hucrl_ros.robots.mujoco_robot import Array
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import Summary, read_summary
from hucrl_ros.tasks import make_task


def learning_curve(path: Path, summary: Summary, random_episodes: int) -> Path:
    """Return and predicted return of each episode, with the optimum as a line.

    Args:
        path: The picture's file.
        summary: A run with at least one episode.
        random_episodes: How many of the first bundles are random.
    """
    episodes = summary.episodes
    index = np.array([episode.index for episode in episodes])
    returns = np.array([episode.return_ for episode in episodes])
    random = np.array([episode.flown for episode in episodes]) < random_episodes
    predicted = [(e.index, e.predicted_return) for e in episodes if e.predicted_return is not None]
    cut = np.array([episode.cut for episode in episodes])
    best = int(np.where(cut, -np.inf, returns).argmax())
    with drawing(path, (7.2, 4.4)) as figure:
        axes = figure.add_subplot()
        if predicted:
            axes.plot(*zip(*predicted, strict=True), "--s", color=VERMILION, ms=5, lw=1.5,
                      label="predicted by the model")  # fmt: skip
        axes.plot(index, np.where(cut, np.nan, returns), "-o", color=BLUE, ms=7, label="real")
        if (random := random & ~cut).any():
            axes.plot(index[random], returns[random], "o", color=BLUE, mfc="white", ms=7, mew=1.8,
                      label="random efforts")  # fmt: skip
        if cut.any():
            axes.plot(index[cut], returns[cut], "x", color=GREY, ms=7, mew=1.8,
                      label="until a surprise ended it")  # fmt: skip
        draw_optimum(axes, summary.optimum)
        axes.set(xlabel="episode", ylabel="return")
        axes.margins(y=0.1)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.grid(visible=False, axis="x")
        axes.legend(loc="best")
        told = _best_remark(summary, float(returns[best]), int(index[best]))
        headline(axes, run_title(summary), "no whole episode" if cut.all() else told)
    return path


def _best_remark(summary: Summary, best: float, episode: int) -> str:
    of = "" if summary.optimum is None else f" of {summary.optimum:g}"
    return f"best return {signed(best)}{of}, in episode {episode}"


def tick_times(
    path: Path, summary: Summary, episodes: Sequence[PlayedEpisode], period_ms: float
) -> Path:
    """Durations of all control ticks in order, and how many exceed a duration.

    Args:
        path: The picture's file.
        summary: The run, for the title.
        episodes: At least one of them with ticks.
        period_ms: Control period [ms].
    """
    ticks = np.concatenate([episode.tick_ms for episode in episodes])
    missed = np.concatenate([episode.missed for episode in episodes])
    with drawing(path, (9.6, 4.2)) as figure:
        series, tail = figure.subplots(1, 2, sharey=True, width_ratios=[2, 1])
        _draw_series(series, episodes, ticks, missed)
        planned = [episode.tick_ms for episode in episodes if not episode.random]
        _draw_tail(tail, np.concatenate(planned) if planned else ticks)
        for axes in (series, tail):
            axes.axhline(period_ms, color=VERMILION, lw=1.4)
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        tail.annotate(f"period {period_ms:g} ms", (0.02, period_ms), (0, 4),
                      xycoords=("axes fraction", "data"), textcoords="offset points",
                      color=VERMILION, fontsize=10)  # fmt: skip
        mode = summary.mode.replace("_", " ")
        remark = (
            f"{len(ticks)} ticks, {mode}: "
            f"{int(missed.sum())} longer than the period ({float(missed.mean()):.2%})"
        )
        headline(series, f"Control ticks: {run_title(summary)}", remark)
    return path


def _draw_series(
    axes: Axes, episodes: Sequence[PlayedEpisode], ticks: Array, missed: NDArray[np.bool_]
) -> None:
    """All ticks, one after the other; every second episode on a shaded ground."""
    starts = np.cumsum([0, *(len(episode.tick_ms) for episode in episodes)])
    for k in range(0, len(episodes), 2):
        axes.axvspan(starts[k], starts[k + 1], color="#F3F5F7", lw=0)
    numbers = np.arange(len(ticks))
    axes.plot(numbers[~missed], ticks[~missed], ".", color=BLUE, ms=2.5, alpha=0.6, mew=0)
    axes.plot(numbers[missed], ticks[missed], "x", color=VERMILION, ms=6)
    every = max(1, math.ceil(len(episodes) / 20))
    centres = (starts[:-1] + starts[1:]) / 2
    axes.set_xticks(centres[::every], [str(episode.index) for episode in episodes[::every]])
    axes.tick_params(axis="x", length=0)
    axes.set(xlabel="episode", ylabel="tick [ms]", yscale="log", xlim=(0, len(ticks)))
    axes.grid(visible=False, axis="x")


def _draw_tail(axes: Axes, ticks: Array) -> None:
    """Share of the planned ticks that took longer than a duration, down to the rarest."""
    shares = 1.0 - np.arange(len(ticks)) / len(ticks)
    axes.plot(shares, np.sort(ticks), color=BLUE, drawstyle="steps-post")
    axes.set(xlabel="share of planned ticks above", xscale="log")
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda share, _: f"{share:.4%}".rstrip("%0").rstrip(".") + "%")
    )
    axes.invert_xaxis()
    lines = []
    for name, quantile in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)):
        value = float(np.quantile(ticks, quantile))
        lines.append(f"{name}  {value:.3g} ms")
        if quantile < 1.0:
            axes.plot(1 - quantile, value, "o", color=BLUE, ms=5, mfc="white")
    axes.annotate("\n".join(lines), (0.97, 0.05), xycoords="axes fraction", ha="right",
                  fontsize=10, linespacing=1.5)  # fmt: skip


logger = logging.getLogger(__name__)


def make_report(run: RunFolder, videos: bool = True) -> list[Path]:
    """Draw `figures/` and `videos/` of a run; files that lie there already are replaced.

    What can't be drawn is left out and logged in one line each: an unreadable bag, videos on a
    machine that can't render.

    Args:
        run: A run with a summary.
        videos: Also render the first and the best episode.

    Returns:
        The files.

    Raises:
        RunError: the run has no readable summary.
        ConfigError: its settings can't be read.
    """
    summary, config = read_summary(run.summary), run.config
    task = make_task(summary.task, summary.action_penalty, run.robot)
    if not summary.episodes:
        logger.warning("%s: no finished episode, so nothing to draw", run.root)
        return []
    random_episodes = config.exploration.random_episodes
    indices = [episode.index for episode in summary.episodes if episode.bag is not None]
    episodes = load_episodes(run, task, indices, random_episodes)
    files = [learning_curve(run.figures / "learning_curve.png", summary, random_episodes)]
    if episodes and task.name in VIEWS:
        limit = task.spec.effort_limits[0]
        files.append(phase_plot(run.figures / "phase.png", summary, episodes, limit))
    ticked = [episode for episode in episodes if len(episode.tick_ms)]
    if ticked:
        period_ms = 1e3 * task.spec.period
        files.append(tick_times(run.figures / "ticks.png", summary, ticked, period_ms))
    if videos and episodes:
        files += render_videos(run.videos, task.name, choose_clips(episodes), run.robot)
    return files


def choose_clips(episodes: Sequence[PlayedEpisode]) -> list[Clip]:
    """The first and the best whole episode, or the last where the first is the best."""
    first = episodes[0]
    best = max(episodes, key=lambda episode: -math.inf if episode.cut else episode.total)
    titles = {episode.index: episode.name for episode in (first, episodes[-1])}
    titles[best.index] = f"episode {best.index} (best)"
    other = episodes[-1] if first is best else best
    chosen = [first] if first is other else [first, other]
    return [
        Clip(
            name=f"episode_{episode.index:03d}",
            title=titles[episode.index],
            states=episode.states,
            actions=episode.actions,
            rewards=episode.rewards,
        )
        for episode in chosen
    ]
