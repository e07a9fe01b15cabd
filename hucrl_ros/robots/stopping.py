"""How fast a robot's motors can stop its joints at least, and speed them up at most."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from hucrl_ros.robots.measured import elsewhere
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot

POSES = 256
"""Poses that are looked at."""
LEAST = 0.1
"""Share of the effort limit that is taken to be left for braking, however much gravity takes."""
LOST = 0.5
"""Share of the effort limit that centrifugal forces may take."""
NONE = 1e-6
"""Share of it that is no force but rounding."""


class Promised(NamedTuple):
    """Of each actuated joint `(q,)`, under its largest effort."""

    deceleration: tuple[float, ...] = ()
    """The least, against gravity and springs, other joints held [rad/s^2 or m/s^2]."""
    acceleration: tuple[float, ...] = ()
    """The most, other joints free; no gravity [rad/s^2 or m/s^2]."""
    speed: tuple[float, ...] = ()
    """Where all motors turn up to so fast, centrifugal and Coriolis forces leave half of the
    effort; empty: there are none [rad/s or m/s]."""


def promised(robot: MujocoRobot, limits: Sequence[float] = ()) -> Promised:
    """What effort limits and inertia promise, over poses within the limits of the joints.

    A joint is hardest to turn where the others are held: its inertia is M_jj then. Where they are
    free it is 1 / (M^-1)_jj, which is never more. Joints that follow others are carried along.
    Friction, which helps to brake, is left out. The poses are the same every time.

    Args:
        robot: The robot; it is left in one of the poses.
        limits: `(q,)` largest efforts [N m or N]; empty: the robot's.

    Returns:
        Empty for a robot that takes velocities or positions: its own drives stop it.
    """
    spec, model, data = robot.spec, robot.model, robot.data
    if spec.command != "effort":
        return Promised()
    moved = [int(model.joint(name).dofadr[0]) for name in spec.actuated_joints]
    slowest: Array = np.full(len(moved), np.inf)
    fastest: Array = np.zeros(len(moved))
    unit, free = np.eye(model.nv), np.empty((model.nv, model.nv))
    for largest in _efforts(robot, moved, limits or spec.effort_limits):
        mujoco.mj_solveM(model, data, free, unit)  # free = M^-1
        ways, _ = ways_of(robot, moved)
        inertia = ways.T @ np.linalg.inv(free) @ ways
        pull = np.abs(ways.T @ (data.qfrc_bias - data.qfrc_passive))[: len(moved)]
        left = np.maximum(largest - pull, LEAST * largest)
        slowest = np.minimum(slowest, left / np.diag(inertia)[: len(moved)])
        fastest = np.maximum(fastest, largest * np.diag(np.linalg.inv(inertia))[: len(moved)])
    # From these speeds each joint stops within 1 rad or 1 m; the forces grow with their square.
    speed, signs, taken = np.sqrt(2.0 * slowest), np.random.default_rng(1), 0.0
    for largest in _efforts(robot, moved, limits or spec.effort_limits):
        (ways, _), resting = ways_of(robot, moved), data.qfrc_bias.copy()
        data.qvel[:] = ways[:, : len(moved)] @ (speed * signs.choice([-1.0, 1.0], len(moved)))
        mujoco.mj_forward(model, data)
        grown = np.abs(ways.T @ (data.qfrc_bias - resting))[: len(moved)]
        taken = max(taken, float(np.max(grown / largest)))
    allowed = _numbers(speed * np.sqrt(LOST / taken)) if taken > NONE else ()
    return Promised(_numbers(slowest), _numbers(fastest), allowed)


def ways_of(robot: MujocoRobot, moved: list[int]) -> tuple[Array, list[int]]:
    """`(nv, k)` how all degrees of freedom move with those that follow no other one, and these.

    The first are those that are `moved`, then the others in their order. A joint that follows,
    as a URDF's mimic does, isn't among them, unless a motor moves it.
    """
    model, data = robot.model, robot.data
    rows, led = [], set[int]()
    for k in range(model.neq):
        if model.eq_type[k] != mujoco.mjtEq.mjEQ_JOINT or not data.eq_active[k]:
            continue
        joint, other = int(model.eq_obj1id[k]), int(model.eq_obj2id[k])
        row = np.eye(model.nv)[model.jnt_dofadr[joint]]
        follows = int(model.jnt_dofadr[joint])
        if other >= 0:
            place = int(model.jnt_qposadr[other])
            away = data.qpos[place] - model.qpos0[place]
            slope = sum(n * model.eq_data[k, n] * away ** (n - 1) for n in range(1, 5))
            row[model.jnt_dofadr[other]] = -slope
            if follows in moved:
                follows = int(model.jnt_dofadr[other])
        if follows in moved:  # Both have motors.
            continue
        rows.append(row)
        led.add(follows)
    own = moved + [dof for dof in range(model.nv) if dof not in led and dof not in moved]
    ways = np.zeros((model.nv, len(own)))
    ways[own, range(len(own))] = 1.0
    if led:
        how = np.stack(rows)
        ways[sorted(led)] = -np.linalg.pinv(how[:, sorted(led)]) @ how[:, own]
    return ways, own


def _efforts(robot: MujocoRobot, moved: list[int], limits: Sequence[float]) -> Iterator[Array]:
    """Put the robot at rest into one pose after another.

    Yields:
        `(q,)` what the limits make of effort at the joints: a motor may have a gear [N m or N].
    """
    rng, joints = np.random.default_rng(0), len(robot.spec.joint_names)
    for pose in range(POSES):
        state = robot.initial_state(rng)
        if pose:
            state = elsewhere(robot, state, rng)
        state[joints : 2 * joints] = 0.0
        robot.set_state(state)
        robot.data.ctrl[:] = limits
        robot.forward()
        yield np.abs(robot.data.qfrc_actuator[moved])


def _numbers(values: Array) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values)
