"""MuJoCo robots that stand in for hardware: efforts in, joint states out, no reward."""

from hucrl_ros.envs.base import MujocoRobot
from hucrl_ros.envs.pendulum import Pendulum
from hucrl_ros.robot import RobotSpec

ROBOTS: dict[str, type[MujocoRobot]] = {"pendulum": Pendulum}

__all__ = ["ROBOTS", "MujocoRobot", "Pendulum", "RobotSpec"]
