"""Real against imagined trajectories of several runs, a row each (App. Inverted Pendulum)."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.experiments.figures import PlayedEpisode
from hucrl_ros.experiments.phase import VIEWS, draw_episode, label_panels, legend
from hucrl_ros.experiments.report import load_episodes
from hucrl_ros.experiments.style import EFFORT_COLOURS, save, styled
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import make_task


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
    with styled():
        size = (2.3 * columns + 1.2, 2.2 * len(runs) + 1.0)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(runs), columns, sharex=True, sharey=True, squeeze=False)
        for row, run in zip(panels, runs, strict=True):
            for axes, episode in zip(row, run.episodes, strict=False):
                draw_episode(axes, VIEWS[task], episode, limit)
            for axes in row[len(run.episodes) :]:
                axes.set_visible(False)
        label_panels(panels, VIEWS[task], panels.size)
        for row, run in zip(panels, runs, strict=True):
            row[0].set_ylabel(f"ρ = {run.action_penalty:g}\nspeed [rad/s]")
        colours = ScalarMappable(Normalize(0, limit), EFFORT_COLOURS)
        bar = figure.colorbar(colours, ax=panels, aspect=30, pad=0.01, shrink=0.8)
        bar.set_label("size of the effort [N m]")
        bar.ax.spines["outline"].set_visible(False)
        figure.legend(handles=legend(), loc="outside lower center", ncols=4)
        return save(figure, path)
