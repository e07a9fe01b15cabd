"""Which joints have motors, and how much these do at most."""

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import mujoco
import numpy as np

from hucrl_ros.config.robot import RobotSettings
from hucrl_ros.config.task_file import Description
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.checks import require_known
from hucrl_ros.robots.model_files import urdf_kinds, urdf_velocities
from hucrl_ros.robots.motors import Motor, followers, read_motors

logger = logging.getLogger(__name__)


def with_motors(found: Description, robot: RobotSettings, model: mujoco.MjModel) -> RobotSettings:
    """The settings with the joints that have motors, and their limits.

    Raises:
        ConfigError: a limit or a motor is missing, or more is asked for than the model allows.
    """
    told = read_motors(model, found.model, robot)
    motors = {joint: motor for joint, motor in told.items() if joint in robot.joints}
    present = [joint for joint, motor in motors.items() if motor.present]
    moved = followers(model) - set(robot.servos)
    actuated = robot.actuated or tuple(
        present or (joint for joint in motors if joint not in moved)
    )
    if not actuated:
        lacks = "neither motors nor effort limits"
        if robot.command != "effort":
            lacks = f"no <{robot.command}>, and robot.servos names none of its joints"
        raise ConfigError(
            f"{found.path}: robot.actuated is missing: {found.model.name} has {lacks}; joints: "
            f"{', '.join(robot.joints)}"
        )
    require_known(found, "actuated", actuated, robot.joints, "one of robot.joints")
    if urdf_kinds(found.model) and not robot.actuated:
        limp = [joint for joint in robot.joints if joint not in actuated and joint not in moved]
        for joint in limp:
            _warn_of_limp_joint(found.model, joint, robot.command)
    _check_servos(found, robot, actuated, motors)
    given, key = robot.action_limits, robot.limits_key
    if given and len(given) != len(actuated):
        raise ConfigError(
            f"{found.path}: robot.{key} = {list(given)}: expected {len(actuated)}, one "
            f"for each of {', '.join(actuated)}"
        )
    fastest = urdf_velocities(found.model) if robot.command == "velocity" else {}
    limits = []
    for k, joint in enumerate(actuated):
        most = motors[joint].limit if joint in motors else None
        both_ways = _both_ways(model, robot, joint, motors)
        uneven = both_ways < (np.inf if most is None else most) - 1e-9
        if not given and (most is None or uneven):
            at_most = f"; at most {both_ways:g} is accepted" if uneven else ""
            raise ConfigError(
                f"{found.path}: robot.{key} is missing: {found.model.name} has no "
                f"symmetric limit for joint {joint!r}{at_most}"
            )
        most = both_ways if uneven else most
        if joint in fastest:  # the least of both
            most = min(fastest[joint], np.inf if most is None else most)
        if given and most is not None and given[k] > most + 1e-9:
            raise ConfigError(
                f"{found.path}: robot.{key}: {given[k]:g} for joint {joint!r} exceeds the "
                f"limit of {found.model.name}, {most:g}"
            )
        limits.append(given[k] if given else most)
    return robot.model_copy(update={"actuated": actuated, key: tuple(limits)})


def _both_ways(
    model: mujoco.MjModel, robot: RobotSettings, joint: str, motors: Mapping[str, Motor]
) -> float:
    """The largest command that the model obeys in both directions; infinite: any."""
    number = model.joint(joint).id
    accepted = []
    for k in range(model.nu if robot.command != "position" else 0):
        moves = model.actuator_trntype[k] == mujoco.mjtTrn.mjTRN_JOINT
        if not moves or model.actuator_trnid[k, 0] != number:
            continue
        if model.actuator_ctrllimited[k]:
            accepted.append(model.actuator_ctrlrange[k])
        if robot.command == "effort" and model.actuator_forcelimited[k]:
            accepted.append(model.actuator_forcerange[k])
    gear = motors[joint].gear if joint in motors else 1.0
    if robot.command == "effort" and model.jnt_actfrclimited[number]:
        accepted.append(model.jnt_actfrcrange[number] / gear)
    return min((max(0.0, min(-float(low), float(high))) for low, high in accepted), default=np.inf)


@cache
def _warn_of_limp_joint(model: Path, joint: str, command: str) -> None:
    why, what = "robot.servos doesn't name it", f"robot.servos.{joint}"
    if command == "effort":
        why = "the file gives it no effort limit"
        what = '<limit effort="..."/>, or robot.actuated and robot.effort_limits'
    logger.warning("%s: joint %r has no motor, as %s; if it has one: %s", model, joint, why, what)


def _check_servos(
    found: Description, robot: RobotSettings, actuated: Sequence[str], motors: Mapping[str, Motor]
) -> None:
    require_known(found, "servos", robot.servos, actuated, "one of robot.actuated")
    for joint in actuated if robot.command != "effort" else ():
        if joint not in motors or (not motors[joint].present and joint not in robot.servos):
            gains = "{kv: ...}" if robot.command == "velocity" else "{kp: ..., kv: ...}"
            raise ConfigError(
                f"{found.path}: robot.servos.{joint} is missing: {found.model.name} has no "
                f"<{robot.command}> for this joint; give {gains}"
            )
        if motors[joint].present and joint in robot.servos:
            raise ConfigError(
                f"{found.path}: robot.servos.{joint}: {found.model.name} has a <{robot.command}> "
                "for this joint already"
            )
