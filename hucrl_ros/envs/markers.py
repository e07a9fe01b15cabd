"""Bodies beside the robot whose world coordinates belong to the state."""

from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Markers:
    """State entries `<body>_x`, `<body>_y`, `<body>_z`, by the names of bodies in the MJCF.

    A goal is a mocap body, which stays where it is put. An object hangs on prismatic joints along
    the world's axes; where it has none, it stays at its height in the MJCF.
    """

    def __init__(self, model: mujoco.MjModel, entries: Sequence[str]) -> None:
        """Find the bodies.

        Raises:
            ValueError: an entry names no such body, or a body that neither mocap nor prismatic
                joints move.
        """
        self._model = model
        self._places = [_find(model, entry) for entry in entries]

    def read(self, data: mujoco.MjData) -> Array:
        """Coordinates `(entries,)` [m]."""
        return np.array([self._coordinate(data, body, axis) for body, axis in self._places])

    def place(self, data: mujoco.MjData, coordinates: Array) -> None:
        """Put the bodies to `coordinates` `(entries,)` [m], at rest."""
        for (body, axis), wanted in zip(self._places, coordinates, strict=True):
            mocap = self._model.body_mocapid[body]
            if mocap >= 0:
                data.mocap_pos[mocap, axis] = wanted
                continue
            offset = wanted - self._coordinate(data, body, axis)
            for joint in _joints(self._model, body):
                data.qpos[joint.qposadr[0]] += joint.axis[axis] * offset

    def _coordinate(self, data: mujoco.MjData, body: int, axis: int) -> float:
        # Not `data.xpos`, which MuJoCo computes before a physics step, not after it.
        mocap = self._model.body_mocapid[body]
        if mocap >= 0:
            return float(data.mocap_pos[mocap, axis])
        moved = sum(
            joint.axis[axis] * (data.qpos[joint.qposadr[0]] - self._model.qpos0[joint.qposadr[0]])
            for joint in _joints(self._model, body)
        )
        return float(self._model.body_pos[body, axis] + moved)


def _find(model: mujoco.MjModel, entry: str) -> tuple[int, int]:
    """Body and axis of an entry."""
    name, _, letter = entry.rpartition("_")
    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
    if body < 0 or letter not in ("x", "y", "z"):
        raise ValueError(f"state entry {entry!r}: expected a body of the MJCF and _x, _y or _z")
    movable = all(joint.type[0] == mujoco.mjtJoint.mjJNT_SLIDE for joint in _joints(model, body))
    if model.body_parentid[body] or not movable:
        raise ValueError(
            f"state entry {entry!r}: body {name!r} must hang on the world by prismatic joints"
        )
    return int(body), "xyz".index(letter)


def _joints(model: mujoco.MjModel, body: int) -> list[mujoco.MjModel]:
    first = int(model.body_jntadr[body])
    return [model.joint(first + k) for k in range(int(model.body_jntnum[body]))]
