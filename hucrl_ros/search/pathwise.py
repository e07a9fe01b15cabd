"""Pathwise: gradients through imagined steps and the critic."""

import torch
from torch import Generator, Tensor

from hucrl_ros.search.base import GuardedAdam, PolicySearch, descend
from hucrl_ros.search.differentiable import imagined_value
from hucrl_ros.search.model_rollout import ModelRollout


class Pathwise(PolicySearch):
    """Stochastic value gradients (Heess et al., 2015) on the hallucinated system.

    The objective is the reward of a few imagined steps plus the critic of the last state.
    """

    needs_gradients = True

    def improve_policies(
        self, states: Tensor, rollout: ModelRollout, optimiser: GuardedAdam, generator: Generator
    ) -> None:
        """Ascend the imagined value of batches of `states` `(n, p)`."""
        settings = self.settings
        for _ in range(settings.policy_steps):
            index = torch.randint(len(states), (settings.batch_size,), generator=generator)
            horizon, batch = settings.gradient_steps, states[index]
            value = imagined_value(batch, rollout, horizon, settings, generator)
            descend(-value.mean() / rollout.actor_critic.critic.scale, optimiser)
