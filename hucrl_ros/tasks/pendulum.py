"""Swing-up of the inverted pendulum (App. Swing-Up Inverted Pendulum)."""

import math
from typing import ClassVar

import torch
from torch import Tensor

from hucrl_ros.robots import Pendulum, RobotSpec
from hucrl_ros.tasks.base import Task
from hucrl_ros.tasks.tolerance import tolerance

SPEED_SCALE = 5.0
"""[rad/s] Unit of ω in the networks' inputs."""
MAX_IMAGINED_SPEED = 12.0
"""[rad/s] Falling from upright reaches 2·sqrt(g/l) = 8.9; torque adds to it."""


class PendulumSwingUp(Task):
    """r = tol(cos θ) · tol(ω) + ρ (tol(u) − 1): upright and slow, with little torque."""

    name = "pendulum"
    robot = Pendulum
    steps = 400
    angles = (0,)
    scales = (SPEED_SCALE,)
    reach = (math.inf, MAX_IMAGINED_SPEED)
    # What the policy of `hucrl optimum pendulum --grid 601` (dynamic programming) achieves.
    optima: ClassVar = {0.0: 299.2, 0.1: 288.4, 0.2: 278.5}

    @property
    def spec(self) -> RobotSpec:
        """The pendulum's joint, limit and period."""
        return Pendulum.spec

    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """Reward `(...)` of states `(..., 2)` and torques `(..., 1)`."""
        upright = tolerance(torch.cos(state[..., 0]), 0.95, 1.0, 0.1)
        slow = tolerance(state[..., 1], -0.5, 0.5, 0.5)
        gentle = tolerance(action[..., 0], -0.1, 0.1, 0.1) - 1.0
        return upright * slow + self.action_penalty * gentle

    def imagined_states(self, count: int, generator: torch.Generator) -> Tensor:
        """Half hanging at rest, half uniform over angle and speed."""
        hanging = torch.tensor([[math.pi, 0.0]]).repeat(count - count // 2, 1)
        uniform = 2.0 * torch.rand(count // 2, 2, generator=generator) - 1.0
        return torch.cat([hanging, uniform * torch.tensor([math.pi, MAX_IMAGINED_SPEED])])
