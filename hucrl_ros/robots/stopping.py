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
    free it is 1 / (M^-1)_jj, which is never more. Friction, which helps to brake, is left out. The
    poses are the same every time.

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
    slowest, fastest = np.full(len(moved), np.inf), np.zeros(len(moved))
    unit, free = np.eye(model.nv), np.empty((model.nv, model.nv))
    for largest in _efforts(robot, moved, limits or spec.effort_limits):
        mujoco.mj_solveM(model, data, free, unit)  # free = M^-1
        pull = np.abs(data.qfrc_bias - data.qfrc_passive)[moved]
        left = np.maximum(largest - pull, LEAST * largest)
        slowest = np.minimum(slowest, left / np.diag(np.linalg.inv(free))[moved])
        fastest = np.maximum(fastest, largest * np.diag(free)[moved])
    # From these speeds each joint stops within 1 rad or 1 m; the forces grow with their square.
    speed, signs, taken = np.sqrt(2.0 * slowest), np.random.default_rng(1), 0.0
    for largest in _efforts(robot, moved, limits or spec.effort_limits):
        resting = data.qfrc_bias[moved]
        data.qvel[moved] = speed * signs.choice([-1.0, 1.0], len(moved))
        mujoco.mj_forward(model, data)
        taken = max(taken, float(np.max(np.abs(data.qfrc_bias[moved] - resting) / largest)))
    allowed = _numbers(speed * np.sqrt(LOST / taken)) if taken > NONE else ()
    return Promised(_numbers(slowest), _numbers(fastest), allowed)


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
        mujoco.mj_forward(robot.model, robot.data)
        yield np.abs(robot.data.qfrc_actuator[moved])


def _numbers(values: Array) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values)
