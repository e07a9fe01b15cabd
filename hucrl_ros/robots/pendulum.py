"""Inverted pendulum, hanging at the start (App. Swing-Up Inverted Pendulum)."""

import math

import numpy as np

from hucrl_ros.config.robot_spec import RobotSpec
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot


class Pendulum(MujocoRobot):
    """A point mass on a massless rod: θ̈ = (g/l) sin θ + u/(ml²) − (c/(ml²)) θ̇; θ = 0 is upright.

    State: θ [rad], not wrapped, and ω [rad/s]. Action: torque [N m]. The numbers are in
    `sim/pendulum.xml`.
    """

    spec = RobotSpec(
        name="pendulum",
        joint_names=("pendulum_joint",),
        actuated_joints=("pendulum_joint",),
        effort_limits=(1.0,),
        period=1 / 80,
    )
    mjcf = "pendulum.xml"

    def initial_state(self, rng: np.random.Generator) -> Array:
        """Hanging at rest; nothing is drawn."""
        return np.array([math.pi, 0.0])
