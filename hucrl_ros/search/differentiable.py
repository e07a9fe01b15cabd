"""Gradients of imagined returns with respect to the policies (Algorithm 4)."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.search.model_rollout import ModelRollout
from hucrl_ros.tasks import Task

Penalty = Callable[[Tensor, Tensor], Tensor]
"""Cost `(n,)` of answering states `(n, p)` with (u, η) `(n, q + h)`."""


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
        value = value + weight * actor_critic.task.reward(states, effort)
        width = actor_critic.task.spec.predicted_dim
        noise = torch.randn(len(states), width, generator=generator)
        states = dynamics(states, effort, eta, noise)
        weight *= settings.discount
    closed: Tensor = value + weight * actor_critic.critic(states)
    return closed


_SAMPLES = 512


def missing_gradients(task: Task) -> list[str]:
    """Names of the reward's arguments (`state`, `action`) that it depends on without a gradient.

    Tried in some of the states where imagined trajectories start, with uniform efforts.
    """
    generator = torch.Generator().manual_seed(0)
    states = task.imagined_states(_SAMPLES, generator)
    limits = torch.tensor(task.spec.effort_limits)
    shares = 2.0 * torch.rand(_SAMPLES, len(limits), generator=generator) - 1.0
    actions = limits * shares
    missing = []
    if _varies(task.reward(states, actions[:1].expand_as(actions))):
        moved = states.clone().requires_grad_()
        if not _has_gradient(task.reward(moved, actions), moved):
            missing.append("state")
    if _varies(task.reward(states[:1].expand_as(states), actions)):
        moved = actions.clone().requires_grad_()
        if not _has_gradient(task.reward(states, moved), moved):
            missing.append("action")
    return missing


def _varies(rewards: Tensor) -> bool:
    return bool((rewards != rewards[0]).any())


def _has_gradient(rewards: Tensor, source: Tensor) -> bool:
    if not rewards.requires_grad:
        return False
    (gradient,) = torch.autograd.grad(rewards.sum(), source, allow_unused=True)
    return gradient is not None and bool((gradient != 0).any())
