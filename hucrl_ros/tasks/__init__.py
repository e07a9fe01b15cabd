"""Tasks: a robot, a reward, a start and an episode length."""

from pathlib import Path

from hucrl_ros.config.task_file import known_tasks, read_description
from hucrl_ros.robots.resolve import describe
from hucrl_ros.tasks.task import Task


def make_task(name: str, action_penalty: float, described: Path | None = None) -> Task:
    """Build a task.

    Args:
        name: As of `describe`.
        action_penalty: ρ.
        described: Where the description of a robot of one's own may lie, `RunFolder.robot`.

    Raises:
        ConfigError: no task has that name, or its description is wrong.
    """
    return Task(describe(name, described), action_penalty)


def known_optimum(name: str, action_penalty: float) -> float | None:
    """Best achievable return of a task, or None where nobody computed it."""
    path = known_tasks().get(name)
    return None if path is None else read_description(path).task.optima.get(action_penalty)


__all__ = ["Task", "known_optimum", "make_task"]
