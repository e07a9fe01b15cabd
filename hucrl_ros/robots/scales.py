"""Units for the networks' inputs, and bounds of what is imagined, where a description has none."""

import numpy as np

from hucrl_ros.config.robot import RobotSettings, StateBound
from hucrl_ros.robots.measured import Measured, measure, round_up
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot

STRETCH = 0.3
"""[rad] How far an imagined joint may get into its stop."""
SLIDE_STRETCH = 0.1
"""Share of its larger limit by which an imagined prismatic joint may get into its stop."""
BEYOND = 2.0
"""Share of the largest value seen up to which an entry is imagined."""


def with_scales(robot: RobotSettings, built: MujocoRobot) -> RobotSettings:
    """The settings with a scale and a bound for each entry: what joints tell, else measured."""
    entries = robot.entries
    angles = set(robot.angles or ())
    moving = entries[: len(entries) - len(robot.context)]
    scaled = [entry for entry in entries if entry not in angles]
    bounds = {**_bounds_of_joints(robot, built), **robot.state_bounds}
    if set(scaled) <= set(robot.scales) and set(moving) <= set(bounds):
        return robot.model_copy(update={"state_bounds": bounds})
    measured = measure(built, robot.steps)
    usual = _usual(robot, built, measured)
    largest = _largest(robot, measured)
    return robot.model_copy(
        update={
            "scales": {entry: robot.scales.get(entry, usual[entry]) for entry in scaled},
            "state_bounds": {
                entry: bounds[entry] if entry in bounds else largest[entry] for entry in moving
            },
        }
    )


def _usual(robot: RobotSettings, built: MujocoRobot, measured: Measured) -> dict[str, float]:
    usual = dict(zip(robot.entries, measured.usual.tolist(), strict=True))
    for joint, limits in zip(robot.joints, built.ranges, strict=True):
        if np.isfinite(limits).all():
            usual[joint] = float(np.abs(limits).max())
    for entry in robot.context:
        usual[entry] = robot.start[entry].largest
    return {entry: round_up(value) or 1.0 for entry, value in usual.items()}


def _largest(robot: RobotSettings, measured: Measured) -> dict[str, StateBound]:
    seen = zip(robot.entries, measured.largest.tolist(), strict=True)
    return {entry: round_up(BEYOND * value) or 1.0 for entry, value in seen}


def _bounds_of_joints(robot: RobotSettings, built: MujocoRobot) -> dict[str, StateBound]:
    """Of angles and of joints with limits, which the model tells."""
    angles = robot.angles or ()
    return {
        joint: _joint_bound(joint in angles, limits)
        for joint, limits in zip(robot.joints, built.ranges, strict=True)
        if joint in angles or np.isfinite(limits).all()
    }


def _joint_bound(angle: bool, limits: Array) -> StateBound:
    if not np.isfinite(limits).all():
        return None
    beyond = STRETCH if angle else SLIDE_STRETCH * float(np.abs(limits).max())
    lower, upper = round(float(limits[0]) - beyond, 6), round(float(limits[1]) + beyond, 6)
    return upper if lower == -upper else (lower, upper)
