"""Running as fast as possible (App. Half-Cheetah)."""

import math

import torch
from torch import Tensor

from hucrl_ros.robots import HalfCheetah, RobotSpec
from hucrl_ros.robots.half_cheetah import START_ANGLE, START_SPEED_STD
from hucrl_ros.tasks.base import Task

FASTEST = 10.0
"""[m/s] Running faster earns nothing more."""
HEIGHT_SCALE = 0.3
"""[m]"""
SPEED_SCALES = (1.0, 3.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 3.0)
"""[m/s, rad/s] Height, pitch, legs, forward."""


class HalfCheetahRun(Task):
    """r = min(v, 10) − ρ ‖u‖²: run forward, up to 10 m/s. The paper prints max for min."""

    name = "half_cheetah"
    robot = HalfCheetah
    steps = 1000
    angles = tuple(range(1, 8))
    scales = (HEIGHT_SCALE, *SPEED_SCALES)
    reach = (2.0, math.inf, *(1.5,) * 6, 10.0, 25.0, *(60.0,) * 6, 20.0)

    @property
    def spec(self) -> RobotSpec:
        """Six motors in the legs of a free torso."""
        return HalfCheetah.spec

    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """Reward `(...)` of states `(..., 17)` and motor commands `(..., 6)`."""
        speed = torch.clamp(state[..., 16], max=FASTEST)
        return speed - self.action_penalty * (action**2).sum(dim=-1)

    def imagined_states(self, count: int, generator: torch.Generator) -> Tensor:
        """As episodes start: states far from what the legs can do would teach nothing."""
        angles = START_ANGLE * (2.0 * torch.rand(count, 8, generator=generator) - 1.0)
        return torch.cat(
            [angles, START_SPEED_STD * torch.randn(count, 9, generator=generator)], dim=-1
        )
