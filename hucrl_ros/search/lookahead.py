"""Lookahead: regression to the best of many actions tried one step ahead."""

import torch
from torch import Generator, Tensor

from hucrl_ros.search.base import GuardedAdam, PolicySearch, descend
from hucrl_ros.search.model_rollout import ModelRollout


class Lookahead(PolicySearch):
    """Approximate policy iteration by action search (Lazaric et al., 2010) on imagined states.

    At each state, candidates for (u, η) are tried for one imagined step, or held for some: the
    policies' own answer, neighbours of it, and uniform draws over the whole range. The policies
    are moved towards the best candidate. Unlike a gradient this crosses the flat or falling
    ground that an action penalty puts around "do nothing".
    """

    def improve_policies(
        self, states: Tensor, rollout: ModelRollout, optimiser: GuardedAdam, generator: Generator
    ) -> None:
        """Label a batch of `states` `(n, p)` with their best candidates, then regress."""
        settings = self.settings
        index = torch.randint(len(states), (settings.batch_size,), generator=generator)
        batch, actor_critic = states[index], rollout.actor_critic
        targets = self._best_candidates(batch, rollout, generator)
        for _ in range(settings.policy_steps):
            descend(((actor_critic.joint(batch) - targets) ** 2).sum(dim=-1).mean(), optimiser)

    @torch.no_grad()
    def _best_candidates(
        self, states: Tensor, rollout: ModelRollout, generator: Generator
    ) -> Tensor:
        settings = self.settings
        own = rollout.actor_critic.joint(states)
        shape = (settings.candidates, *own.shape)
        near = own + settings.candidate_noise * torch.randn(shape, generator=generator)
        wide = 2.0 * torch.rand(shape, generator=generator) - 1.0
        first_wide = settings.candidates // 2
        candidates = torch.cat([own[None], near[1:first_wide], wide[first_wide:]]).clamp(-1.0, 1.0)
        values = rollout.values_of(
            states, candidates, settings.discount, generator, settings.candidate_steps
        )
        return candidates[values.argmax(dim=0), torch.arange(len(states))]
