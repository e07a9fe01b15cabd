"""Pictures of one run: its episodes, their learning curve and tick times."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, StrMethodFormatter
from numpy.typing import NDArray

from hucrl_ros.bags.reader import read_episode
from hucrl_ros.controller.bundle import IMAGINED, ImaginedEpisode
from hucrl_ros.errors import BagError
from hucrl_ros.experiments.style import (
    BLUE,
    VERMILION,
    draw_optimum,
    headline,
    save,
    signed,
    styled,
)
from hucrl_ros.robots.mujoco_robot import Array
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import Summary
from hucrl_ros.tasks import Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlayedEpisode:
    """What the pictures show of an episode."""

    index: int
    states: Array
    """`(T + 1, p)`."""
    actions: Array
    """`(T, q)` [N m or N]."""
    rewards: Array
    """`(T,)`."""
    random: bool
    """Played by random efforts."""
    imagined: ImaginedEpisode | None
    """The episode that its bundle imagined."""
    tick_ms: Array
    """`(N,)` durations of the control ticks [ms]; empty where there were none."""
    missed: NDArray[np.bool_]
    """`(N,)` whether a tick took longer than the control period."""

    @property
    def total(self) -> float:
        """The episode's return."""
        return float(self.rewards.sum())

    @property
    def name(self) -> str:
        """For titles."""
        return f"episode {self.index}" + (" (random)" if self.random else "")


def load_episodes(
    run: RunFolder, task: Task, indices: Sequence[int], random_episodes: int
) -> list[PlayedEpisode]:
    """The episodes with a readable bag that holds at least one transition."""
    episodes = []
    for index in indices:
        try:
            recorded = read_episode(run.bag(index), task.spec, task.steps)
        except BagError as error:
            logger.warning("left out of the pictures: %s", error)
            continue
        if not len(recorded.actions):
            logger.warning("left out of the pictures: %s: no transition", run.bag(index))
            continue
        tick_ms = recorded.ticks["tick_ms"]
        known = np.isfinite(tick_ms)
        episodes.append(
            PlayedEpisode(
                index=index,
                states=recorded.states,
                actions=recorded.actions,
                rewards=task.rewards(recorded.states[:-1], recorded.actions),
                random=index < random_episodes,
                imagined=read_imagined(run.bundle(index) / IMAGINED),
                tick_ms=np.asarray(tick_ms[known], dtype=np.float64),
                missed=np.asarray(recorded.ticks["missed"][known], dtype=np.bool_),
            )
        )
    return episodes


def read_imagined(path: Path) -> ImaginedEpisode | None:
    """What a bundle imagined; None where it has no such file, or a damaged one."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return ImaginedEpisode(
                *(arrays[field].astype(np.float64) for field in ImaginedEpisode._fields)
            )
    except (ValueError, OSError, EOFError, KeyError) as error:
        logger.warning("left out of the pictures: %s: %s", path, error)
        return None


def run_title(summary: Summary) -> str:
    """Task and settings of a run."""
    return (
        f"{summary.task}, {summary.strategy}, ρ = {summary.action_penalty:g}, seed {summary.seed}"
    )


def learning_curve(path: Path, summary: Summary, random_episodes: int) -> Path:
    """Return and predicted return of each episode, with the optimum as a line.

    Args:
        path: The picture's file.
        summary: A run with at least one episode.
        random_episodes: How many of the first episodes were random.
    """
    episodes = summary.episodes
    index = np.array([episode.index for episode in episodes])
    returns = np.array([episode.return_ for episode in episodes])
    random = index < random_episodes
    predicted = [(e.index, e.predicted_return) for e in episodes if e.predicted_return is not None]
    best = int(returns.argmax())
    with styled():
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        axes = figure.add_subplot()
        if predicted:
            axes.plot(*zip(*predicted, strict=True), "--s", color=VERMILION, ms=5, lw=1.5,
                      label="predicted by the model")  # fmt: skip
        axes.plot(index, returns, "-o", color=BLUE, ms=7, label="real")
        axes.plot(index[random], returns[random], "o", color=BLUE, mfc="white", ms=7, mew=1.8,
                  label="random efforts")  # fmt: skip
        draw_optimum(axes, summary.optimum)
        axes.set(xlabel="episode", ylabel="return")
        axes.margins(y=0.1)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.grid(visible=False, axis="x")
        axes.legend(loc="best")
        headline(
            axes, run_title(summary), _best_remark(summary, float(returns[best]), int(index[best]))
        )
        return save(figure, path)


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
    with styled():
        figure = Figure(figsize=(9.6, 4.2), layout="constrained")
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
        return save(figure, path)


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
