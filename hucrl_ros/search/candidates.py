"""Searches that try candidate actions: lookahead takes the best, MPO weights them."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from torch import Generator, Tensor, nn

from hucrl_ros.search.base import GuardedAdam, PolicySearch, descend
from hucrl_ros.search.model_rollout import ModelRollout

HALVINGS = 12
"""Of the way to a bound: it is met to a four-thousandth of the M-step."""


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
    M-step: weighted maximum likelihood, then back towards the old policies until the mean KL
    divergence from them is within `mpo_epsilon_mean`.
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
            samples = old + std * torch.randn(shape, generator=generator)
            # A sample is worth what its effort is, but likely as drawn: means of clipped ones
            # would never reach the limit.
            weights = self._weights(batch, samples.clamp(-1.0, 1.0), rollout, generator)
            parameters = actor_critic.policy_parameters()
            before = [parameter.clone() for parameter in parameters]
        for _ in range(settings.policy_steps):
            distance = ((samples - actor_critic.joint(batch)) ** 2).sum(dim=-1) / (2.0 * std**2)
            descend((weights * distance).sum(dim=0).mean(), optimiser)

        def too_far() -> bool:
            divergence = ((actor_critic.joint(batch) - old) ** 2).sum(dim=-1).mean()
            return bool(divergence / (2.0 * std**2) > settings.mpo_epsilon_mean)

        go_back(parameters, before, too_far)

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


@torch.no_grad()
def go_back(
    parameters: list[nn.Parameter], before: list[Tensor], too_far: Callable[[], bool]
) -> None:
    """Go straight back to the weights `before` till they aren't `too_far`, by bisection."""
    after = [parameter.clone() for parameter in parameters]

    def go(share: float) -> None:
        for parameter, start, end in zip(parameters, before, after, strict=True):
            parameter.copy_(torch.lerp(start, end, share))

    if too_far():
        near, far = 0.0, 1.0
        for _ in range(HALVINGS):
            middle = (near + far) / 2.0
            go(middle)
            near, far = (near, middle) if too_far() else (middle, far)
        go(near)


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
