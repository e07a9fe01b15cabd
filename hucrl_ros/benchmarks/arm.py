"""A robot arm to measure with: as large as the reacher, but all of it in its joint states."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from hucrl_ros.robots import Pr2Reacher, RobotSpec
from hucrl_ros.robots.pr2_reacher import GOAL_MEAN
from hucrl_ros.tasks.base import Task
from hucrl_ros.tasks.kinematics import ForwardKinematics
from hucrl_ros.tasks.reacher import JOINTS, MAX_SPEEDS, SPEED_SCALES


class Arm(Task):
    """The reacher with the goal always in the same place, so that no state has to hold it."""

    name = "arm"
    robot = Pr2Reacher
    steps = 150
    angles = tuple(range(JOINTS))
    scales = SPEED_SCALES
    reach = (*(math.inf,) * JOINTS, *MAX_SPEEDS)

    def __init__(self, action_penalty: float) -> None:
        super().__init__(action_penalty)
        self.tool = ForwardKinematics(Pr2Reacher().model, "tool", self.spec.joint_names)

    @property
    def spec(self) -> RobotSpec:
        """Seven joints."""
        return replace(Pr2Reacher.spec, context=())

    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """−‖tool − goal‖² − ρ ‖u‖² `(...)` of states `(..., 14)` and torques `(..., 7)` [N m]."""
        away = self.tool(state[..., :JOINTS]) - torch.tensor(GOAL_MEAN, dtype=state.dtype)
        penalty = self.action_penalty * (action**2).sum(dim=-1)
        return torch.as_tensor(-(away**2).sum(dim=-1) - penalty)

    def imagined_states(self, count: int, generator: torch.Generator) -> Tensor:
        """Stretched out, moving at random."""
        speeds = torch.tensor(SPEED_SCALES) * torch.randn(count, JOINTS, generator=generator)
        return torch.cat([torch.zeros(count, JOINTS), speeds], dim=-1)
