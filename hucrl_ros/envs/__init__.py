"""MuJoCo robots that stand in for hardware: efforts in, joint states out, no reward."""

from hucrl_ros.envs.base import MujocoRobot
from hucrl_ros.envs.pendulum import Pendulum
from hucrl_ros.robot import RobotSpec

ROBOTS: dict[str, type[MujocoRobot]] = {"pendulum": Pendulum}
TASK_ROBOTS: dict[str, type[MujocoRobot]] = {"pendulum": Pendulum}
"""Robot of each task: what a simulator must know of a task, without its reward (and torch)."""

__all__ = ["ROBOTS", "TASK_ROBOTS", "MujocoRobot", "Pendulum", "RobotSpec"]
