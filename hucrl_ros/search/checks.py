"""Whether a reward can be followed by its gradient."""

import torch
from torch import Tensor

from hucrl_ros.tasks import Task

_SAMPLES = 512


def missing_gradients(task: Task) -> list[str]:
    """What the reward depends on without a gradient that says so: `state`, `action`, or nothing.

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
