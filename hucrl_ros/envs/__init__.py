"""MuJoCo robots that stand in for hardware: efforts in, joint states out, no reward."""

from hucrl_ros.envs.base import MujocoRobot
from hucrl_ros.envs.cartpole import Cartpole
from hucrl_ros.envs.half_cheetah import HalfCheetah
from hucrl_ros.envs.pendulum import Pendulum
from hucrl_ros.envs.pr2_pusher import Pr2Pusher
from hucrl_ros.envs.pr2_reacher import Pr2Reacher
from hucrl_ros.robot import RobotSpec

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

__all__ = [
    "ROBOTS",
    "TASK_ROBOTS",
    "Cartpole",
    "HalfCheetah",
    "MujocoRobot",
    "Pendulum",
    "Pr2Pusher",
    "Pr2Reacher",
    "RobotSpec",
]
