"""MuJoCo robots that stand in for hardware: efforts in, joint states out, no reward."""

from hucrl_ros.envs.base import MujocoRobot
from hucrl_ros.envs.pendulum import Pendulum
from hucrl_ros.envs.pr2_reacher import Pr2Reacher
from hucrl_ros.robot import RobotSpec

ROBOTS: dict[str, type[MujocoRobot]] = {"pendulum": Pendulum, "pr2_reacher": Pr2Reacher}
TASK_ROBOTS: dict[str, type[MujocoRobot]] = {
    "pendulum": Pendulum,
    "reacher": Pr2Reacher,
    "sparse_reacher": Pr2Reacher,
}
"""Robot of each task: what a simulator must know of a task, without its reward (and torch)."""

__all__ = ["ROBOTS", "TASK_ROBOTS", "MujocoRobot", "Pendulum", "Pr2Reacher", "RobotSpec"]
