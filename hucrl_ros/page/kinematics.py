"""Where a robot's bodies are in a state, and where its tip is: the point whose way is drawn."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import AXES, RobotSpec, sources
from hucrl_ros.config.task_file import Description
from hucrl_ros.robots import MujocoRobot
from hucrl_ros.robots.poses import way_of

Array = NDArray[np.float64]
POSES = 200
"""Drawn to find out where a robot's parts can be."""


class Kinematics:
    """A robot's model, put into states one after another."""

    def __init__(self, described: Description) -> None:
        """Load the model of a description; raises `ConfigError` as `MujocoRobot` does."""
        robot = MujocoRobot(described)
        self.spec: RobotSpec = robot.spec
        self.model: mujoco.MjModel = robot.model
        self.data = mujoco.MjData(self.model)
        mujoco.mj_kinematics(self.model, self.data)
        self.constraints = described.constraints
        joints = [self.model.joint(name) for name in self.spec.joint_names]
        self._qpos = np.array([int(joint.qposadr[0]) for joint in joints])
        self._robot = robot
        told = sources(self.spec)
        further = [int(self.model.joint(name).id) for name in told.further]
        self._further = self.model.jnt_qposadr[np.array(further, int)]
        self._origin = self.model.qpos0[self._further]
        slides = [j for j in further if self.model.jnt_type[j] == mujoco.mjtJoint.mjJNT_SLIDE]
        self._slides = np.array(slides, int)
        self.object, self.goal = told.object, told.goal
        """Bodies that are told by poses; empty: there is none."""
        success = described.reward.success
        named = "" if success is None else success.of
        self.site = _site(self.model, named)
        """The site that is to reach something; None: the robot has none."""
        bodies = () if self.site is not None else (told.object, told.goal)
        self._told = named if named and named in bodies else None
        self._last_body, self._offset = _farthest(self.model, [int(j.id) for j in joints])

    def way(self, states: Array) -> Array:
        """Of successive states `(..., T, p)` what they don't tell: positions `(..., T, k)`.

        They are those of the k joints whose velocity alone is told, from 0 on.
        """
        found = way_of(self._robot, states)
        return np.stack([*found.values()], -1) if found else np.zeros((*states.shape[:-1], 0))

    def put(self, state: Array, untold: Array | float = 0.0) -> None:
        """Into a state `(p,)`: joints, object and goal; `untold` `(k,)` positions, see `way`."""
        self._robot.set_state(state)
        self.data = self._robot.data
        if len(self._further):
            self.data.qpos[self._further] = self._origin + untold
            mujoco.mj_kinematics(self.model, self.data)

    @property
    def gone(self) -> Array:
        """`(3,)` how far the robot has gone along the floor since its way began [m]."""
        along = (self.data.qpos - self.model.qpos0)[self.model.jnt_qposadr[self._slides]]
        return np.asarray((along @ self.data.xaxis[self._slides]) * (1.0, 1.0, 0.0), np.float64)

    def poses(self, state: Array, untold: Array | float = 0.0) -> tuple[Array, Array]:
        """Positions `(B, 3)` [m] and quaternions `(B, 4)`, w first, of all bodies; as `put`."""
        self.put(state, untold)
        return self.data.xpos.copy(), self.data.xquat.copy()

    def tips(self, states: Array, untold: Array | float = 0.0) -> Array:
        """Where the tip is `(..., 3)` [m], in successive states `(..., p)`.

        Their way begins at `untold`, as of `put`.
        """
        if self._told is not None:
            return self._told_places(self._told, states)
        flat = states.reshape(-1, states.shape[-1])
        found = np.empty((len(flat), 3))
        joints, ways = len(self._qpos), self.way(np.atleast_2d(states)) + untold
        for row, (state, way) in enumerate(zip(flat, ways.reshape(len(flat), -1), strict=True)):
            self.data.qpos[self._qpos] = state[:joints]
            self.data.qpos[self._further] = self._origin + way
            mujoco.mj_kinematics(self.model, self.data)
            found[row] = self._tip()
        return found.reshape(*states.shape[:-1], 3)

    def _told_places(self, body: str, states: Array) -> Array:
        """Where the object or the goal is `(..., 3)` [m]; what isn't told is as in the model."""
        entries = (*self.spec.observed, *self.spec.context)
        found = np.broadcast_to(self.data.body(body).xpos, (*states.shape[:-1], 3)).copy()
        for axis, letter in enumerate(AXES):
            if (name := f"{body}_{letter}") in entries:
                found[..., axis] = states[..., 2 * len(self._qpos) + entries.index(name)]
        return found

    def reach(self) -> tuple[Array, float]:
        """Middle `(3,)` [m] and size [m] of where the robot's moving parts can be.

        Joints turn all the way round, and what slides stays where it is, where nothing limits it.
        """
        model, data = self.model, mujoco.MjData(self.model)
        still = model.body_weldid[model.geom_bodyid] == 0
        turns = model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE
        start = model.qpos0[model.jnt_qposadr]
        free = start[:, None] + np.where(turns[:, None], (-np.pi, np.pi), 0.0)
        low, high = np.where(model.jnt_limited[:, None].astype(bool), model.jnt_range, free).T
        rng, places = np.random.default_rng(0), []
        for _ in range(POSES):
            data.qpos[model.jnt_qposadr] = rng.uniform(low, high)
            mujoco.mj_kinematics(model, data)
            # Of a URDF whose shapes are only to be seen, MuJoCo keeps none.
            places.append(data.xipos[1:] if still.all() else data.geom_xpos[~still])
        found = np.concatenate(places)
        lowest, highest = found.min(axis=0), found.max(axis=0)
        # What turns about its middle, as a wheel, stays in its place.
        least = model.stat.extent if still.all() else 2 * model.geom_rbound[~still].max()
        return (lowest + highest) / 2, max(float((highest - lowest).max()), float(least))

    def _tip(self) -> Array:
        if self.site is not None:
            return np.asarray(self.data.site_xpos[self.site], np.float64)
        rotation = self.data.xmat[self._last_body].reshape(3, 3)
        return np.asarray(self.data.xpos[self._last_body] + rotation @ self._offset, np.float64)


def _site(model: mujoco.MjModel, name: str) -> int | None:
    found = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, name) if name else -1
    return found if found >= 0 else None


def _farthest(model: mujoco.MjModel, joints: list[int]) -> tuple[int, Array]:
    """The body at the end of the joints' chain, and its farthest end `(3,)` [m]."""
    body = int(model.jnt_bodyid[joints].max())  # in whatever order a description names them
    offset = np.asarray(model.body_ipos[body], np.float64)
    best = 0.0
    for geom in np.flatnonzero(model.geom_bodyid == body).tolist():
        for end in _ends(model, geom):
            if np.linalg.norm(end) > best:
                best, offset = float(np.linalg.norm(end)), end
    return body, offset.copy()


def _ends(model: mujoco.MjModel, geom: int) -> Array:
    """The middle of a geom, or both ends of its longest side `(k, 3)` [m], in its body's frame."""
    middle, half = np.asarray(model.geom_pos[geom], np.float64), np.zeros(3)
    sizes, kind = model.geom_size[geom], mujoco.mjtGeom(int(model.geom_type[geom]))
    if kind in (mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_CYLINDER):
        half[2] = sizes[1]
    elif kind in (mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_MESH):
        longest = int(np.argmax(sizes))
        half[longest] = sizes[longest]
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, model.geom_quat[geom])
    way = matrix.reshape(3, 3) @ half
    return np.stack([middle, middle + way, middle - way])
