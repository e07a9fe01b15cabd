"""Which bundles may play: those made for this robot that loosen no safety setting in force."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.config.task_file import beside, kept_robot
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.manifest import Manifest
from hucrl_ros.errors import BundleError, shortened


def admit(
    path: Path,
    manifest: Manifest,
    task: str,
    safety: SafetySettings,
    robot: RobotSpec | None = None,
    in_force: Guard | None = None,
) -> Guard:
    """Check a bundle that somebody offers, for the controller and the watchdog alike.

    What the robot is says the description in the node's run, or else that in the run of the
    node's first bundle; without both the first bundle that it accepts. A later one may be
    stricter, never looser, so that no swap switches safety off.

    Args:
        path: The bundle.
        manifest: What it says.
        task: The node's task.
        safety: The manifest's settings with those in it that the node was given.
        robot: The robot as the node's run describes it; None: there is no run, or it doesn't.
        in_force: Guard of the bundle accepted before; None: there was none.

    Returns:
        The guard of this bundle, in force once the bundle is accepted.

    Raises:
        BundleError: it is for another task or robot, asks too much of the robot, or is looser
            than what is in force; names the field and both values.
        ConfigError: the safety settings don't fit the robot, or its description can't be read.
    """
    spec = manifest.spec
    if manifest.task != task:
        found = shortened(repr(manifest.task))
        raise BundleError(f"{path}: made for the task {found}; this controller's is {task!r}")
    if robot is None and in_force is None:
        robot = kept_robot(beside(path), task)
    if robot is not None:
        weaker = tuple(map(min, spec.effort_limits, robot.effort_limits))
        check_robot(path, spec, replace(robot, period=spec.period, effort_limits=weaker))
    if in_force is None:
        return Guard(spec, safety)
    check_robot(path, spec, in_force.spec)
    guard = Guard(spec, safety)
    for names, room in guard.room.items():
        if np.any(room > in_force.room[names]):
            raise BundleError(
                f"{path}: looser than the safety in force: {_told(names, safety)}, in force "
                f"{_told(names, in_force.safety)}; start the node anew to loosen it"
            )
    return guard


def check_robot(path: Path, made_for: RobotSpec, here: RobotSpec) -> None:
    """Refuse a bundle that was made for another robot than the one here.

    Raises:
        BundleError: names the field and both values.
    """
    for field in fields(RobotSpec):
        theirs, ours = getattr(made_for, field.name), getattr(here, field.name)
        if theirs != ours:
            raise BundleError(
                f"{path}: made for another robot: {field.name} is {shortened(repr(theirs))} in "
                f"the bundle, {shortened(repr(ours))} here"
            )


def _told(names: Sequence[str], safety: SafetySettings) -> str:
    values = ((name, getattr(safety, name)) for name in names)
    return ", ".join(f"safety.{name} = {shortened(value)}" for name, value in values)
