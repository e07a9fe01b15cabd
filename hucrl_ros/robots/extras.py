"""State entries that are no position or velocity of the spec's joints."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import AXES, VELOCITY, RobotSpec, sources
from hucrl_ros.robots.motors import followers

Array = NDArray[np.float64]
FLOATING = (mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL)
TINY = 1e-9
"""What rounding leaves of a direction's part across it."""
SLANTED = 1e-2
"""Part of a direction along an axis above which it leads along it. With less, as where an MJCF
says 1.57 for a quarter turn, what is asked along others would be lost for a little of this one."""
_COORDINATES = tuple(f"_{axis}" for axis in AXES)


class Extras:
    """Observed entries and context of a state, found in the MJCF by their names.

    `<body>_x`, `<body>_y`, `<body>_z` are world coordinates [m]. A goal is a mocap body, which
    stays where it is put. An object hangs on prismatic joints along the world's axes; along an
    axis without a joint it stays where the MJCF has it; `<body>_x_velocity` is how fast it moves
    [m/s]. `<joint>_velocity` is the velocity of a joint whose position doesn't matter [m/s or
    rad/s].
    """

    def __init__(self, model: mujoco.MjModel, names: Sequence[str]) -> None:
        """Find the entries.

        Raises:
            ValueError: a name stands for nothing in the MJCF.
        """
        bodies = {name.rpartition("_")[0] for name in names if name.endswith(_COORDINATES)}
        self._entries = [_find(model, name, bodies) for name in names]

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
        """Put the robot's poses to `values` `(entries,)`."""
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


class _SlidingVelocity(_Entry):
    def __init__(self, model: mujoco.MjModel, body: int, axis: int) -> None:
        joints = np.array(joints_of(model, body), dtype=np.intp)
        self._addresses = model.jnt_dofadr[joints]
        self._directions = _directions(model, body, axis)
        self._ways = _ways(self._directions)

    def read(self, data: mujoco.MjData, qpos: Array, qvel: Array) -> Array | float:
        return np.asarray(qvel[..., self._addresses] @ self._directions)

    def write(self, data: mujoco.MjData, value: float) -> None:
        wanted = value - data.qvel[self._addresses] @ self._directions
        data.qvel[self._addresses] += self._ways * wanted


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
        joints = np.array(joints_of(model, body), dtype=np.intp)
        self._addresses = model.jnt_qposadr[joints]
        self._directions = _directions(model, body, axis)
        self._ways = _ways(self._directions)
        self._offset = float(
            model.body_pos[body, axis] - self._directions @ model.qpos0[self._addresses]
        )

    def read(self, data: mujoco.MjData, qpos: Array, qvel: Array) -> Array | float:
        return np.asarray(self._offset + qpos[..., self._addresses] @ self._directions)

    def write(self, data: mujoco.MjData, value: float) -> None:
        wanted = value - self._offset - data.qpos[self._addresses] @ self._directions
        data.qpos[self._addresses] += self._ways * wanted


def _find(model: mujoco.MjModel, name: str, bodies: Collection[str]) -> _Entry:
    """The entry `name` of a state in which coordinates of `bodies` are."""
    place = name.removesuffix(VELOCITY)
    body_name, _, letter = place.rpartition("_")
    moves = place != name
    if moves and not (body_name in bodies and letter in AXES):
        if mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, place) >= 0:
            return _Velocity(model, place)
        body_name = ""
    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, body_name) if body_name else -1
    if body < 0 or letter not in AXES:
        raise ValueError(
            f"state entry {name!r}: the MJCF has no such body or joint; expected <body>_x, "
            f"<body>_y, <body>_z, their velocities, or <joint>{VELOCITY}"
        )
    mocap, axis = int(model.body_mocapid[body]), AXES.index(letter)
    if mocap >= 0 and not moves:
        return _Mocap(mocap, axis)
    slides = mujoco.mjtJoint.mjJNT_SLIDE
    turns = any(model.jnt_type[joint] != slides for joint in joints_of(model, body))
    if mocap >= 0 or model.body_parentid[body] or turns:
        accepted = "one" if moves else "a mocap body or one"
        raise ValueError(
            f"state entry {name!r} of body {body_name!r}: only {accepted} that hangs on the world "
            "by prismatic joints can be observed"
        )
    return _SlidingVelocity(model, body, axis) if moves else _Sliding(model, body, axis)


def carrier(model: mujoco.MjModel, joint: str) -> str:
    """A free or ball joint that a joint hangs on, as a message calls it; empty: none."""
    body = int(model.joint(joint).bodyid[0])
    while body:
        for other in joints_of(model, body):
            if mujoco.mjtJoint(int(model.jnt_type[other])) in FLOATING:
                return _called(model, other)
        body = int(model.body_parentid[body])
    return ""


def unseen_joints(model: mujoco.MjModel, spec: RobotSpec) -> list[str]:
    """Joints that the state doesn't tell of though they move, as a message calls them."""
    told = sources(spec)
    seen = {*spec.joint_names, *told.further, *followers(model)}
    joints = [joint for joint in range(model.njnt) if model.joint(joint).name not in seen]
    if told.object:
        body = int(model.body(told.object).id)
        axes = [k for k, axis in enumerate(AXES) if f"{told.object}_{axis}" in spec.observed]
        along = np.abs([_directions(model, body, axis) for axis in axes]).max(axis=0)
        slides = zip(joints_of(model, body), along, strict=True)
        told_of = {joint for joint, share in slides if share > TINY}
        joints = [joint for joint in joints if joint not in told_of]
    return [_called(model, joint) for joint in joints]


def _called(model: mujoco.MjModel, joint: int) -> str:
    name, body = model.joint(joint).name, model.body(int(model.jnt_bodyid[joint])).name
    if name:
        return f"joint {name!r}"
    return f"a joint of body {body!r}" if body else f"joint number {joint}"


def _directions(model: mujoco.MjModel, body: int, axis: int) -> Array:
    """What each joint of a body moves it along an axis of the world: the body may be turned."""
    turned = np.empty((int(model.body_jntnum[body]), len(AXES)))
    for row, joint in zip(turned, joints_of(model, body), strict=True):
        mujoco.mju_rotVecQuat(row, model.jnt_axis[joint], model.body_quat[body])
    return turned[:, axis]


def _ways(directions: Array) -> Array:
    """What each joint has to move for 1 along an axis, where no more than they must do so."""
    share = float(directions @ directions)
    return directions / share if share > SLANTED**2 else directions


def joints_of(model: mujoco.MjModel, body: int) -> list[int]:
    """Numbers of a body's joints in a MuJoCo model."""
    first = int(model.body_jntadr[body])
    return list(range(first, first + int(model.body_jntnum[body])))
