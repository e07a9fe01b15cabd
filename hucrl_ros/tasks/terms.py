"""The terms that a user composes a reward of: functions of settings, robot, state and action."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hucrl_ros.config.reward import (
    BoundedEffortSettings,
    DistanceSettings,
    EffortSettings,
    GentleSettings,
    HeightSettings,
    NearSettings,
    PositionSettings,
    ProductSettings,
    SlowSettings,
    SpeedSettings,
    TermSettings,
    UprightSettings,
    VelocitySettings,
    WithinSettings,
)
from hucrl_ros.errors import ConfigError
from hucrl_ros.tasks.view import RobotView

Term = Callable[[Any, RobotView, Tensor, Tensor], Tensor]
"""Settings, robot, states `(..., p)`, actions `(..., q)` → `(...)`."""


def tolerance(x: Tensor, lower: float, upper: float, margin: float) -> Tensor:
    """1 inside `[lower, upper]`, falling as a Gaussian to 0.1 at a distance of `margin`.

    The tolerance function of dm_control's rewards (Tassa et al., 2018), in torch.
    """
    distance = torch.clamp(lower - x, min=0.0) + torch.clamp(x - upper, min=0.0)
    return torch.exp(math.log(0.1) * (distance / margin) ** 2)


def distance(settings: DistanceSettings, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """−‖p − q‖² [m²]: bring a site or an object (of) to a place (to)."""
    return -robot.squared_distance(state, settings.of, settings.to)


def near(settings: NearSettings, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """exp(−‖p − q‖²/length²): as distance, but only what is near earns anything."""
    squared = robot.squared_distance(state, settings.of, settings.to)
    return torch.exp(-squared / settings.length**2)


def height(settings: HeightSettings, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """Height of a site or an object (of) [m]: get it up."""
    return robot.point(state, settings.of)[..., 2]


def upright(settings: UprightSettings, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """tol(cos(q − target); cosine..1, margin): a revolute joint at an angle, turns ignored."""
    angle = robot.angle(state, settings.joint)
    cosine = torch.cos(angle - settings.target if settings.target else angle)
    return tolerance(cosine, settings.cosine, 1.0, settings.margin)


def position(settings: PositionSettings, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """−(q − target)² [rad² or m²]: a joint at a position, turns counted."""
    return -((robot.position(state, settings.joint) - settings.target) ** 2)


def within(settings: WithinSettings, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """tol(q; low..high, margin): a joint within a band."""
    place = robot.position(state, settings.joint)
    return tolerance(place, settings.low, settings.high, settings.margin)


def slow(settings: SlowSettings, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """tol(q̇; ±band, margin): a joint at rest."""
    speed = robot.velocity(state, settings.joint)
    return tolerance(speed, -settings.band, settings.band, settings.margin)


def speed(settings: SpeedSettings, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """min(q̇, cap) [rad/s or m/s]: go forward."""
    forward = robot.velocity(state, settings.joint)
    return forward if settings.cap is None else forward.clamp(max=settings.cap)


def velocity(settings: VelocitySettings, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """−Σ q̇² over the joints [(rad/s)² or (m/s)²]: move slowly."""
    if not settings.joints:
        return -(robot.velocities(state) ** 2).sum(dim=-1)
    speeds = torch.stack([robot.velocity(state, joint) for joint in settings.joints], dim=-1)
    return -(speeds**2).sum(dim=-1)


def effort(settings: EffortSettings, robot: RobotView, _: Tensor, action: Tensor) -> Tensor:
    """−ρ ‖u/scale‖²: use little effort; ρ is action_penalty."""
    return -robot.action_penalty * ((action / settings.scale) ** 2).sum(dim=-1)


def gentle(settings: GentleSettings, robot: RobotView, _: Tensor, action: Tensor) -> Tensor:
    """ρ (tol(u; ±band, margin) − 1), mean over the efforts: what is below the band is free."""
    tolerances = tolerance(action, -settings.band, settings.band, settings.margin)
    return robot.action_penalty * (tolerances.mean(dim=-1) - 1.0)


def bounded_effort(
    settings: BoundedEffortSettings, robot: RobotView, _: Tensor, action: Tensor
) -> Tensor:
    """ρ (exp(−‖u/scale‖²) − 1): use little effort, of which the largest costs no more than ρ."""
    gentle = torch.exp(-((action / settings.scale) ** 2).sum(dim=-1)) - 1.0
    return robot.action_penalty * gentle


def product(settings: ProductSettings, robot: RobotView, state: Tensor, action: Tensor) -> Tensor:
    """The product of other terms (factors): all of them at once."""
    result = weighted(settings.factors[0], robot, state, action)
    for factor in settings.factors[1:]:
        result = result * weighted(factor, robot, state, action)
    return result


TERMS: dict[str, Term] = {
    "distance": distance,
    "near": near,
    "height": height,
    "upright": upright,
    "position": position,
    "within": within,
    "slow": slow,
    "speed": speed,
    "velocity": velocity,
    "effort": effort,
    "gentle": gentle,
    "bounded_effort": bounded_effort,
    "product": product,
}


def weighted(settings: TermSettings, robot: RobotView, state: Tensor, action: Tensor) -> Tensor:
    """One term `(...)` with its weight."""
    ours = TERMS.get(settings.term)
    value = (
        settings.value(robot, state, action)
        if ours is None
        else ours(settings, robot, state, action)
    )
    return value if settings.weight == 1.0 else settings.weight * value


def total(
    terms: Sequence[TermSettings], robot: RobotView, state: Tensor, action: Tensor
) -> Tensor:
    """Sum `(...)` of the terms; the number of the one that is wrong stands in the error.

    Raises:
        ConfigError: a term names something that the robot doesn't have.
    """
    summed: Tensor | None = None
    for number, settings in enumerate(terms):
        try:
            value = weighted(settings, robot, state, action)
        except ConfigError as error:
            raise ConfigError(f"reward.terms.{number} ({settings.term}): {error}") from None
        summed = value if summed is None else summed + value
    assert summed is not None
    return summed
