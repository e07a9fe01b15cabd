"""Which choices of search and planner make sense for which task."""

from hucrl_ros.config.schema import Config
from hucrl_ros.errors import ConfigError
from hucrl_ros.planners import PLANNERS, make_planner
from hucrl_ros.search import SEARCHES, missing_gradients
from hucrl_ros.tasks import Task


def check_combination(config: Config, task: Task) -> None:
    """Refuse a search or a planner that makes no sense for the task.

    Raises:
        ConfigError: with the reason and what to choose instead.
    """
    spec = task.spec
    hallucinated = spec.predicted_dim if config.strategy == "optimistic" else 0
    make_planner(config.planner, spec.predicted_dim, spec.action_dim + hallucinated)
    kinds = (("search", config.search, SEARCHES), ("planner", config.planner, PLANNERS))
    for group, settings, members in kinds:
        needing = [name for name, member in members.items() if member.needs_gradients]
        if settings.algorithm in needing and (missing := missing_gradients(task)):
            others = ", ".join(name for name in members if name not in needing)
            raise ConfigError(
                f"{group}.algorithm = {settings.algorithm!r}: it follows the gradient of the "
                f"reward, and that of task {task.name!r} has none with respect to the "
                f"{' and the '.join(missing)}; choose one of: {others}"
            )
