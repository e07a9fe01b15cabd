"""What every simulated robot has in common."""

from abc import ABC, abstractmethod
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.paths import share_directory
from hucrl_ros.config.robot_spec import VELOCITY, RobotSpec, object_speeds
from hucrl_ros.robots.extras import Extras

Array = NDArray[np.float64]


class MujocoRobot(ABC):
    """A robot simulated by MuJoCo: joint efforts in, joint positions and velocities out.

    A control period is divided into `substeps` physics steps, so that a real-time simulator
    can apply a command that arrives in the middle of a period.
    """

    spec: RobotSpec
    mjcf: str
    """File name of the robot's MJCF in `sim/`."""

    def __init__(self, model: mujoco.MjModel | None = None) -> None:
        """Simulate `model`; None: that of `mjcf`."""
        self.model = model or mujoco.MjModel.from_xml_path(str(mjcf_path(self.mjcf)))
        self.data = mujoco.MjData(self.model)
        steps = self.spec.period / self.model.opt.timestep
        self.substeps = round(steps)
        if abs(steps - self.substeps) > 1e-6:
            raise ValueError(
                f"{self.mjcf}: timestep {self.model.opt.timestep} s does not divide "
                f"the control period {self.spec.period} s"
            )
        joints = [self.model.joint(name) for name in self.spec.joint_names]
        self._qpos = np.array([int(joint.qposadr[0]) for joint in joints])
        self._qvel = np.array([int(joint.dofadr[0]) for joint in joints])
        self._limits = np.asarray(self.spec.effort_limits)
        self._extras = Extras(self.model, (*self.spec.observed, *self.spec.context))
        speeds = object_speeds(self.spec)
        self._speeds = [2 * len(joints) + self.spec.observed.index(name) for name in speeds]
        self._places = Extras(self.model, [name.removesuffix(VELOCITY) for name in speeds])

    @abstractmethod
    def initial_state(self, rng: np.random.Generator) -> Array:
        """Draw a start of an episode: a state `(p,)`."""

    @property
    def state(self) -> Array:
        """The present state `(p,)`: positions [rad or m], then velocities [rad/s or m/s].

        What the spec calls observed and context follows [m].
        """
        return self.states(self.data.qpos, self.data.qvel)

    def states(self, qpos: Array, qvel: Array) -> Array:
        """States `(..., p)` of MuJoCo's coordinates `(..., nq)` and `(..., nv)`.

        The context is the present one.
        """
        joints = [qpos[..., self._qpos], qvel[..., self._qvel]]
        return np.concatenate([*joints, self._extras.read(self.data, qpos, qvel)], axis=-1)

    def set_state(self, state: Array) -> None:
        """Put the robot into `state` `(p,)` with no effort applied."""
        mujoco.mj_resetData(self.model, self.data)
        joints = len(self.spec.joint_names)
        self.data.qpos[self._qpos] = state[:joints]
        self.data.qvel[self._qvel] = state[joints : 2 * joints]
        self._extras.write(self.data, state[2 * joints :])
        mujoco.mj_forward(self.model, self.data)

    def reset(self, rng: np.random.Generator) -> Array:
        """Start an episode; returns its first state `(p,)`."""
        self.set_state(self.initial_state(rng))
        return self.state

    def substep(self, effort: Array) -> None:
        """One physics step under `effort` `(q,)` [N m or N], saturated at the effort limits."""
        self.data.ctrl[:] = np.clip(effort, -self._limits, self._limits)
        mujoco.mj_step(self.model, self.data)

    def step(self, effort: Array) -> Array:
        """One control period under a constant `effort` `(q,)`; returns the next state `(p,)`.

        In it an object's velocity is that of the whole period, as two poses tell it through ROS.
        """
        before = self._places.read(self.data, self.data.qpos, self.data.qvel)
        for _ in range(self.substeps):
            self.substep(effort)
        state = self.state
        after = self._places.read(self.data, self.data.qpos, self.data.qvel)
        state[self._speeds] = (after - before) / self.spec.period
        return state


def mjcf_path(name: str) -> Path:
    """Where `sim/<name>` lies, in a checkout as in an installed package."""
    return share_directory() / "sim" / name
