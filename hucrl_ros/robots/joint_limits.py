"""Constraints that a model tells: the limits of its joints; and usual margins."""

import math
from collections.abc import Mapping

import numpy as np

from hucrl_ros.config.constraints import (
    AnyConstraint,
    ConstraintList,
    PositionConstraint,
    PowerConstraint,
    SpeedConstraint,
)
from hucrl_ros.config.files import checked
from hucrl_ros.config.task_file import CONSTRAINTS, Description
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.motors import followers
from hucrl_ros.robots.mujoco_robot import MujocoRobot

Ranges = Mapping[str, tuple[float, float]]
"""By joint, its limits; infinite where it has none [rad or m]."""

ROUNDING = 1e-6
"""[rad or m] By which a limit may be beyond the model's, which may be degrees."""


def with_joint_limits(found: Description, built: MujocoRobot) -> tuple[AnyConstraint, ...]:
    """A description's constraints with limits and margins, then the other joints' limits.

    Args:
        found: With joints and motors known.
        built: Its model.

    Raises:
        ConfigError: a constraint names no joint, or there is neither a limit nor a usual margin.
    """
    rows = built.ranges.tolist()
    ranges = {name: (row[0], row[1]) for name, row in zip(found.robot.joints, rows, strict=True)}
    given = [_complete(found, number, ranges) for number in range(len(found.constraints))]
    named = {limit.joint for limit in given if isinstance(limit, PositionConstraint)}
    for joint, limits in ranges.items() if found.robot.joint_limits else ():
        if joint not in named and np.isfinite(limits).all():
            limit = PositionConstraint(kind="position", joint=joint, low=limits[0], high=limits[1])
            given.append(limit.model_copy(update={"margin": limit.usual_margin}))
    return tuple(given)


def loose_limits(described: Description) -> str:
    """Limits of joints that neither a motor nor another joint moves, and what helps; or none."""
    moved = {*described.robot.actuated, *followers(MujocoRobot(described).model)}
    loose = [
        f"{limit.subject} {limit.limit}"
        for limit in described.constraints
        if isinstance(limit, (PositionConstraint, SpeedConstraint)) and limit.joint not in moved
    ]
    if not loose:
        return ""
    return (
        f"{', '.join(loose)}: no motor moves it, and the safety filter passes only what leaves it "
        "inside while the motors brake: what hangs stays inside, what has to be balanced falls; "
        "for that take the constraint out, or, if it is the model's, robot.joint_limits: false "
        "and constraints for the other joints"
    )


def _complete(found: Description, number: int, ranges: Ranges) -> AnyConstraint:
    limit = found.constraints[number]
    origin = f"{found.path}: {CONSTRAINTS}.{number} ({limit.kind})"
    if isinstance(limit, PowerConstraint) and found.robot.command != "effort":
        raise ConfigError(
            f"{origin}: robot.command = {found.robot.command}; power is known of efforts alone"
        )
    if isinstance(limit, PositionConstraint):
        limit = _with_limits(limit, origin, ranges, found.robot.joint_limits)
    margin = limit.usual_margin if limit.margin is None else limit.margin
    if margin is None:
        raise ConfigError(f"{origin}: margin is missing; {limit.limit} has no usual one")
    # Once more, as a margin may leave no room between limits that the model told.
    entries = [*found.constraints[:number], limit.model_copy(update={"margin": margin})]
    told = {CONSTRAINTS: [entry.model_dump() for entry in entries]}
    return checked(ConstraintList, told, found.path).constraints[number]


def _with_limits(
    limit: PositionConstraint, origin: str, ranges: Ranges, within: bool
) -> PositionConstraint:
    """With the model's limits where none are given; `within`: refuse others beyond them."""
    if limit.joint not in ranges:
        raise ConfigError(f"{origin}: {limit.joint!r} is no joint; known: {', '.join(ranges)}")
    least, most = ranges[limit.joint]
    for key, given in (("low", limit.low), ("high", limit.high)):
        if within and given is not None and not least - ROUNDING <= given <= most + ROUNDING:
            raise ConfigError(
                f"{origin}: {key} = {given:g} is beyond the limits of {limit.joint!r}, "
                f"{least:g} … {most:g} (the model's or robot.limits); expected a value within "
                "them, or robot.joint_limits: false"
            )
    told = (x if math.isfinite(x) else None for x in (least, most))
    low, high = (
        given if given is not None else model
        for given, model in zip((limit.low, limit.high), told, strict=True)
    )
    if low is None and high is None:
        raise ConfigError(
            f"{origin}: {limit.joint!r} has no limits in the model; give low or high"
        )
    if low is not None and high is not None and low >= high:
        raise ConfigError(
            f"{origin}: low = {low:g} isn't less than high = {high:g}; which of them isn't "
            f"given is the limit of {limit.joint!r} in the model"
        )
    return limit.model_copy(update={"low": low, "high": high})
