"""Right arm of a PR2 with a goal for its tool (App. Reacher)."""

import numpy as np

from hucrl_ros.config.robot_spec import RobotSpec
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot

JOINTS = (
    "r_shoulder_pan_joint",
    "r_shoulder_lift_joint",
    "r_upper_arm_roll_joint",
    "r_elbow_flex_joint",
    "r_forearm_roll_joint",
    "r_wrist_flex_joint",
    "r_wrist_roll_joint",
)
GOAL_MEAN = (0.0, 0.25, 0.0)
"""[m] Left of the shoulder."""
GOAL_STD = 0.1
"""[m]"""


class Pr2Reacher(MujocoRobot):
    """Seven torque-controlled joints without gravity, and a goal that stays for an episode.

    State: positions [rad], velocities [rad/s], the goal's coordinates in the shoulder's frame
    [m]. Action: torques [N m]. The numbers are in `sim/pr2_reacher.xml`.
    """

    spec = RobotSpec(
        name="pr2_reacher",
        joint_names=JOINTS,
        actuated_joints=JOINTS,
        effort_limits=(20.0,) * 7,
        period=0.02,
        context=("goal_x", "goal_y", "goal_z"),
    )
    mjcf = "pr2_reacher.xml"

    def initial_state(self, rng: np.random.Generator) -> Array:
        """Stretched out forward at rest; the goal is drawn."""
        goal = np.asarray(GOAL_MEAN) + GOAL_STD * rng.standard_normal(3)
        return np.concatenate([np.zeros(14), goal])
