"""Where imagined trajectories of the paper's tasks start: states `(count, p)`."""

import math

import torch
from torch import Generator, Tensor

from hucrl_ros.tasks.view import RobotView


def pendulum(count: int, generator: Generator, robot: RobotView) -> Tensor:
    """Half hanging at rest, half uniform over angle and speed."""
    hanging = torch.tensor([[math.pi, 0.0]]).repeat(count - count // 2, 1)
    uniform = 2.0 * torch.rand(count // 2, 2, generator=generator) - 1.0
    fastest = robot.settings.state_bounds["pendulum_joint_velocity"]
    return torch.cat([hanging, uniform * torch.tensor([math.pi, fastest])])


def cartpole(count: int, generator: Generator, robot: RobotView) -> Tensor:
    """Half as episodes start, half anywhere on the rail at any angle and moving."""
    normal = torch.randn(count, 4, generator=generator)
    uniform = 2.0 * torch.rand(count, 4, generator=generator) - 1.0
    speeds = [robot.settings.scales[f"{joint}_velocity"] for joint in robot.spec.joint_names]
    anywhere = uniform * torch.tensor([2.5, math.pi, *speeds])
    first = (torch.arange(count) < count - count // 2)[:, None]
    return torch.where(first, robot.settings.start["cart_joint"].std * normal, anywhere)


def reacher(count: int, generator: Generator, robot: RobotView) -> Tensor:
    """Half stretched out at rest, half anywhere within the limits and moving; goals drawn."""
    goal = [robot.settings.start[entry] for entry in robot.spec.context]
    arm = _arm(count, generator, robot)
    drawn = goal[0].std * torch.randn(count, 3, generator=generator)
    return torch.cat([arm, torch.tensor([draw.mean for draw in goal]) + drawn], dim=-1)


def pusher(count: int, generator: Generator, robot: RobotView) -> Tensor:
    """As `reacher`, with the object where episodes start."""
    start = [robot.settings.start[f"object_{axis}"] for axis in "xyz"]
    arm = _arm(count, generator, robot)
    place = torch.tensor([draw.origin or draw.mean for draw in start]).repeat(count, 1)
    place[:, :2] += torch.tensor([draw.mean for draw in start[:2]])
    place[:, :2] += start[0].std * torch.randn(count, 2, generator=generator)
    return torch.cat([arm, place, torch.zeros(count, 2)], dim=-1)


def half_cheetah(count: int, generator: Generator, robot: RobotView) -> Tensor:
    """As episodes start: states far from what the legs can do would teach nothing."""
    start = robot.settings.start
    angles = start["rootz"].high * (2.0 * torch.rand(count, 8, generator=generator) - 1.0)
    speeds = start["rootz_velocity"].std * torch.randn(count, 9, generator=generator)
    return torch.cat([angles, speeds], dim=-1)


def _arm(count: int, generator: Generator, robot: RobotView) -> Tensor:
    moving = robot.anywhere(count, generator)
    moving[: count - count // 2] = 0.0
    return moving
