"""Pole on a cart, hanging at the start (App. Cart-Pole)."""

import numpy as np

from hucrl_ros.config.robot_spec import RobotSpec
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot

START_STD = 0.1
"""[m, rad, m/s, rad/s]"""


class Cartpole(MujocoRobot):
    """A cart on a rail of 5 m with a pole that swings freely; angle 0 is hanging.

    State: position of the cart [m] and angle of the pole [rad], not wrapped, then their
    velocities. Action: command of the cart's motor, 1 standing for 100 N. The numbers are in
    `sim/cartpole.xml`.
    """

    spec = RobotSpec(
        name="cartpole",
        joint_names=("cart_joint", "pole_joint"),
        actuated_joints=("cart_joint",),
        effort_limits=(3.0,),
        period=0.04,
    )
    mjcf = "cartpole.xml"

    def initial_state(self, rng: np.random.Generator) -> Array:
        """Nearly hanging, nearly in the middle, nearly at rest."""
        return START_STD * rng.standard_normal(4)
