"""The learned policies and their critic: (π, η) and V."""

import torch
from torch import Tensor, nn

from hucrl_ros.config import SearchSettings
from hucrl_ros.search.networks import Critic, Policy
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
        layers = settings.policy_layers
        self.policy = Policy(task, task.spec.action_dim, layers, generator)
        self.hallucination = (
            Policy(task, hallucination_dim, layers, generator) if hallucination_dim else None
        )
        self.critic = Critic(task, settings.critic_layers, settings.discount, generator)
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
        """Weights of π and η."""
        modules = [self.policy] + ([self.hallucination] if self.hallucination else [])
        return [parameter for module in modules for parameter in module.parameters()]
