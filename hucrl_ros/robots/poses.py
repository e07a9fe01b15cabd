"""Where a robot's bodies were in an episode that was recorded."""

from collections.abc import Iterator
from typing import NamedTuple

import mujoco
import numpy as np

from hucrl_ros.config.robot import VELOCITY, sources
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot


class Poses(NamedTuple):
    """Of all n bodies, the world first, in the world's frame."""

    positions: Array
    """`(T + 1, n, 3)` [m]."""
    quaternions: Array
    """`(T + 1, n, 4)` w, x, y, z."""


def way_of(robot: MujocoRobot, states: Array) -> dict[int, Array]:
    """Positions `(..., T + 1)` of joints whose velocity alone is in `states`, by MuJoCo's address.

    They are integrated, as otherwise a cheetah would run on the spot.
    """
    spec, found = robot.spec, {}
    for joint in sources(spec).further:
        entry = 2 * len(spec.joint_names) + spec.observed.index(f"{joint}{VELOCITY}")
        steps = spec.period * (states[..., :-1, entry] + states[..., 1:, entry]) / 2.0
        address = int(robot.model.joint(joint).qposadr[0])
        found[address] = np.insert(np.cumsum(steps, axis=-1), 0, 0.0, axis=-1)
    return found


def put_through(robot: MujocoRobot, states: Array, stride: int = 1) -> Iterator[int]:
    """Put the robot into every `stride`-th of the states `(T + 1, p)`; gives their numbers."""
    travelled = way_of(robot, states)
    for k in range(0, len(states), stride):
        robot.set_state(states[k])
        for address, positions in travelled.items():
            robot.data.qpos[address] = positions[k]
        if travelled:
            mujoco.mj_forward(robot.model, robot.data)
        yield k


def poses_of(robot: MujocoRobot, states: Array) -> Poses:
    """Where all bodies were in the states `(T + 1, p)`."""
    held = [(robot.data.xpos.copy(), robot.data.xquat.copy()) for _ in put_through(robot, states)]
    positions, quaternions = zip(*held, strict=True)
    return Poses(np.stack(positions), np.stack(quaternions))
