"""The update rules of stable-baselines3, on our networks and our data (Algorithm 3).

A model-free algorithm is what its library's `train` does with a batch. The library's networks are
replaced by ours, so that a bundle's policies are the ones that it trains, and its buffers by ours,
which hold what was imagined.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from hucrl_ros.search.actor_critic import ActorCritic
from hucrl_ros.tasks import Task


class TaskFeatures(BaseFeaturesExtractor):
    """The task's features as the library's feature extractor."""

    def __init__(self, observation_space: spaces.Box, task: Task) -> None:
        super().__init__(observation_space, task.feature_dim)
        self.task = task

    def forward(self, observations: Tensor) -> Tensor:
        """Features `(n, f)` of states `(n, p)`."""
        return self.task.features(observations)


class Means(nn.Module):
    """π and η as one network of the features, before they are squashed."""

    def __init__(self, actor_critic: ActorCritic) -> None:
        super().__init__()
        modules = [actor_critic.policy, actor_critic.hallucination]
        self.networks = nn.ModuleList(module.network for module in modules if module is not None)

    def forward(self, features: Tensor) -> Tensor:
        """`(n, q + h)` of features `(n, f)`."""
        return torch.cat([network(features) for network in self.networks], dim=-1)


def common_arguments(
    actor_critic: ActorCritic, optimiser: Optimizer, **policy_arguments: bool
) -> dict[str, Any]:
    """Arguments of every algorithm: no environment, our step size, networks to be replaced."""
    return {
        "policy": "MlpPolicy",
        "env": None,
        "learning_rate": lambda _: float(optimiser.param_groups[0]["lr"]),
        "policy_kwargs": {
            "net_arch": [],
            "features_extractor_class": TaskFeatures,
            "features_extractor_kwargs": {"task": actor_critic.task},
            **policy_arguments,
        },
        "device": actor_critic.limits.device,
        "_init_setup_model": False,
    }


def set_up(algorithm: BaseAlgorithm, actor_critic: ActorCritic) -> None:
    """Give an algorithm without an environment its spaces, as its library's `load` does."""
    spec = actor_critic.task.spec
    joint_dim = spec.action_dim + actor_critic.hallucination_dim
    algorithm.observation_space = spaces.Box(-np.inf, np.inf, (spec.state_dim,), np.float32)
    algorithm.action_space = spaces.Box(-1.0, 1.0, (joint_dim,), np.float32)
    algorithm.n_envs = 1
    with torch.random.fork_rng(devices=[]):  # Ours replace the weights that it draws.
        algorithm._setup_model()
    algorithm.set_logger(Logger(folder=None, output_formats=[]))


@contextmanager
def drawing_from(generator: Generator) -> Iterator[None]:
    """Let the library, which draws from torch's global generator, depend on ours alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        yield
