"""Settings, robot and episodes that make learning a matter of a second."""

import numpy as np
import pytest
import torch
from shortened import shorten

from hucrl_ros.config.schema import Config
from hucrl_ros.learning.dataset import RecordedEpisode
from hucrl_ros.robots import make_robot

STEPS = 40
"""Control periods in an episode of the shortened task."""


def tiny_config(**changes):
    values = {
        "episodes": 2,
        "model": {"kind": "probabilistic_ensemble", "heads": 2, "layers": (8,), "fit_steps": 5},
        "search": {"iterations": 2, "pool": 8, "policy_layers": (8,), "critic_layers": (8,)},
        "planner": {"particles": 4, "elites": 2, "horizon": 3, "iterations": 1},
    }
    return Config.model_validate({**values, **changes})


@pytest.fixture(scope="module")
def short_episodes():
    """Episodes of `STEPS` steps, and one thread for torch."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch, STEPS)
        yield
    torch.set_num_threads(threads)


def random_episode(seed):
    """An episode of random torques."""
    draws, robot = np.random.default_rng(seed), make_robot("pendulum")
    states, actions = [robot.reset(draws)], []
    for _ in range(STEPS):
        actions.append(draws.uniform(-1.0, 1.0, 1))
        states.append(robot.step(actions[-1]))
    return RecordedEpisode(np.array(states), np.array(actions), np.ones(STEPS, dtype=bool))
