"""What a robot's model says of how efforts accelerate its joints."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from hucrl_ros.config.task_file import Description
from hucrl_ros.doctor.evidence import Array
from hucrl_ros.robots.mujoco_robot import MujocoRobot
from hucrl_ros.robots.stopping import ways_of


class Inertia(NamedTuple):
    """Of q actuated joints among n; nothing rubs or touches.

    A joint's own equation of motion is M_ii (q_i'' + sum_j c_ij q_j'') = u_i + passive forces: its
    gain counts whether the other joints follow, or friction holds them. Joints that follow others
    by the model (a URDF's mimic) are carried along.
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
    ways, own_dofs = ways_of(robot, moved)
    every = np.zeros((model.nv, model.nv))
    for row, unit in zip(every, np.eye(model.nv), strict=True):
        mujoco.mj_mulM(model, data, row, unit)
    mass = ways.T @ every @ ways
    forces, accelerations = [], []
    for motor, limit in enumerate(spec.effort_limits):
        both = []
        for effort in (limit, -limit):
            data.ctrl[:] = 0.0
            data.ctrl[motor] = effort
            robot.forward()
            both.append(data.qfrc_actuator.copy())
        force = ways.T @ (both[0] - both[1]) / (2.0 * limit)
        forces.append(force[motor])
        accelerations.append((ways @ np.linalg.solve(mass, force))[dofs])
    own = np.diag(mass)[: len(moved)]
    coupling = np.zeros((len(moved), len(dofs)))
    for column, dof in enumerate(own_dofs):
        if dof in dofs:  # What follows is carried along by what it follows.
            coupling[:, dofs.index(dof)] = mass[: len(moved), column] / own
    coupling[np.equal.outer(moved, dofs)] = 0.0
    return Inertia(np.array(forces) / own, coupling, np.array(accelerations))
