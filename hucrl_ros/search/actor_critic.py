"""The networks that a search learns: policies (π, η), critic V and, for some searches, Q."""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils import parametrize

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.tasks import Task

SILU_SLOPE = 1.1
"""Largest slope of SiLU, rounded up."""
INITIAL_LOG_STD = -1.5
"""Logarithm of the deviation that `sac`'s actions begin with, before they are squashed."""


class RowBound(nn.Module):
    """Scales the rows of a weight matrix down to a sum of absolute values (Liu et al., 2022).

    That sum bounds the layer's Lipschitz constant in the maximum norm.
    """

    def __init__(self, bound: float) -> None:
        super().__init__()
        self._bound = bound

    def forward(self, weight: Tensor) -> Tensor:
        """The weight `(outputs, inputs)` that the layer uses."""
        sums = weight.abs().sum(dim=1, keepdim=True)
        return weight * (self._bound / torch.clamp_min(sums, self._bound))


def bound_lipschitz(network: nn.Sequential, constant: float) -> None:
    """Let no output change by more than `constant` times the largest change of an input.

    Each of the L linear layers gets an equal share of the constant, SiLU's slope between them
    counted. The bound holds for any weights, so that learning needs no penalty.
    """
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    share = (constant / SILU_SLOPE ** (len(linear) - 1)) ** (1.0 / len(linear))
    for layer in linear:
        parametrize.register_parametrization(layer, "weight", RowBound(share))


def mlp(sizes: Sequence[int], generator: Generator, last_gain: float = 1.0) -> nn.Sequential:
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
        generator: Generator,
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
        self, task: Task, layers: Sequence[int], discount: float, generator: Generator
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
        self, task: Task, joint_dim: int, layers: Sequence[int], generator: Generator
    ) -> None:
        """Untrained networks; `joint_dim` is the length q + h of (u, η)."""
        super().__init__()
        sizes = [task.feature_dim + joint_dim, *layers, 1]
        self.networks = nn.ModuleList(mlp(sizes, generator, last_gain=0.1) for _ in range(2))


def noise_network(
    task: Task, joint_dim: int, layers: Sequence[int], generator: Generator
) -> nn.Sequential:
    """Logarithm of the standard deviation of `sac`'s actions before squashing."""
    network = mlp([task.feature_dim, *layers, joint_dim], generator, last_gain=0.1)
    last = network[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.bias.fill_(INITIAL_LOG_STD)
    return network


class ActorCritic(nn.Module):
    """(π, η) and V, where η is missing for strategies that don't hallucinate."""

    limits: Tensor

    def __init__(
        self, task: Task, hallucination_dim: int, settings: SearchSettings, generator: Generator
    ) -> None:
        super().__init__()
        self.task = task
        self.hallucination_dim = hallucination_dim
        layers = settings.policy_layers
        self.policy = Policy(task, task.spec.action_dim, layers, generator)
        self.hallucination = (
            Policy(task, hallucination_dim, layers, generator, settings.eta_lipschitz)
            if hallucination_dim
            else None
        )
        self.critic = Critic(task, settings.critic_layers, settings.discount, generator)
        joint_dim = task.spec.action_dim + hallucination_dim
        self.action_values = (
            ActionValues(task, joint_dim, settings.critic_layers, generator)
            if settings.algorithm in ("sac", "td3")
            else None
        )
        self.log_std = (
            noise_network(task, joint_dim, layers, generator)
            if settings.algorithm == "sac"
            else None
        )
        self.register_buffer("limits", torch.tensor(task.spec.effort_limits), persistent=False)

    def effort(self, action: Tensor) -> Tensor:
        """Efforts `(..., q)` [N m or N] of an action in [-1, 1]."""
        return action * self.limits

    def eta(self, state: Tensor) -> Tensor:
        """Hallucinated action `(..., h)`; h = 0 without one."""
        if self.hallucination is None:
            return state.new_zeros(*state.shape[:-1], 0)
        eta: Tensor = self.hallucination(state)
        return eta

    def joint(self, state: Tensor) -> Tensor:
        """(π, η)(s) `(..., q + h)` in [-1, 1]."""
        return torch.cat([self.policy(state), self.eta(state)], dim=-1)

    def policy_parameters(self) -> list[nn.Parameter]:
        """Weights of π and η, and of their noise where that is learned."""
        modules = nn.ModuleList([self.policy])
        modules.extend(m for m in (self.hallucination, self.log_std) if m is not None)
        return list(modules.parameters())
