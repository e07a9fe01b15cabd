"""The motors and servos of a MuJoCo model: what they take, and how much of it."""

from copy import copy
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import UNITS, Command, RobotSettings, RobotSpec
from hucrl_ros.errors import ConfigError

Array = NDArray[np.float64]
TOLERANCE = 1e-9
OWN = ("armature", "damping", "delay", "nsample", "interp")
"""What an actuator has besides gear, gains and limits: of its rotor, and of its commands' way."""


class Motor(NamedTuple):
    """What the model says of a joint's motor."""

    gear: float
    """Joint effort for a command of 1 [N m or N]."""
    limit: float | None
    """Largest absolute command; None: the model has no limit, or an uneven one."""
    present: bool
    """The model has it; otherwise it has to be added."""
    gains: tuple[float, float] = (0.0, 0.0)
    """kp and kv of a servo."""
    force: tuple[float, float] | None = None
    """Least and largest effort before the gear; None: any, or the joint's [N m or N]."""
    places: tuple[float, float] | None = None
    """Least and largest position that a servo accepts; None: any [rad or m]."""


def read_motors(model: mujoco.MjModel, path: Path, settings: RobotSettings) -> dict[str, Motor]:
    """Motors or servos by joint: those of the model, in its order, then others to be added.

    These are joints with an effort limit or, where commands are no efforts, with a servo in the
    settings.

    Raises:
        ConfigError: a joint is driven by something that takes other commands, or by two motors; or
            what is driven is no joint.
    """
    motors: dict[str, Motor] = {}
    for index in range(model.nu):
        if model.actuator_trntype[index] != mujoco.mjtTrn.mjTRN_JOINT:
            raise ConfigError(
                f"{path}: actuator {model.actuator(index).name or index!r} drives no joint "
                "(tendon, site, ...): expected a joint's motor; change it, or take it out"
            )
        moved = int(model.actuator_trnid[index, 0])
        joint = model.joint(moved).name
        kind = _kind(model, index)
        if kind != settings.command:
            tag = "motor" if settings.command == "effort" else settings.command
            raise ConfigError(
                f"{path}: actuator {model.actuator(index).name!r} of joint {joint!r} is no {tag}; "
                f"robot.command = {settings.command}: make it a <{tag}>, or take it out"
            )
        if joint in motors:
            raise ConfigError(f"{path}: joint {joint!r} has two actuators; expected one at most")
        if kind == "effort":
            motors[joint] = _motor(model, index, moved, path)
        else:
            motors[joint] = _servo(model, index, settings.command, path)
    if settings.command != "effort":
        for joint, servo in settings.servos.items():
            motors.setdefault(joint, Motor(1.0, None, False, (servo.kp, servo.kv)))
        return motors
    for index in range(model.njnt):
        joint, effort = model.joint(index).name, _joint_limit(model, index)
        if joint not in motors and effort is not None:
            motors[joint] = Motor(1.0, effort, False)
    return motors


def followers(model: mujoco.MjModel) -> set[str]:
    """Joints with a name that an equality moves with another one, as a URDF's `<mimic>` does."""
    return {
        name
        for index in range(model.neq)
        if model.eq_type[index] == mujoco.mjtEq.mjEQ_JOINT
        and model.eq_active0[index]
        and (name := model.joint(int(model.eq_obj1id[index])).name)
    }


def led(model: mujoco.MjModel, spec: RobotSpec, states: Array) -> Array:
    """`states` `(..., p)`, or of joints alone `(..., 2 n)`, with followers where they are led.

    Those with a motor, and those whose leader isn't in the state, stay as they are.
    """
    states, names = states.copy(), spec.joint_names
    equalities = np.flatnonzero((model.eq_type == mujoco.mjtEq.mjEQ_JOINT) & model.eq_active0)
    for k in np.tile(equalities, len(equalities)):  # who is led may lead another one
        joint, other = model.joint(int(model.eq_obj1id[k])), int(model.eq_obj2id[k])
        leader = model.joint(other) if other >= 0 else None
        moved = joint.name in names and joint.name not in spec.actuated_joints
        if not (moved and (leader is None or leader.name in names)):
            continue
        curve = np.polynomial.Polynomial(model.eq_data[k, :5])
        away, speed = np.zeros((2, *states.shape[:-1]))
        if leader is not None:
            place = names.index(leader.name)
            away = states[..., place] - leader.qpos0[0]
            speed = states[..., len(names) + place]
        follower = names.index(joint.name)
        states[..., follower] = joint.qpos0[0] + curve(away)
        states[..., len(names) + follower] = curve.deriv()(away) * speed
    return states


def _kind(model: mujoco.MjModel, index: int) -> str:
    """What an actuator takes, as `RobotSettings.command` says; empty: something else."""
    gain, bias = float(model.actuator_gainprm[index, 0]), model.actuator_biasprm[index, :3]
    affine = model.actuator_biastype[index] == mujoco.mjtBias.mjBIAS_AFFINE
    if model.actuator_gaintype[index] or model.actuator_dyntype[index]:
        return ""
    if not model.actuator_biastype[index]:
        return "effort" if gain == 1.0 else ""
    if affine and gain > 0 and bias.tolist() == [0.0, 0.0, -gain]:
        return "velocity"
    return "position" if affine and gain > 0 and bias[:2].tolist() == [0.0, -gain] else ""


def _motor(model: mujoco.MjModel, index: int, joint: int, path: Path) -> Motor:
    gear = float(model.actuator_gear[index, 0])
    if gear <= 0.0:  # Guard, damping and braking rule would push where they mean to brake.
        raise ConfigError(
            f"{path}: the motor of joint {model.joint(joint).name!r} has a gear of {gear:g}; a "
            "positive effort has to push to larger positions: expected more than 0 (on a robot, "
            "have the driver change the sign of commands)"
        )
    limited = bool(model.actuator_ctrllimited[index])
    force = _force(model, index)
    effort = _joint_limit(model, joint)
    limits = (
        _even(model.actuator_ctrlrange[index]) if limited else None,
        _even(force) if force else None,
        None if effort is None else effort / gear,
    )
    known = [limit for limit in limits if limit is not None]
    return Motor(gear, min(known, default=None), True, force=force)


def _servo(model: mujoco.MjModel, index: int, command: Command, path: Path) -> Motor:
    if model.actuator_gear[index, 0] != 1.0:
        raise ConfigError(
            f"{path}: actuator {model.actuator(index).name!r} has a gear of "
            f"{model.actuator_gear[index, 0]:g}; commands are {UNITS[command]} of the joint: "
            "expected 1"
        )
    gain, bias = float(model.actuator_gainprm[index, 0]), model.actuator_biasprm[index]
    limited = bool(model.actuator_ctrllimited[index])
    accepted = _pair(model.actuator_ctrlrange[index]) if limited else None
    force = _force(model, index)
    if command == "position":
        return Motor(1.0, None, True, (gain, -float(bias[2])), force, accepted)
    return Motor(1.0, _even(accepted) if accepted else None, True, (0.0, gain), force)


def _force(model: mujoco.MjModel, index: int) -> tuple[float, float] | None:
    limited = bool(model.actuator_forcelimited[index])
    return _pair(model.actuator_forcerange[index]) if limited else None


def _pair(bounds: NDArray[np.float64]) -> tuple[float, float]:
    return float(bounds[0]), float(bounds[1])


def _joint_limit(model: mujoco.MjModel, joint: int) -> float | None:
    limited = bool(model.jnt_actfrclimited[joint])
    return _even(model.jnt_actfrcrange[joint]) if limited else None


def _even(bounds: NDArray[np.float64] | tuple[float, float]) -> float | None:
    low, high = float(bounds[0]), float(bounds[1])
    return high if abs(low + high) < TOLERANCE else None


def replace_motors(spec: mujoco.MjSpec, settings: RobotSettings, motors: dict[str, Motor]) -> None:
    """Give the model one motor or servo for each of `settings.actuated`, in that order."""
    own = {  # as far as this MuJoCo knows it
        each.target: {name: copy(getattr(each, name)) for name in OWN if hasattr(each, name)}
        for each in spec.actuators
    }
    for actuator in list(spec.actuators):
        spec.delete(actuator)
    if settings.servos and spec.option.integrator == mujoco.mjtIntegrator.mjINT_EULER:
        # A URDF knows no inertia of motors: what is light and stiff would be unstable otherwise.
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    limits = dict(zip(settings.actuated, settings.action_limits, strict=False))
    for joint in settings.actuated:
        motor = motors.get(joint, Motor(1.0, None, False))
        actuator = spec.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        for name, value in own.get(joint, {}).items():
            setattr(actuator, name, value)
        kp, kv = motor.gains
        if settings.command == "effort":
            actuator.set_to_motor()
        elif settings.command == "velocity":
            actuator.set_to_velocity(kv=kv)
        else:
            actuator.set_to_position(kp=kp, kv=kv)
        actuator.gear[0] = motor.gear
        limit = limits.get(joint, motor.limit)
        accepted = motor.places
        if limit is not None and settings.command != "position":
            accepted = (-limit, limit)
        # Without a word here, those of the model's <default><motor/> would hold.
        actuator.ctrllimited = actuator.forcelimited = mujoco.mjtLimited.mjLIMITED_FALSE
        if accepted is not None:
            actuator.ctrllimited = mujoco.mjtLimited.mjLIMITED_TRUE
            actuator.ctrlrange = list(accepted)
        if motor.force is not None:
            actuator.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
            actuator.forcerange = list(motor.force)
