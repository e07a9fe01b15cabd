"""Searches that follow the gradient of imagined returns, and which rewards have none."""

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Generator, Tensor

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.search.base import GuardedAdam, PolicySearch, descend
from hucrl_ros.search.model_rollout import InitialStates, ModelRollout
from hucrl_ros.tasks import Task

Penalty = Callable[[Tensor, Tensor], Tensor]
"""Cost `(n,)` of answering states `(n, p)` with (u, η) `(n, q + h)`."""
SAMPLES = 512
"""States and actions at which a reward's gradient is looked for."""


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


def imagined_value(
    states: Tensor,
    rollout: ModelRollout,
    horizon: int,
    settings: SearchSettings,
    generator: Generator,
    penalty: Penalty | None = None,
) -> Tensor:
    """Discounted rewards of `horizon` imagined steps, plus the critic of the last state.

    The efforts are noisy: the noise smooths the edges that an action penalty puts into the
    reward.

    Args:
        states: First states `(n, p)`.
        rollout: Imagined dynamics, policies and critic.
        horizon: Steps.
        settings: Noise and discount.
        generator: Draws the noise of efforts and system.
        penalty: Taken from the reward of each step.

    Returns:
        `(n,)`.
    """
    actor_critic, dynamics = rollout.actor_critic, rollout.dynamics
    value, weight = torch.zeros(len(states)), 1.0
    for _ in range(horizon):
        action, eta = actor_critic.policy(states), actor_critic.eta(states)
        if penalty is not None:
            value = value - penalty(states, torch.cat([action, eta], dim=-1))
        smoothing = settings.candidate_noise * torch.randn(action.shape, generator=generator)
        effort = actor_critic.effort((action + smoothing).clamp(-1.0, 1.0))
        value = value + weight * dynamics.reward(actor_critic.task, states, effort)
        width = actor_critic.task.spec.predicted_dim
        noise = torch.randn(len(states), width, generator=generator)
        states = dynamics(states, effort, eta, noise)
        weight *= settings.discount
    closed: Tensor = value + weight * actor_critic.critic(states)
    return closed


def gradient_fault(task: Task) -> str:
    """Why the reward's gradient can't be followed, as the end of a sentence; empty: it can.

    Tried in some of the states where imagined trajectories and episodes start, with uniform
    efforts. A gradient that is no number, as of the root of a square at 0, spoils that of a whole
    batch.
    """
    generator = torch.Generator().manual_seed(0)
    states = torch.cat([task.imagined_states(SAMPLES, generator), task.starts])
    limits = torch.tensor(task.spec.effort_limits)
    shares = 2.0 * torch.rand(len(states), len(limits), generator=generator) - 1.0
    sampled = (states, limits * shares)
    missing = []
    for index, name in enumerate(("state", "action")):
        moved = list(sampled)
        moved[index] = sampled[index].clone().requires_grad_()
        gradient = _gradient(task.reward(*moved), moved[index])
        if (wrong := ~gradient.isfinite().all(dim=-1)).any():
            at = [round(value, 4) for value in states[wrong][0].tolist()]
            return (
                f"is no number with respect to the {name} in {int(wrong.sum())} of {len(states)} "
                f"states, such as {at} (a root of 0, perhaps: add a little to what is under it)"
            )
        varied = [points[:1].expand_as(points) for points in sampled]
        varied[index] = sampled[index]
        rewards = task.reward(*varied)
        if (rewards != rewards[0]).any() and not (gradient != 0.0).any():
            missing.append(name)
    return f"has none with respect to the {' and the '.join(missing)}" if missing else ""


def _gradient(rewards: Tensor, source: Tensor) -> Tensor:
    """Like `source`; 0 where there is none."""
    if not rewards.requires_grad:
        return torch.zeros_like(source)
    (gradient,) = torch.autograd.grad(rewards.sum(), source, allow_unused=True)
    return torch.zeros_like(source) if gradient is None else gradient
