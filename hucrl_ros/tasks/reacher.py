"""Reaching with the PR2's arm, with a dense and with a sparse reward (App. Reacher)."""

import math
from abc import abstractmethod

import torch
from torch import Tensor

from hucrl_ros.robots import Pr2Reacher, RobotSpec
from hucrl_ros.robots.pr2_reacher import GOAL_MEAN, GOAL_STD
from hucrl_ros.tasks.base import Task
from hucrl_ros.tasks.geometry import Geometry, Stop, Vector
from hucrl_ros.tasks.kinematics import ForwardKinematics

JOINTS = 7
SPEED_SCALES = (1.0, 1.0, 8.0, 4.0, 15.0, 8.0, 15.0)
"""[rad/s] Units of the velocities: what random torques lead to."""
MAX_SPEEDS = (4.0, 4.0, 40.0, 20.0, 80.0, 45.0, 80.0)
"""[rad/s] Of an imagined arm; random torques lead to two thirds of it in 1500 steps."""
LOWER = (-2.2854, -0.5236, -1.5, -2.6, -math.pi, -2.18, -math.pi)
UPPER = (1.7146, 1.3963, 1.7, 0.0, math.pi, 0.0, math.pi)
"""[rad] Where imagined trajectories start: the joints' limits, or a turn."""
STRETCH = 0.3
"""[rad] How far an imagined joint may get into its stop."""
SPARSE_LENGTH = 0.45
"""[m]"""


class Reach(Task):
    """Bring the tool to a goal that is drawn anew for each episode and stays."""

    robot = Pr2Reacher
    steps = 150
    close = 0.05
    angles = tuple(range(JOINTS))
    scales = (*SPEED_SCALES, 0.3, 0.3, 0.3)
    reach = (
        *(
            math.inf if high == math.pi else (low - STRETCH, high + STRETCH)
            for low, high in zip(LOWER, UPPER, strict=True)
        ),
        *MAX_SPEEDS,
    )

    def __init__(self, action_penalty: float) -> None:
        super().__init__(action_penalty)
        model = Pr2Reacher().model
        self.tool = ForwardKinematics(model, "tool", self.spec.joint_names)
        limits = enumerate(zip(LOWER, UPPER, strict=True))
        stops = [Stop(joint, *limit) for joint, limit in limits if limit[1] != math.pi]
        self.geometry = Geometry(self.spec, stops, [Vector("tool", "goal")], model)

    @property
    def spec(self) -> RobotSpec:
        """Seven joints and a goal."""
        return Pr2Reacher.spec

    @abstractmethod
    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """Reward `(...)` of states `(..., 17)` and torques `(..., 7)` [N m]."""

    def distance(self, state: Tensor) -> Tensor:
        """`(...)` between tool and goal [m]."""
        return self.squared_distance(state).sqrt()

    def squared_distance(self, state: Tensor) -> Tensor:
        """`(...)` between tool and goal [m²]."""
        away: Tensor = self.tool(state[..., :JOINTS]) - state[..., 2 * JOINTS :]
        return (away**2).sum(dim=-1)

    def imagined_states(self, count: int, generator: torch.Generator) -> Tensor:
        """Half stretched out at rest, half anywhere within the limits and moving; goals drawn."""
        lower, upper = torch.tensor(LOWER), torch.tensor(UPPER)
        uniform = torch.rand(count, JOINTS, generator=generator)
        speeds = torch.tensor(SPEED_SCALES) * torch.randn(count, JOINTS, generator=generator)
        moving = torch.cat([lower + uniform * (upper - lower), speeds], dim=-1)
        moving[: count - count // 2] = 0.0
        goals = torch.tensor(GOAL_MEAN) + GOAL_STD * torch.randn(count, 3, generator=generator)
        return torch.cat([moving, goals], dim=-1)


class Reacher(Reach):
    """r = −‖tool − goal‖² − ρ ‖u‖²: bring the tool of a 7-DOF arm to a goal."""

    name = "reacher"

    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """Reward `(...)` of states `(..., 17)` and torques `(..., 7)` [N m]."""
        return -self.squared_distance(state) - self.action_penalty * (action**2).sum(dim=-1)


class SparseReacher(Reach):
    """r = exp(−‖tool − goal‖²/0.45²) + ρ (exp(−‖u‖²) − 1): only near the goal there is reward."""

    name = "sparse_reacher"

    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """Reward `(...)` of states `(..., 17)` and torques `(..., 7)` [N m]."""
        near = torch.exp(-self.squared_distance(state) / SPARSE_LENGTH**2)
        gentle = torch.exp(-(action**2).sum(dim=-1)) - 1.0
        return near + self.action_penalty * gentle
