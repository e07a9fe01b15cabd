"""A whole run in one process, without ROS: the same learner, bundles, agent and guard."""

import time
from collections.abc import Callable

import numpy as np

from hucrl_ros.config import Config
from hucrl_ros.learner import Learner
from hucrl_ros.recorded import Recorded
from hucrl_ros.runs import RunFolder
from hucrl_ros.runtime.agent import Agent
from hucrl_ros.runtime.bundle import load_bundle
from hucrl_ros.runtime.guard import Guard
from hucrl_ros.runtime.manifest import read_manifest
from hucrl_ros.summary import EpisodeSummary, Summary, TickStatistics, write_summary
from hucrl_ros.tasks import Task

Report = Callable[[EpisodeSummary], None]


def train(config: Config, run: RunFolder, report: Report = lambda episode: None) -> Summary:
    """Play and learn `config.episodes` episodes; leaves bundles and `summary.json` in `run`.

    Args:
        config: The run's settings; the mode is ignored, physics waits for every command.
        run: Where to write.
        report: Called with each finished episode.
    """
    began, began_cpu = time.perf_counter(), time.process_time()
    learner = Learner(config, run)
    learner.export_initial()
    recorded: list[Recorded] = []
    episodes: list[EpisodeSummary] = []

    def write() -> Summary:
        summary = Summary.of(
            config,
            optimum=learner.task.optimum,
            episodes=episodes,
            wall_s=time.perf_counter() - began,
            cpu_s=time.process_time() - began_cpu,
            in_process=True,
        )
        write_summary(run.summary, summary)
        return summary

    for index in range(config.episodes):
        played, episode = play(learner.task, config, run, index)
        recorded.append(played)
        learned = read_manifest(learner.learn_from(recorded, lambda phase, share: None)).report
        update = {
            "fit_s": learned.fit_s,
            "search_s": learned.search_s,
            "complexity": learned.complexity,
        }
        episodes.append(episode.model_copy(update=update))
        report(episodes[-1])
        write()
    return write()


def play(
    task: Task, config: Config, run: RunFolder, index: int
) -> tuple[Recorded, EpisodeSummary]:
    """Play episode `index` with its bundle on the simulated robot, which waits for each command.

    Args:
        task: Gives robot, rewards and length.
        config: Gives seed and threads.
        run: Holds the bundle.
        index: Number of the episode.
    """
    bundle = load_bundle(run.bundle(index), task.spec, threads=config.control.threads)
    agent, guard = Agent(bundle, None), Guard(task.spec, config.safety)
    agent.start_episode(config.seed)
    guard.reset()
    robot = task.robot()
    states = [robot.reset(np.random.default_rng((config.seed, index)))]
    actions, tick_ms, clamps = [], [], 0
    for _ in range(task.steps):
        began = time.perf_counter()
        command = guard.check(agent.act(states[-1]).action, states[-1])
        tick_ms.append(1e3 * (time.perf_counter() - began))
        clamps += command.clamped
        actions.append(command.effort)
        states.append(robot.step(command.effort))
    played = Recorded(np.array(states), np.array(actions), np.ones(task.steps, dtype=bool))
    manifest = bundle.manifest
    return played, EpisodeSummary(
        index=index,
        return_=float(task.rewards(played.states[:-1], played.actions).sum()),
        promised_return=None if manifest.random else manifest.report.promised_return,
        steps=task.steps,
        tick_ms=TickStatistics.of(np.array(tick_ms)),
        clamps=clamps,
        fallbacks=agent.fallbacks,
        bundle=str(run.bundle(index).relative_to(run.root)),
    )
