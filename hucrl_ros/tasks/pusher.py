"""Pushing an object with the PR2's arm (App. Pusher)."""

import torch
from torch import Tensor

from hucrl_ros.robots import Pr2Pusher, RobotSpec
from hucrl_ros.robots.pr2_pusher import GOAL, OBJECT_OFFSET, OBJECT_STD
from hucrl_ros.tasks.base import Task
from hucrl_ros.tasks.geometry import Geometry, Stop, Vector
from hucrl_ros.tasks.kinematics import ForwardKinematics

JOINTS = 7
SPEED_SCALES = (1.0, 1.0, 3.0, 2.0, 4.0, 4.0, 5.0)
"""[rad/s] Units of the velocities: what random torques lead to."""
MAX_SPEEDS = (5.0, 5.0, 15.0, 12.0, 25.0, 20.0, 25.0)
"""[rad/s] Of an imagined arm."""
LOWER = (-2.2854, -0.5236, -1.5, -2.3213, -1.5, -1.094, -1.5)
UPPER = (1.7146, 1.3963, 1.7, 0.0, 1.5, 0.0, 1.5)
"""[rad] The joints' limits."""
STRETCH = 0.3
"""[rad] How far an imagined joint may get into its stop."""
OBJECT_SCALE = 0.3
"""[m]"""
OBJECT_SPEED_SCALE = 0.3
"""[m/s]"""
PLACE = slice(2 * JOINTS, 2 * JOINTS + 3)
"""The object's coordinates in the state."""


class Pusher(Task):
    """r = −‖wrist − object‖²/2 − 1.25 ‖object − goal‖² − ρ ‖u‖²: push an object to its goal."""

    name = "pusher"
    robot = Pr2Pusher
    steps = 150
    close = 0.08
    angles = tuple(range(JOINTS))
    scales = (*SPEED_SCALES, *(OBJECT_SCALE,) * 3, *(OBJECT_SPEED_SCALE,) * 2)
    reach = (
        *((low - STRETCH, high + STRETCH) for low, high in zip(LOWER, UPPER, strict=True)),
        *MAX_SPEEDS,
        *(1.5,) * 3,
        *(2.0,) * 2,
    )

    def __init__(self, action_penalty: float) -> None:
        super().__init__(action_penalty)
        model = Pr2Pusher().model
        self.wrist = ForwardKinematics(model, "wrist", self.spec.joint_names)
        self.geometry = Geometry(
            self.spec,
            [Stop(joint, LOWER[joint], UPPER[joint]) for joint in range(JOINTS)],
            [Vector(site, "object") for site in ("wrist", "right_tip", "left_tip")],
            model,
        )

    @property
    def spec(self) -> RobotSpec:
        """Seven joints and an object."""
        return Pr2Pusher.spec

    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """Reward `(...)` of states `(..., 19)` and torques `(..., 7)` [N m]."""
        place = state[..., PLACE]
        to_object = ((self.wrist(state[..., :JOINTS]) - place) ** 2).sum(dim=-1)
        to_goal = ((place - torch.tensor(GOAL, dtype=state.dtype)) ** 2).sum(dim=-1)
        reward: Tensor = -0.5 * to_object - 1.25 * to_goal
        return reward - self.action_penalty * (action**2).sum(dim=-1)

    def distance(self, state: Tensor) -> Tensor:
        """`(...)` between object and goal [m]."""
        away = state[..., PLACE] - torch.tensor(GOAL, dtype=state.dtype)
        return (away**2).sum(dim=-1).sqrt()

    def imagined_states(self, count: int, generator: torch.Generator) -> Tensor:
        """Half as episodes start, half anywhere within the limits and moving."""
        lower, upper = torch.tensor(LOWER), torch.tensor(UPPER)
        uniform = torch.rand(count, JOINTS, generator=generator)
        speeds = torch.tensor(SPEED_SCALES) * torch.randn(count, JOINTS, generator=generator)
        moving = torch.cat([lower + uniform * (upper - lower), speeds], dim=-1)
        moving[: count - count // 2] = 0.0
        place = torch.tensor(GOAL).repeat(count, 1)
        place[:, :2] += torch.tensor(OBJECT_OFFSET)
        place[:, :2] += OBJECT_STD * torch.randn(count, 2, generator=generator)
        return torch.cat([moving, place, torch.zeros(count, 2)], dim=-1)
