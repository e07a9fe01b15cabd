"""Phase plots: what episodes did, against what their models predicted.

`phase_plot` is of one run, `draw_phase_grid` of several (App. Inverted Pendulum).
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.experiments.evaluation import PlayedEpisode, load_episodes
from hucrl_ros.experiments.presentation import (
    EFFORT_COLOURS,
    INK,
    VERMILION,
    drawing,
    overall_title,
    signed,
)
from hucrl_ros.robots.mujoco_robot import Array
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import Summary
from hucrl_ros.tasks import make_task

MAX_PANELS = 12
COLUMNS = 4
_PREDICTED: dict[str, Any] = {"lw": 1.1, "ls": (0, (2.5, 1.5)), "alpha": 0.8}


class PhaseView(NamedTuple):
    """How a robot's first joint is drawn."""

    lower: float
    """Least angle shown [rad]."""
    upper: float
    """Largest angle shown [rad], more than 2π above `lower`."""
    ticks: dict[float, str]
    """Angles that have a name [rad]."""
    goals: tuple[tuple[float, float], ...]
    """Where the joint should get to: angles [rad] and speeds [rad/s]."""


VIEWS = {
    "pendulum": PhaseView(
        # Hanging in the middle, upright at both sides: a swing-up is one unbroken line.
        lower=-math.pi / 4,
        upper=2 * math.pi + math.pi / 4,
        ticks={0.0: "upright", math.pi: "hanging", 2 * math.pi: "upright"},
        goals=((0.0, 0.0), (2 * math.pi, 0.0)),
    )
}
"""By task. Others get no phase plot."""


def run_title(summary: Summary) -> str:
    """Task and settings of a run."""
    return (
        f"{summary.task}, {summary.strategy}, ρ = {summary.action_penalty:g}, seed {summary.seed}"
    )


def phase_plot(
    path: Path, summary: Summary, episodes: Sequence[PlayedEpisode], effort_limit: float
) -> Path:
    """One panel an episode: angle and speed, really and as predicted.

    Args:
        path: The picture's file.
        summary: The run; its task is one of `VIEWS`.
        episodes: At least one.
        effort_limit: Largest absolute effort of the first actuated joint [N m or N].
    """
    view = VIEWS[summary.task]
    shown = select_episodes(episodes, MAX_PANELS)
    rows = math.ceil(len(shown) / COLUMNS)
    columns = math.ceil(len(shown) / rows)
    width = max(2.75 * columns + 0.9, 6.4)
    with drawing(path, (width, 2.5 * rows + 1.3)) as figure:
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, episode in zip(panels.flat, shown, strict=False):
            _draw_episode(axes, view, episode, effort_limit)
        for axes in panels.flat[len(shown) :]:
            axes.set_visible(False)
        _label_panels(panels, view, len(shown))
        overall_title(figure, run_title(summary))
        _explain(figure, panels, effort_limit)
    return path


class PlayedRun(NamedTuple):
    """A row of the figure."""

    task: str
    action_penalty: float
    effort_limit: float
    """Of the first actuated joint [N m or N]."""
    episodes: list[PlayedEpisode]


def played_run(run: RunFolder, episodes: int) -> PlayedRun:
    """The first `episodes` that were not random of a run.

    Raises:
        RunError: one has no readable bag.
    """
    config = run.config
    task = make_task(config.task, config.action_penalty, run.robot)
    first = config.exploration.random_episodes
    indices = range(first, min(first + episodes, config.episodes))
    played = load_episodes(run, task, indices, first)
    if len(played) < len(indices):
        raise RunError(f"{run.root}: a bag is missing or unreadable; delete the run, train again")
    return PlayedRun(config.task, config.action_penalty, task.spec.effort_limits[0], played)


def draw_phase_grid(path: Path, runs: Sequence[PlayedRun]) -> Path:
    """One row a run, one column an episode.

    Raises:
        ConfigError: the task has no phase view.
    """
    task, limit = runs[0].task, runs[0].effort_limit
    if task not in VIEWS:
        raise ConfigError(f"task: {task!r} has no phase plot; those that have: {', '.join(VIEWS)}")
    columns = max(len(run.episodes) for run in runs)
    size = (2.3 * columns + 1.2, 2.2 * len(runs) + 1.0)
    with drawing(path, size) as figure:
        panels = figure.subplots(len(runs), columns, sharex=True, sharey=True, squeeze=False)
        for row, run in zip(panels, runs, strict=True):
            for axes, episode in zip(row, run.episodes, strict=False):
                _draw_episode(axes, VIEWS[task], episode, limit)
            for axes in row[len(run.episodes) :]:
                axes.set_visible(False)
        _label_panels(panels, VIEWS[task], panels.size)
        for row, run in zip(panels, runs, strict=True):
            row[0].set_ylabel(f"ρ = {run.action_penalty:g}\nspeed [rad/s]")
        _explain(figure, panels, limit)
    return path


def select_episodes(episodes: Sequence[PlayedEpisode], count: int) -> list[PlayedEpisode]:
    """At most `count` episodes: the first, the best, the last and others evenly between."""
    if len(episodes) <= count:
        return list(episodes)
    best = max(range(len(episodes)), key=lambda k: episodes[k].total)
    even = np.linspace(0, len(episodes) - 1, count).round().astype(int).tolist()
    if best not in even:
        even[min(range(1, count - 1), key=lambda k: abs(even[k] - best))] = best
    return [episodes[k] for k in sorted(even)]


def _draw_episode(
    axes: Axes, view: PhaseView, episode: PlayedEpisode, effort_limit: float
) -> None:
    """Draw one episode, its efforts as colours, and what its model predicted."""
    joints = episode.states.shape[1] // 2
    points = phase_points(episode.states, joints, view)
    segments = np.stack([points[:-1], points[1:]], axis=1)
    whole = unbroken(points)
    lines = LineCollection(
        list(segments[whole]), cmap=EFFORT_COLOURS, norm=Normalize(0, effort_limit), lw=2.2
    )
    lines.set_array(np.abs(episode.actions[whole, 0]))
    lines.set_capstyle("round")
    axes.add_collection(lines)
    axes.margins(y=0.08)
    if episode.imagined is not None:
        predicted = phase_points(episode.imagined.states, joints, view)
        torn = np.flatnonzero(~unbroken(predicted)) + 1
        axes.plot(*np.insert(predicted, torn, np.nan, axis=0).T, color=INK, **_PREDICTED)
    for goal in view.goals:
        axes.plot(*goal, "*", color=VERMILION, mec="white", ms=14, zorder=4)
    axes.plot(*points[0], "o", color=INK, mfc="white", ms=7, zorder=5)
    axes.set_title(f"{episode.name}: {signed(episode.total)}", fontsize=10.5, loc="left")


def phase_points(states: Array, joints: int, view: PhaseView) -> Array:
    """Angle and speed `(N, 2)` of the first joint in states `(N, p)`.

    An angle that leaves the view comes back at the other side, a turn away; as the view is
    wider than a turn, a line that only just crosses its edge isn't torn at each crossing.
    """
    turn, shift = 2 * math.pi, 0.0
    angles = np.empty(len(states))
    for k, angle in enumerate(states[:, 0]):
        if angle + shift > view.upper:
            shift -= turn * math.ceil((angle + shift - view.upper) / turn)
        elif angle + shift < view.lower:
            shift += turn * math.ceil((view.lower - angle - shift) / turn)
        angles[k] = angle + shift
    return np.stack([angles, states[:, joints]], axis=-1)


def unbroken(points: Array) -> NDArray[np.bool_]:
    """Whether points k and k + 1 of `(N, 2)` lie on the same side of the view's edge."""
    same: NDArray[np.bool_] = np.abs(np.diff(points[:, 0])) <= math.pi
    return same


def _label_panels(panels: NDArray[np.object_], view: PhaseView, count: int) -> None:
    """Name angles and speeds; the first `count` panels are in use."""
    columns = panels.shape[1]
    for k, axes in enumerate(panels.flat[:count]):
        axes.set_xlim(view.lower, view.upper)
        axes.set_xticks(list(view.ticks), list(view.ticks.values()))
        axes.tick_params(axis="x", labelsize=9)
        if k + columns >= count:
            axes.tick_params(labelbottom=True)
        if k % columns == 0:
            axes.set_ylabel("speed [rad/s]")


def _explain(figure: Figure, panels: NDArray[np.object_], effort_limit: float) -> None:
    """What colours, lines and marks mean."""
    colours = ScalarMappable(Normalize(0, effort_limit), EFFORT_COLOURS)
    bar = figure.colorbar(colours, ax=panels, aspect=25, pad=0.015, shrink=0.9)
    bar.set_label("size of the effort [N m]")
    bar.ax.spines["outline"].set_visible(False)
    handles = [
        Line2D([], [], color=EFFORT_COLOURS(0.5), lw=2.2, label="real"),
        Line2D([], [], color=INK, label="predicted by the model", **_PREDICTED),
        Line2D([], [], color=INK, mfc="white", marker="o", ls="", ms=7, label="start"),
        Line2D([], [], color=VERMILION, mec="white", marker="*", ls="", ms=14, label="goal"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
