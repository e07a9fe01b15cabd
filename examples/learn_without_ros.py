"""Learn to swing a pendulum up in one process, without ROS: `python learn_without_ros.py`."""

import tempfile
from pathlib import Path

import numpy as np

from hucrl_ros.config.files import load_config, task_config_path
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.learning.dataset import RecordedEpisode
from hucrl_ros.learning.learner import Learner
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import make_task


def learn(folder: Path, **settings: object) -> list[float]:
    """Play and learn; returns the return of each episode, of which the first is random."""
    config = load_config(task_config_path("pendulum"), settings)
    task = make_task(config.task, config.action_penalty)
    learner = Learner(config, RunFolder.create(folder, config))
    robot, episodes, returns, path = task.robot(), [], [], learner.export_initial()
    for index in range(config.episodes):
        agent = Agent(load_bundle(path, task.spec), None)
        states, actions = [robot.reset(np.random.default_rng(index))], []
        for _ in range(task.steps):
            actions.append(agent.act(states[-1]).action)  # plans H periods, sends the first
            states.append(robot.step(actions[-1]))
        episode = RecordedEpisode(np.array(states), np.array(actions), np.ones(task.steps, bool))
        episodes.append(episode)
        returns.append(float(task.rewards(episode.states[:-1], episode.actions).sum()))
        print(f"episode {index}: return {returns[-1]:.1f}")
        # Fits the model to all episodes, searches policies on it, exports both as a bundle.
        path = learner.learn_from(episodes, lambda phase, share: None)
    return returns


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        learn(Path(temporary) / "run", episodes=4)
