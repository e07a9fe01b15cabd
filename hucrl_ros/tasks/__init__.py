"""Tasks: a robot, a reward, a start and an episode length."""

from hucrl_ros.errors import ConfigError
from hucrl_ros.tasks.base import Task
from hucrl_ros.tasks.pendulum import PendulumSwingUp
from hucrl_ros.tasks.reacher import Reacher, SparseReacher

TASKS: dict[str, type[Task]] = {
    "pendulum": PendulumSwingUp,
    "reacher": Reacher,
    "sparse_reacher": SparseReacher,
}


def make_task(name: str, action_penalty: float) -> Task:
    """Build a task by name.

    Raises:
        ConfigError: no task has that name.
    """
    if name not in TASKS:
        raise ConfigError(f"task: {name!r} is unknown; known tasks: {', '.join(sorted(TASKS))}")
    return TASKS[name](action_penalty)


__all__ = ["TASKS", "PendulumSwingUp", "Reacher", "SparseReacher", "Task", "make_task"]
