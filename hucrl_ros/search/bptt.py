"""Hallucinated back-propagation through time (Algorithm 4)."""

from copy import deepcopy

import torch
from torch import Generator, Tensor

from hucrl_ros.search.base import GuardedAdam, PolicySearch, descend
from hucrl_ros.search.differentiable import imagined_value
from hucrl_ros.search.model_rollout import InitialStates, ModelRollout


class Bptt(PolicySearch):
    """Hallucinated back-propagation through time (Algorithm 4), kept near the last policies.

    The objective is the reward of `bptt_horizon` imagined steps plus the critic of the last
    state, less `bptt_kl` times the KL divergence from the policies that the search began with.
    Policies are Gaussians of one standard deviation, so that divergence is a squared distance.
    """

    needs_gradients = True

    def begin(
        self, rollout: ModelRollout, starts: InitialStates, optimiser: GuardedAdam
    ) -> list[GuardedAdam]:
        """Remember the policies to stay near."""
        self._previous = deepcopy(rollout.actor_critic).requires_grad_(False)
        return []

    def improve_policies(
        self, states: Tensor, rollout: ModelRollout, optimiser: GuardedAdam, generator: Generator
    ) -> None:
        """Ascend the objective from some of `states` `(n, p)`."""
        settings = self.settings
        horizon = settings.bptt_horizon
        starts = max(settings.batch_size // horizon, 1)  # A gradient sees `batch_size` states.
        penalty = self.penalty if settings.bptt_kl else None
        for _ in range(settings.policy_steps):
            index = torch.randint(len(states), (starts,), generator=generator)
            value = imagined_value(states[index], rollout, horizon, settings, generator, penalty)
            descend(-value.mean() / rollout.actor_critic.critic.scale, optimiser)

    def penalty(self, states: Tensor, joint: Tensor) -> Tensor:
        """λ KL(new || last) `(n,)` of answering states `(n, p)` with `joint` `(n, q + h)`."""
        settings = self.settings
        distance = ((joint - self._previous.joint(states)) ** 2).sum(dim=-1)
        divergence = distance / (2.0 * settings.candidate_noise**2)
        cost: Tensor = settings.bptt_kl * self._previous.critic.scale * divergence
        return cost
