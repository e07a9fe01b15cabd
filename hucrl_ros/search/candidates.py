"""Searches that try candidate actions: lookahead takes the best, MPO weights them."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
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
            states,
            candidates,
            settings.discount,
            generator,
            settings.noise_draws,
            settings.candidate_steps,
        )
        return candidates[values.argmax(dim=0), torch.arange(len(states))]


class Mpo(PolicySearch):
    """Maximum a posteriori policy optimisation (Abdolmaleki et al., 2018).

    The policies are Gaussians around (π, η) with a fixed standard deviation. E-step: actions
    sampled from the old policies are weighted by exp(Q / temperature), where Q is one imagined
    step plus the critic, and the temperature keeps the weights within `mpo_epsilon` of uniform.
    M-step: weighted maximum likelihood with a penalty that holds the mean KL divergence from
    the old policies near `mpo_epsilon_mean`.
    """

    def improve_policies(
        self, states: Tensor, rollout: ModelRollout, optimiser: GuardedAdam, generator: Generator
    ) -> None:
        """One E-step and `policy_steps` gradient steps of the M-step at `states` `(n, p)`."""
        settings, actor_critic = self.settings, rollout.actor_critic
        index = torch.randint(len(states), (settings.batch_size,), generator=generator)
        batch = states[index]
        with torch.no_grad():
            old = actor_critic.joint(batch)
            shape = (settings.candidates, *old.shape)
            std = settings.candidate_noise
            samples = (old + std * torch.randn(shape, generator=generator)).clamp(-1.0, 1.0)
            weights = self._weights(batch, samples, rollout, generator)
        multiplier = 1.0
        for _ in range(settings.policy_steps):
            mean = actor_critic.joint(batch)
            distance = ((samples - mean) ** 2).sum(dim=-1) / (2.0 * std**2)
            divergence = (((mean - old) ** 2).sum(dim=-1) / (2.0 * std**2)).mean()
            likelihood = (weights * distance).sum(dim=0).mean()
            descend(likelihood + multiplier * divergence, optimiser)
            excess = float(divergence.detach()) / settings.mpo_epsilon_mean - 1.0
            multiplier = min(max(multiplier * float(np.exp(0.1 * excess)), 1e-3), 1e3)

    def _weights(
        self, states: Tensor, samples: Tensor, rollout: ModelRollout, generator: Generator
    ) -> Tensor:
        """Weights `(samples, n)` of the E-step, summing to 1 over the samples."""
        settings = self.settings
        values = rollout.values_of(
            states, samples, settings.discount, generator, settings.noise_draws
        )
        temperature = e_step_temperature(values.double().cpu().numpy(), settings.mpo_epsilon)
        return torch.softmax(values / temperature, dim=0)


def e_step_temperature(values: NDArray[np.float64], epsilon: float) -> float:
    """Minimiser of MPO's dual, η ε + η mean log mean exp(Q / η), over the temperature η.

    Args:
        values: Q of the samples `(samples, n)`.
        epsilon: Bound on the mean KL divergence between weights and the old policy.
    """
    centred = values - values.max(axis=0)
    # Of each state's own samples: states may differ in value by much more than their actions.
    spread = max(float(np.std(values - values.mean(axis=0))), 1e-6)

    def dual(log_temperature: float) -> float:
        temperature = spread * np.exp(log_temperature)
        log_mean = logsumexp(centred / temperature, axis=0) - np.log(len(values))
        return float(temperature * (epsilon + log_mean.mean()) + values.max(axis=0).mean())

    best = minimize_scalar(dual, bounds=(-7.0, 7.0), method="bounded")
    return float(spread * np.exp(best.x))
