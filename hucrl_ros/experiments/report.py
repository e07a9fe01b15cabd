"""All pictures and videos of a run, from what lies in its folder."""

import logging
from collections.abc import Sequence
from pathlib import Path

from hucrl_ros.experiments.figures import (
    PlayedEpisode,
    learning_curve,
    load_episodes,
    tick_times,
)
from hucrl_ros.experiments.phase import VIEWS, phase_plot
from hucrl_ros.experiments.video import Clip, render_videos
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import read_summary
from hucrl_ros.tasks import make_task

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
    """The first and the best episode; only one clip where they are the same."""
    first, best = episodes[0], max(episodes, key=lambda episode: episode.total)
    titles = {first.index: first.name}
    titles[best.index] = f"episode {best.index} (best)"
    chosen = [first] if first is best else [first, best]
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
