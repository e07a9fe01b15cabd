"""What a robot's model says of how efforts accelerate its joints."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from hucrl_ros.config.task_file import Description
from hucrl_ros.doctor.evidence import Array
from hucrl_ros.robots.mujoco_robot import MujocoRobot


class Inertia(NamedTuple):
    """Of q actuated joints among n; nothing rubs or touches.

    A joint's own equation of motion is M_ii (q_i'' + sum_j c_ij q_j'') = u_i + passive forces: its
    gain counts whether the other joints follow, or friction holds them.
    """

    gains: Array
    """`(q,)` acceleration by a unit of effort, the other joints held [rad/s² per N m, ...]."""
    coupling: Array
    """`(q, n)` c_ij = M_ij / M_ii of the other joints, 0 of the joint itself [1, m/rad, ...]."""
    free: Array
    """`(q, n)` acceleration of every joint by a unit of each effort, all joints free."""


def inertia(described: Description, positions: Sequence[float] | None = None) -> Inertia:
    """Of a robot whose joints are at `positions` `(n,)` [rad or m]; None: at its start."""
    robot = MujocoRobot(described)
    spec, model, data = robot.spec, robot.model, robot.data
    state = robot.reset(np.random.default_rng(0))
    if positions is not None:
        count = len(positions)
        state[:count], state[count : 2 * count] = positions, 0.0
        robot.set_state(state)
    dofs = [int(model.joint(name).dofadr[0]) for name in spec.joint_names]
    moved = [int(model.joint(name).dofadr[0]) for name in spec.actuated_joints]
    forces, accelerations = [], []
    for motor, limit in enumerate(spec.effort_limits):
        both = []
        for effort in (limit, -limit):
            data.ctrl[:] = 0.0
            data.ctrl[motor] = effort
            mujoco.mj_forward(model, data)
            both.append((data.qfrc_actuator[moved[motor]], data.qacc_smooth[dofs].copy()))
        (force, ahead), (back, behind) = both
        forces.append((force - back) / (2.0 * limit))
        accelerations.append((ahead - behind) / (2.0 * limit))
    mass = np.zeros((len(moved), model.nv))
    for row, dof in zip(mass, moved, strict=True):
        mujoco.mj_mulM(model, data, row, np.eye(model.nv)[dof])
    own = mass[np.arange(len(moved)), moved]
    coupling = mass[:, dofs] / own[:, None]
    coupling[np.equal.outer(moved, dofs)] = 0.0
    return Inertia(np.array(forces) / own, coupling, np.array(accelerations))
