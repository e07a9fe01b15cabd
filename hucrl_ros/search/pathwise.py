"""Pathwise: gradients through imagined steps and the critic."""

import torch
from torch import Tensor

from hucrl_ros.exploration import Step
from hucrl_ros.search.actors import Actors
from hucrl_ros.search.base import PolicySearch, descend


class Pathwise(PolicySearch):
    """Stochastic value gradients (Heess et al., 2015) on the hallucinated system.

    The objective is the reward of a few imagined steps plus the critic of the last state. The
    efforts are noisy: the noise smooths the edges that an action penalty puts into the reward.
    """

    def improve_policies(
        self,
        states: Tensor,
        actors: Actors,
        step: Step,
        optimiser: torch.optim.Optimizer,
        generator: torch.Generator,
    ) -> None:
        """Ascend the imagined value of batches of `states` `(n, p)`."""
        settings = self.settings
        for _ in range(settings.policy_steps):
            index = torch.randint(len(states), (settings.batch_size,), generator=generator)
            value = self._value(states[index], actors, step, generator)
            descend(-value.mean() / actors.critic.scale, optimiser)

    def _value(
        self, states: Tensor, actors: Actors, step: Step, generator: torch.Generator
    ) -> Tensor:
        settings = self.settings
        value, weight = torch.zeros(len(states)), 1.0
        for _ in range(settings.gradient_steps):
            action = actors.policy(states)
            smoothing = settings.candidate_noise * torch.randn(action.shape, generator=generator)
            effort = actors.effort((action + smoothing).clamp(-1.0, 1.0))
            value = value + weight * actors.task.reward(states, effort)
            width = actors.task.spec.predicted_dim
            noise = torch.randn(len(states), width, generator=generator)
            states = step(states, effort, actors.eta(states), noise)
            weight *= settings.discount
        closed: Tensor = value + weight * actors.critic(states)
        return closed
