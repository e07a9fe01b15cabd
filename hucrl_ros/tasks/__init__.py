"""Tasks: a robot, a reward, a start and an episode length."""

from hucrl_ros.errors import ConfigError
from hucrl_ros.tasks.base import Task
from hucrl_ros.tasks.cartpole import CartpoleSwingUp
from hucrl_ros.tasks.half_cheetah import HalfCheetahRun
from hucrl_ros.tasks.pendulum import PendulumSwingUp
from hucrl_ros.tasks.pusher import Pusher
from hucrl_ros.tasks.reacher import Reacher, SparseReacher

TASKS: dict[str, type[Task]] = {
    "pendulum": PendulumSwingUp,
    "cartpole": CartpoleSwingUp,
    "reacher": Reacher,
    "sparse_reacher": SparseReacher,
    "pusher": Pusher,
    "half_cheetah": HalfCheetahRun,
}


def make_task(name: str, action_penalty: float) -> Task:
    """Build a task by name.

    Raises:
        ConfigError: no task has that name.
    """
    if name not in TASKS:
        raise ConfigError(f"task: {name!r} is unknown; known tasks: {', '.join(sorted(TASKS))}")
    return TASKS[name](action_penalty)


__all__ = [
    "TASKS",
    "CartpoleSwingUp",
    "HalfCheetahRun",
    "PendulumSwingUp",
    "Pusher",
    "Reacher",
    "SparseReacher",
    "Task",
    "make_task",
]
