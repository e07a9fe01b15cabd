"""Swing-up of a pole on a cart (App. Cart-Pole)."""

import math

import torch
from torch import Tensor

from hucrl_ros.robots import Cartpole, RobotSpec
from hucrl_ros.robots.cartpole import START_STD
from hucrl_ros.tasks.base import Task
from hucrl_ros.tasks.kinematics import ForwardKinematics

POLE = 0.6
"""[m] Length of the pole, and of the reward's bell."""
GOAL = (0.0, 0.0, 1.0 + POLE)
"""[m] The tip when the pole stands in the middle of the rail, 1 m above the floor."""
RAIL = 2.5
"""[m]"""
SPEED_SCALES = (4.0, 8.0)
"""[m/s, rad/s]"""


class CartpoleSwingUp(Task):
    """r = exp(−‖tip − goal‖²/0.6²) − ρ u²: the pole upright in the middle of the rail."""

    name = "cartpole"
    robot = Cartpole
    steps = 200
    angles = (1,)
    scales = (1.0, *SPEED_SCALES)
    reach = (RAIL + 0.3, math.inf, 15.0, 40.0)

    def __init__(self, action_penalty: float) -> None:
        super().__init__(action_penalty)
        self.tip = ForwardKinematics(Cartpole().model, "tip", self.spec.joint_names)

    @property
    def spec(self) -> RobotSpec:
        """A cart with a motor and a pole without one."""
        return Cartpole.spec

    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """Reward `(...)` of states `(..., 4)` and motor commands `(..., 1)`."""
        away = self.tip(state[..., :2]) - torch.tensor(GOAL, dtype=state.dtype)
        near = torch.exp(-(away**2).sum(dim=-1) / POLE**2)
        return near - self.action_penalty * (action**2).sum(dim=-1)

    def imagined_states(self, count: int, generator: torch.Generator) -> Tensor:
        """Half as episodes start, half anywhere on the rail at any angle and moving."""
        normal = torch.randn(count, 4, generator=generator)
        uniform = 2.0 * torch.rand(count, 4, generator=generator) - 1.0
        anywhere = uniform * torch.tensor([RAIL, math.pi, *SPEED_SCALES])
        first = (torch.arange(count) < count - count // 2)[:, None]
        return torch.where(first, START_STD * normal, anywhere)
