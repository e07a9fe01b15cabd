"""Returns of imagined trajectories as differentiable functions of the policies (Algorithm 4)."""

from collections.abc import Callable

import torch
from torch import Tensor

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.search.imagination import Imagination

Penalty = Callable[[Tensor, Tensor], Tensor]
"""Cost `(n,)` of answering states `(n, p)` with (u, η) `(n, q + h)`."""


def imagined_value(
    states: Tensor,
    imagination: Imagination,
    horizon: int,
    settings: SearchSettings,
    generator: torch.Generator,
    penalty: Penalty | None = None,
) -> Tensor:
    """Discounted rewards of `horizon` imagined steps, closed by the critic.

    The efforts are noisy: the noise smooths the edges that an action penalty puts into the
    reward.

    Args:
        states: Starts `(n, p)`.
        imagination: Policies, critic and the imagined system.
        horizon: Steps.
        settings: Noise and discount.
        generator: Draws the noise of efforts and system.
        penalty: Taken from the reward of each step.

    Returns:
        `(n,)`.
    """
    actors, step = imagination.actors, imagination.step
    value, weight = torch.zeros(len(states)), 1.0
    for _ in range(horizon):
        action, eta = actors.policy(states), actors.eta(states)
        if penalty is not None:
            value = value - penalty(states, torch.cat([action, eta], dim=-1))
        smoothing = settings.candidate_noise * torch.randn(action.shape, generator=generator)
        effort = actors.effort((action + smoothing).clamp(-1.0, 1.0))
        value = value + weight * actors.task.reward(states, effort)
        width = actors.task.spec.predicted_dim
        noise = torch.randn(len(states), width, generator=generator)
        states = step(states, effort, eta, noise)
        weight *= settings.discount
    closed: Tensor = value + weight * actors.critic(states)
    return closed
