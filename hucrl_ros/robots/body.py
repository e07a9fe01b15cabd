"""How a simulated body differs from its model: masses, friction, motors and gears."""

import math

import mujoco
import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec, plural
from hucrl_ros.config.schema import BodySettings
from hucrl_ros.config.stand_in import OF_EFFORTS
from hucrl_ros.errors import ConfigError

Array = NDArray[np.float64]
AS_MODELLED = BodySettings()
"""Nothing is different."""
ROTOR = 0.05
"""Inertia of a motor's rotor, which crosses the backlash [shares of what its joint moves]."""
STIFFNESS = 0.999
"""Of friction in MuJoCo, below 1: what it holds creeps the slower, the closer to 1 it is."""


def alter(model: mujoco.MjModel, spec: RobotSpec, body: BodySettings) -> None:
    """Change what doesn't change with time: masses, friction and the motors' constants.

    Args:
        model: To be changed.
        spec: Names the joints.
        body: Says how.

    Raises:
        ConfigError: it changes what a drive makes of efforts, and the robot takes others.
    """
    if spec.command != "effort":
        for name in OF_EFFORTS:
            if getattr(body, name):
                raise ConfigError(
                    f"body.{name} = {getattr(body, name):g}: only for robots that take efforts; "
                    f"{spec.name} takes {plural(spec.command)}: expected 0"
                )
    motors = _Motors(model, spec)
    if body.friction:
        model.dof_frictionloss[motors.dofs] += body.friction * motors.largest
        model.dof_solimp[motors.dofs, :2] = STIFFNESS
    moved, told = _moved_bodies(model, spec), model.body_mass.copy()
    model.body_mass[moved] *= 1.0 + body.mass_error
    model.body_inertia[moved] *= 1.0 + body.mass_error
    model.body_mass[last_body(model, spec)] += body.payload
    # What compensates gravity knows the masses of the model alone.
    model.body_gravcomp[moved] *= told[moved] / np.maximum(model.body_mass[moved], mujoco.mjMINVAL)
    model.actuator_gainprm[:, 0] *= 1.0 + body.motor_error
    # Limits in the model are those of the motors, too, which have their constants.
    model.actuator_forcerange[:] *= 1.0 + body.motor_error
    model.jnt_actfrcrange[motors.joints] *= 1.0 + body.motor_error
    mujoco.mj_setConst(model, mujoco.MjData(model))


class Drive:
    """What changes with time between commands and joints.

    Motors get warm: their heat follows h' = ((u / limit)² − h) / τ, and they give 1 − drift h of
    their effort. In the gap of a gear's backlash a joint gets no effort, while the rotor is
    accelerated by it alone; where it hits the other side its momentum passes to the joint.
    """

    def __init__(self, model: mujoco.MjModel, spec: RobotSpec, body: BodySettings) -> None:
        """Begin cold, in the middle of the gap."""
        self._model, self._body = model, body
        self._motors = _Motors(model, spec)
        self._limits = np.asarray(spec.effort_limits)
        self._inertia = ROTOR * model.dof_M0[self._motors.dofs]
        self._heat, self._offset, self._speed = np.zeros((3, spec.action_dim))

    def centre(self, data: mujoco.MjData) -> None:
        """Put the rotors into the middle of the gap, as fast as the joints."""
        self._offset[:] = 0.0
        self._speed[:] = data.qvel[self._motors.dofs]

    def cool(self) -> None:
        """Have cold motors."""
        self._heat[:] = 0.0

    def act(self, data: mujoco.MjData) -> None:
        """Turn the commands in `data` into what acts in the coming physics step."""
        self._warm(data)
        if self._body.backlash:
            self._cross(data)

    def _warm(self, data: mujoco.MjData) -> None:
        share = 1.0 - math.exp(-self._model.opt.timestep / self._body.drift_time)
        wanted = (data.ctrl / self._limits) ** 2
        data.ctrl[:] *= 1.0 - self._body.drift * self._heat
        self._heat += share * (wanted - self._heat)

    def _cross(self, data: mujoco.MjData) -> None:
        dofs, half, step = self._motors.dofs, self._body.backlash / 2, self._model.opt.timestep
        effort = self._motors.gears * self._model.actuator_gainprm[:, 0] * data.ctrl
        joint = data.qvel[dofs]
        pushes = (np.abs(self._offset) >= half) & (effort * self._offset > 0)
        rotor = np.where(pushes, joint, self._speed + step * effort / self._inertia)
        self._offset += step * (rotor - joint)
        hits = ~pushes & (np.abs(self._offset) >= half)
        np.clip(self._offset, -half, half, out=self._offset)
        data.qfrc_applied[dofs] = np.where(hits, self._inertia * (rotor - joint) / step, 0.0)
        self._speed = np.where(hits, joint, rotor)
        data.ctrl[~pushes] = 0.0


class _Motors:
    """Where MuJoCo keeps the actuated joints, in the order of the spec."""

    def __init__(self, model: mujoco.MjModel, spec: RobotSpec) -> None:
        self.joints = np.array([model.joint(name).id for name in spec.actuated_joints])
        self.dofs = model.jnt_dofadr[self.joints]
        self.gears: Array = model.actuator_gear[:, 0]
        self.largest = np.abs(self.gears) * np.asarray(spec.effort_limits)
        """`(q,)` what they can do to their joints [N m or N]."""


def _moved_bodies(model: mujoco.MjModel, spec: RobotSpec) -> list[int]:
    """Numbers of the bodies that a joint of the robot moves."""
    moved = {int(model.joint(name).bodyid[0]) for name in spec.joint_names}
    for body in range(1, model.nbody):  # parents come first
        if int(model.body_parentid[body]) in moved:
            moved.add(body)
    return sorted(moved)


def last_body(model: mujoco.MjModel, spec: RobotSpec) -> int:
    """Number of the body of an actuated joint that is the furthest from the world."""
    bodies = [int(model.joint(name).bodyid[0]) for name in spec.actuated_joints]
    return max(reversed(bodies), key=lambda body: _depth(model, body))


def _depth(model: mujoco.MjModel, body: int) -> int:
    return 1 + _depth(model, int(model.body_parentid[body])) if body else 0
