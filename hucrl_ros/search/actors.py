"""The learned policies and their critics: (π, η), V and, for some searches, Q."""

import torch
from torch import Tensor, nn

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.search.networks import ActionValues, Critic, Policy, noise_network
from hucrl_ros.tasks import Task


class Actors(nn.Module):
    """(π, η) and V, where η is missing for strategies that don't hallucinate."""

    limits: Tensor

    def __init__(
        self,
        task: Task,
        hallucination_dim: int,
        settings: SearchSettings,
        generator: torch.Generator,
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
