"""Reward of the planar arm: the hand at the goal."""

import torch


def reward(state, action, robot):
    """exp(-d^2/0.15^2) - rho |u|^2 of states (..., p) and efforts (..., 2) [N m]."""
    away = robot.site(state, "hand") - robot.body(state, "goal")
    near = torch.exp(-(away**2).sum(dim=-1) / 0.15**2)
    return near - robot.action_penalty * (action**2).sum(dim=-1)
