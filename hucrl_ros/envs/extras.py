"""State entries that are no position or velocity of the spec's joints."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from hucrl_ros.robot import AXES, VELOCITY

Array = NDArray[np.float64]


class Extras:
    """Observed entries and context of a state, found in the MJCF by their names.

    `<body>_x`, `<body>_y`, `<body>_z` are world coordinates [m]. A goal is a mocap body, which
    stays where it is put. An object hangs on prismatic joints along the world's axes; along an
    axis without a joint it stays where the MJCF has it. `<joint>_velocity` is the velocity of a
    joint whose position doesn't matter [m/s or rad/s].
    """

    def __init__(self, model: mujoco.MjModel, names: Sequence[str]) -> None:
        """Find the entries.

        Raises:
            ValueError: a name stands for nothing in the MJCF.
        """
        self._entries = [_find(model, name) for name in names]

    def read(self, data: mujoco.MjData, qpos: Array, qvel: Array) -> Array:
        """Values `(..., entries)`.

        Args:
            data: Holds what stays, the context.
            qpos: MuJoCo's coordinates `(..., nq)`.
            qvel: MuJoCo's velocities `(..., nv)`.
        """
        values = np.empty((*qpos.shape[:-1], len(self._entries)))
        for index, entry in enumerate(self._entries):
            values[..., index] = entry.read(data, qpos, qvel)
        return values

    def write(self, data: mujoco.MjData, values: Array) -> None:
        """Put the robot's surroundings to `values` `(entries,)`."""
        for entry, value in zip(self._entries, values, strict=True):
            entry.write(data, float(value))


class _Entry(ABC):
    @abstractmethod
    def read(self, data: mujoco.MjData, qpos: Array, qvel: Array) -> Array | float:
        """Value `(...)`."""

    @abstractmethod
    def write(self, data: mujoco.MjData, value: float) -> None:
        """Make it `value`."""


class _Velocity(_Entry):
    def __init__(self, model: mujoco.MjModel, joint: str) -> None:
        self._index = int(model.joint(joint).dofadr[0])

    def read(self, data: mujoco.MjData, qpos: Array, qvel: Array) -> Array | float:
        return qvel[..., self._index]

    def write(self, data: mujoco.MjData, value: float) -> None:
        data.qvel[self._index] = value


class _Mocap(_Entry):
    def __init__(self, index: int, axis: int) -> None:
        self._index, self._axis = index, axis

    def read(self, data: mujoco.MjData, qpos: Array, qvel: Array) -> Array | float:
        return float(data.mocap_pos[self._index, self._axis])

    def write(self, data: mujoco.MjData, value: float) -> None:
        data.mocap_pos[self._index, self._axis] = value


class _Sliding(_Entry):
    """Not read from `data.xpos`, which MuJoCo computes before a physics step, not after it."""

    def __init__(self, model: mujoco.MjModel, body: int, axis: int) -> None:
        first = int(model.body_jntadr[body])
        joints = np.arange(first, first + int(model.body_jntnum[body]))
        self._addresses = model.jnt_qposadr[joints]
        self._directions = model.jnt_axis[joints, axis]
        self._offset = float(
            model.body_pos[body, axis] - self._directions @ model.qpos0[self._addresses]
        )

    def read(self, data: mujoco.MjData, qpos: Array, qvel: Array) -> Array | float:
        return np.asarray(self._offset + qpos[..., self._addresses] @ self._directions)

    def write(self, data: mujoco.MjData, value: float) -> None:
        wanted = value - self._offset - data.qpos[self._addresses] @ self._directions
        data.qpos[self._addresses] += self._directions * wanted


def _find(model: mujoco.MjModel, name: str) -> _Entry:
    joint = name.removesuffix(VELOCITY)
    if joint != name and mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, joint) >= 0:
        return _Velocity(model, joint)
    body_name, _, letter = name.rpartition("_")
    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, body_name)
    if body < 0 or letter not in AXES:
        raise ValueError(
            f"state entry {name!r}: the MJCF has no such body or joint; expected <body>_x, "
            f"<body>_y, <body>_z or <joint>{VELOCITY}"
        )
    mocap = int(model.body_mocapid[body])
    return _Mocap(mocap, "xyz".index(letter)) if mocap >= 0 else _sliding(model, body, letter)


def _sliding(model: mujoco.MjModel, body: int, letter: str) -> _Sliding:
    first = int(model.body_jntadr[body])
    kinds = model.jnt_type[first : first + int(model.body_jntnum[body])]
    if model.body_parentid[body] or (kinds != mujoco.mjtJoint.mjJNT_SLIDE).any():
        raise ValueError(
            f"state entry {letter!r} of body {model.body(body).name!r}: only a mocap body or one "
            "that hangs on the world by prismatic joints can be observed"
        )
    return _Sliding(model, body, "xyz".index(letter))
