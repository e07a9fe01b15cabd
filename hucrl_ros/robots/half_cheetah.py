"""Planar runner with two legs (App. Half-Cheetah)."""

import numpy as np

from hucrl_ros.config.robot_spec import RobotSpec
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot

LEGS = ("bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot")
START_ANGLE = 0.1
"""[rad or m] Largest deviation of a position at the start."""
START_SPEED_STD = 0.1
"""[rad/s or m/s]"""


class HalfCheetah(MujocoRobot):
    """A torso that moves freely in a plane, on a back and a front leg with three motors each.

    State: height [m] and pitch [rad] of the torso, six angles [rad], their velocities, then the
    speed forward [m/s]; how far it has run doesn't matter. Action: commands of the motors, 1
    standing for the gear's torque. The numbers are in `sim/half_cheetah.xml`.
    """

    spec = RobotSpec(
        name="half_cheetah",
        joint_names=("rootz", "rooty", *LEGS),
        actuated_joints=LEGS,
        effort_limits=(2.0,) * 6,
        period=0.05,
        observed=("rootx_velocity",),
    )
    mjcf = "half_cheetah.xml"

    def initial_state(self, rng: np.random.Generator) -> Array:
        """Nearly standing, nearly at rest."""
        angles = rng.uniform(-START_ANGLE, START_ANGLE, 8)
        return np.concatenate([angles, START_SPEED_STD * rng.standard_normal(9)])
