"""MuJoCo robots that stand in for hardware: efforts in, joint states out, no reward."""

from hucrl_ros.envs.base import MujocoRobot, RobotSpec
from hucrl_ros.envs.pendulum import Pendulum

ROBOTS: dict[str, type[MujocoRobot]] = {"pendulum": Pendulum}

__all__ = ["ROBOTS", "MujocoRobot", "Pendulum", "RobotSpec"]
