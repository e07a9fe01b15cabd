"""All pictures and videos of a run, from what lies in its folder."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hucrl_ros.bags.reader import read_episode
from hucrl_ros.controller.bundle import PROMISE, Promise
from hucrl_ros.errors import BagError
from hucrl_ros.experiments.figures import PlayedEpisode, learning_curve, tick_times
from hucrl_ros.experiments.phase import VIEWS, phase_plot
from hucrl_ros.experiments.video import Clip, render_videos
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import read_summary
from hucrl_ros.tasks import Task, make_task

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
                promise=read_promise(run.bundle(index) / PROMISE),
                tick_ms=np.asarray(tick_ms[known], dtype=np.float64),
                missed=np.asarray(recorded.ticks["missed"][known], dtype=np.bool_),
            )
        )
    return episodes


def read_promise(path: Path) -> Promise | None:
    """What a bundle imagined; None where it has no such file, or a damaged one."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return Promise(*(arrays[field].astype(np.float64) for field in Promise._fields))
    except (ValueError, OSError, EOFError, KeyError) as error:
        logger.warning("left out of the pictures: %s: %s", path, error)
        return None


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
