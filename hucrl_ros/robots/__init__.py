"""MuJoCo robots that stand in for hardware: efforts in, joint states out, no reward."""

from pathlib import Path

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import BodySettings
from hucrl_ros.robots.body import AS_MODELLED
from hucrl_ros.robots.mujoco_robot import MujocoRobot
from hucrl_ros.robots.resolve import describe


def make_robot(
    task: str, described: Path | None = None, body: BodySettings = AS_MODELLED
) -> MujocoRobot:
    """The robot of a task, without its reward (and torch); arguments as of `describe`.

    `body` says how it differs from its model.
    """
    return MujocoRobot(describe(task, described), body)


__all__ = ["MujocoRobot", "RobotSpec", "describe", "make_robot"]
