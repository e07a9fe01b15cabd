"""From what a description says to one that says everything."""

import dataclasses
from functools import cache
from pathlib import Path

import mujoco
import numpy as np

from hucrl_ros.config.robot import Draw, RobotSettings
from hucrl_ros.config.task_file import (
    Description,
    find_description,
    is_description,
    known_tasks,
    read_description,
    task_of_path,
)
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.actuated import with_motors
from hucrl_ros.robots.checks import (
    TURN,
    check_context,
    check_entries,
    check_period,
    check_seen,
    far_off,
    look_for_degrees,
    look_for_places,
    look_for_wider_limits,
    require_known,
)
from hucrl_ros.robots.extras import carrier
from hucrl_ros.robots.joint_limits import with_joint_limits
from hucrl_ros.robots.model_files import (
    build_model,
    check_urdf_limits,
    model_dependencies,
    urdf_kinds,
)
from hucrl_ros.robots.mujoco_robot import MujocoRobot, joint_ranges
from hucrl_ros.robots.scales import with_scales


def describe(task: str, folder: Path | None = None) -> Description:
    """The complete description of a task.

    Args:
        task: Name of one of the paper's or of a user's own, or the path of its description.
        folder: Where the description of a robot of one's own may lie, `RunFolder.robot`.

    Raises:
        ConfigError: no task has that name, or its description is wrong.
    """
    task = task_of_path(task)
    if is_description(task):
        return resolve(read_description(Path(task)))
    if task in known_tasks():
        return _resolved(known_tasks()[task])
    found = find_description(folder, task)
    if found is None:
        looked = "" if folder is None else f", and {folder} describes no robot"
        raise ConfigError(
            f"task: {task!r} is unknown; known tasks: {', '.join(known_tasks())}{looked}; a robot "
            "of your own is found in the folder of its run"
        )
    return found


@cache
def _resolved(path: Path) -> Description:
    return resolve(read_description(path))


def resolve(found: Description) -> Description:
    """Derive what a description leaves out: joints, limits, starts, scales, bounds, constraints.

    Raises:
        ConfigError: the model and the description don't fit together.
    """
    found = dataclasses.replace(found, files=tuple(model_dependencies(found.model)))
    # Motors that are asked for are checked before they are made.
    model = build_model(found.model, found.robot.model_copy(update={"actuated": ()}))
    check_urdf_limits(found.model)  # Once MuJoCo has read it, they are numbers.
    robot = _with_joints(found, model)
    look_for_degrees(found, robot, model)
    look_for_wider_limits(found, robot, model)
    robot = with_motors(found, robot, model)
    check_period(found, robot, model)
    check_context(found, robot, model)
    check_entries(found, robot)
    check_seen(found, robot, model)
    described = dataclasses.replace(found, robot=robot)
    robot = _with_start(robot, MujocoRobot(described))
    described = dataclasses.replace(found, robot=robot)
    built = MujocoRobot(described)
    look_for_places(found, built)
    try:
        scaled = with_scales(robot, built)
    except ConfigError as error:  # No smaller timestep helps where degrees are meant.
        why = str(error).removeprefix(f"{found.path}: ")
        raise ConfigError(f"{found.path}: {far_off(robot, built)}{why}") from None
    return dataclasses.replace(
        described,
        robot=scaled,
        constraints=with_joint_limits(described, built),
    )


def _with_joints(found: Description, model: mujoco.MjModel) -> RobotSettings:
    robot = found.robot
    for name, kind in () if robot.joints or robot.actuated else urdf_kinds(found.model).items():
        if kind in ("planar", "floating"):
            raise ConfigError(
                f"{found.model}: joint {name!r} is {kind}; expected revolute, continuous, "
                "prismatic or fixed ones, or robot.actuated: those with motors"
            )
    kinds = {
        model.joint(k).name: mujoco.mjtJoint(int(model.jnt_type[k])) for k in range(model.njnt)
    }
    movable = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    known = [name for name, kind in kinds.items() if name and kind in movable]
    objects = {entry.rpartition("_")[0] for entry in robot.observed}
    joints = robot.joints or tuple(
        name
        for name in known
        if name not in objects and model.body(int(model.joint(name).bodyid[0])).name not in objects
    )
    require_known(found, "joints", joints, known, "revolute or prismatic joint of the model")
    if not joints:
        raise ConfigError(f"{found.model}: the model has no revolute or prismatic joint")
    for name in joints:
        if base := carrier(model, name):
            raise ConfigError(
                f"{found.model}: joint {name!r} hangs on {base}, a free or ball one, which no "
                "state tells; expected hinges and slides alone between it and the world"
            )
    revolute = [name for name in joints if kinds[name] == mujoco.mjtJoint.mjJNT_HINGE]
    ranges = dict(zip(joints, np.ptp(joint_ranges(model, joints), axis=1), strict=True))
    # More than a turn, and the angle itself tells more than its cosine and sine.
    usual = tuple(name for name in revolute if not TURN < ranges[name] < np.inf)
    angles = usual if robot.angles is None else robot.angles
    require_known(found, "angles", angles, revolute, "revolute one of robot.joints")
    return robot.model_copy(update={"joints": joints, "angles": angles})


def _with_start(robot: RobotSettings, built: MujocoRobot) -> RobotSettings:
    """Where a draw has no mean, that of the model: joints at their zero, bodies where they are.

    Joints that follow others begin where those lead them.
    """
    mujoco.mj_resetData(built.model, built.data)
    model_has = dict(zip(robot.entries, built.state.tolist(), strict=True))
    start = {}
    for entry, value in model_has.items():
        draw = robot.start.get(entry, Draw())
        if draw.mean is None and draw.low is None:
            draw = draw.model_copy(update={"mean": round(value, 9)})
        start[entry] = draw
    ends = np.array([draw.range for draw in start.values()]).T
    for entry, *led in zip(start, *map(built.led, ends), strict=True):
        low, high = (round(value, 9) for value in sorted(led))
        if entry not in robot.start and (low, high) != start[entry].range:
            start[entry] = Draw(mean=low) if low == high else Draw(low=low, high=high)
    return robot.model_copy(update={"start": start})
