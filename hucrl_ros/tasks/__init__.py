"""Tasks: a robot, a reward, a start and an episode length."""

from pathlib import Path

from hucrl_ros.config.task_file import find_description, is_description, read_description
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.resolve import resolve
from hucrl_ros.tasks.base import Task
from hucrl_ros.tasks.cartpole import CartpoleSwingUp
from hucrl_ros.tasks.described import DescribedTask
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


def make_task(name: str, action_penalty: float, described: Path | None = None) -> Task:
    """Build a task by name.

    Args:
        name: One of `TASKS`, or the name of a robot of a user's own, or the path of the YAML
            that describes it.
        action_penalty: ρ.
        described: Where the description of a robot of one's own may lie, `RunFolder.robot`.

    Raises:
        ConfigError: no task has that name, or its description is wrong.
    """
    if is_description(name):
        return DescribedTask(resolve(read_description(Path(name))), action_penalty)
    if name in TASKS:
        return TASKS[name](action_penalty)
    found = find_description(described, name)
    if found is None:
        looked = "" if described is None else f", and {described} describes no robot"
        raise ConfigError(
            f"task: {name!r} is unknown; known tasks: {', '.join(sorted(TASKS))}{looked}"
        )
    return DescribedTask(found, action_penalty)


def known_optimum(name: str, action_penalty: float) -> float | None:
    """Best achievable return of a task, or None where nobody computed it."""
    return TASKS[name].optima.get(action_penalty) if name in TASKS else None


__all__ = [
    "TASKS",
    "CartpoleSwingUp",
    "DescribedTask",
    "HalfCheetahRun",
    "PendulumSwingUp",
    "Pusher",
    "Reacher",
    "SparseReacher",
    "Task",
    "known_optimum",
    "make_task",
]
