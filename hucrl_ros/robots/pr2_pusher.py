"""Right arm of a PR2 above a table with an object (App. Pusher)."""

import numpy as np

from hucrl_ros.config.robot_spec import RobotSpec
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot
from hucrl_ros.robots.pr2_reacher import JOINTS

GOAL = (0.45, -0.05, -0.275)
"""[m] Where the object's centre should get to; marked on the table in the MJCF."""
OBJECT_OFFSET = (-0.25, 0.15)
"""[m] Mean of the object's start, seen from the goal."""
OBJECT_STD = 0.025
"""[m]"""
START_SPEED = 0.005
"""[rad/s] Largest speed of a joint at the start."""


class Pr2Pusher(MujocoRobot):
    """Seven torque-controlled joints without gravity, and an object that can be pushed.

    State: positions [rad], velocities [rad/s], the object's coordinates [m] and how fast it moves
    on the table [m/s], because it coasts. Action: torques [N m]. The numbers are in
    `sim/pr2_pusher.xml`.
    """

    spec = RobotSpec(
        name="pr2_pusher",
        joint_names=JOINTS,
        actuated_joints=JOINTS,
        effort_limits=(2.0,) * 7,
        period=0.04,
        observed=(
            *("object_x", "object_y", "object_z"),
            *("object_x_velocity", "object_y_velocity"),
        ),
    )
    mjcf = "pr2_pusher.xml"

    def initial_state(self, rng: np.random.Generator) -> Array:
        """Stretched out, almost at rest; the object's place is drawn."""
        speeds = rng.uniform(-START_SPEED, START_SPEED, 7)
        place = np.array(GOAL)
        place[:2] += OBJECT_OFFSET + OBJECT_STD * rng.standard_normal(2)
        return np.concatenate([np.zeros(7), speeds, place, np.zeros(2)])
