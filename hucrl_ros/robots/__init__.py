"""MuJoCo robots that stand in for hardware: efforts in, joint states out, no reward."""

from pathlib import Path

from hucrl_ros.config.robot_spec import RobotSpec
from hucrl_ros.config.task_file import find_description
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.cartpole import Cartpole
from hucrl_ros.robots.described_robot import DescribedRobot
from hucrl_ros.robots.half_cheetah import HalfCheetah
from hucrl_ros.robots.mujoco_robot import MujocoRobot
from hucrl_ros.robots.pendulum import Pendulum
from hucrl_ros.robots.pr2_pusher import Pr2Pusher
from hucrl_ros.robots.pr2_reacher import Pr2Reacher

ROBOTS: dict[str, type[MujocoRobot]] = {
    "pendulum": Pendulum,
    "cartpole": Cartpole,
    "pr2_reacher": Pr2Reacher,
    "pr2_pusher": Pr2Pusher,
    "half_cheetah": HalfCheetah,
}
TASK_ROBOTS: dict[str, type[MujocoRobot]] = {
    "pendulum": Pendulum,
    "cartpole": Cartpole,
    "reacher": Pr2Reacher,
    "sparse_reacher": Pr2Reacher,
    "pusher": Pr2Pusher,
    "half_cheetah": HalfCheetah,
}
"""Robot of each task: what a simulator must know of a task, without its reward (and torch)."""


def make_robot(task: str, described: Path | None = None) -> MujocoRobot:
    """The robot of a task.

    Args:
        task: One of `TASK_ROBOTS`, or the name of a robot of a user's own.
        described: Where the description of that robot may lie, `RunFolder.robot`.

    Raises:
        ConfigError: no task has that name, or the robot's description is wrong.
    """
    if task in TASK_ROBOTS:
        return TASK_ROBOTS[task]()
    found = find_description(described, task)
    if found is None:
        known = ", ".join(sorted(TASK_ROBOTS))
        raise ConfigError(
            f"task: {task!r} is unknown; known tasks: {known}; a robot of your own is found "
            "in the folder of its run"
        )
    return DescribedRobot(found)


__all__ = [
    "ROBOTS",
    "TASK_ROBOTS",
    "Cartpole",
    "DescribedRobot",
    "HalfCheetah",
    "MujocoRobot",
    "Pendulum",
    "Pr2Pusher",
    "Pr2Reacher",
    "RobotSpec",
    "make_robot",
]
