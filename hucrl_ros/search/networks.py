"""Policies π and η and the critic."""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hucrl_ros.search.lipschitz import bound_lipschitz
from hucrl_ros.tasks import Task

INITIAL_LOG_STD = -1.5
"""Of the actions that `sac` draws, before they are squashed."""


def mlp(sizes: Sequence[int], generator: torch.Generator, last_gain: float = 1.0) -> nn.Sequential:
    """Fully connected network with SiLU between layers, initialised from `generator`."""
    layers: list[nn.Module] = []
    for index, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        last = index == len(sizes) - 2
        linear = nn.Linear(fan_in, fan_out)
        bound = math.sqrt(3.0 / fan_in) * (last_gain if last else 1.0)
        with torch.no_grad():
            linear.weight.uniform_(-bound, bound, generator=generator)
            linear.bias.zero_()
        layers.append(linear)
        if not last:
            layers.append(nn.SiLU())
    return nn.Sequential(*layers)


class Policy(nn.Module):
    """A bounded deterministic function of the state: π with q outputs, or η with m."""

    def __init__(
        self,
        task: Task,
        outputs: int,
        layers: Sequence[int],
        generator: torch.Generator,
        lipschitz: float = 0.0,
    ) -> None:
        """Draw initial weights.

        Args:
            task: Gives the features.
            outputs: Length of the action.
            layers: Hidden units.
            generator: Draws the weights.
            lipschitz: Largest change of the action over the largest change of a feature; 0: any.
        """
        super().__init__()
        self.task = task
        self.network = mlp([task.feature_dim, *layers, outputs], generator, last_gain=0.1)
        if lipschitz:
            bound_lipschitz(self.network, lipschitz)

    def forward(self, state: Tensor) -> Tensor:
        """Action `(..., outputs)` in [-1, 1] of states `(..., p)`: shares of the limits."""
        return torch.tanh(self.network(self.task.features(state)))


class Critic(nn.Module):
    """Discounted return to come, optimistic where the imagination is."""

    scale: Tensor

    def __init__(
        self, task: Task, layers: Sequence[int], discount: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.task = task
        self.network = mlp([task.feature_dim, *layers, 1], generator, last_gain=0.1)
        # The network's output stays of order one while values reach 1 / (1 - γ).
        self.register_buffer("scale", torch.tensor(0.2 / (1.0 - discount)))

    def forward(self, state: Tensor) -> Tensor:
        """Value `(...)` of states `(..., p)`."""
        output: Tensor = self.network(self.task.features(state))
        return self.scale * output.squeeze(-1)


class ActionValues(nn.Module):
    """Two estimates of Q(s, u, η) in units of the critic's scale: what `sac` and `td3` add to V.

    Kept with the policies, so that learning goes on from them after the next episode.
    """

    def __init__(
        self, task: Task, joint_dim: int, layers: Sequence[int], generator: torch.Generator
    ) -> None:
        """Untrained networks; `joint_dim` is the length q + h of (u, η)."""
        super().__init__()
        sizes = [task.feature_dim + joint_dim, *layers, 1]
        self.networks = nn.ModuleList(mlp(sizes, generator, last_gain=0.1) for _ in range(2))


def noise_network(
    task: Task, joint_dim: int, layers: Sequence[int], generator: torch.Generator
) -> nn.Sequential:
    """Logarithm of the standard deviation of `sac`'s actions before squashing."""
    network = mlp([task.feature_dim, *layers, joint_dim], generator, last_gain=0.1)
    last = network[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.bias.fill_(INITIAL_LOG_STD)
    return network
