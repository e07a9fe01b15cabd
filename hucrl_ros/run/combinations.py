"""Which choices of search and planner make sense for which task."""

from hucrl_ros.config import plugins
from hucrl_ros.config.schema import Config
from hucrl_ros.errors import ConfigError
from hucrl_ros.models import MODELS
from hucrl_ros.planners import PLANNERS, make_planner, planner_class
from hucrl_ros.search import SEARCHES, missing_gradients, search_class
from hucrl_ros.tasks import Task


def check_combination(config: Config, task: Task) -> None:
    """Refuse a search or planner that makes no sense for the task, and names provided twice.

    Raises:
        ConfigError: with the reason and what to choose instead.
    """
    for kind, ours in (("planners", PLANNERS), ("searches", SEARCHES), ("models", MODELS)):
        plugins.installed(kind, ours)
    spec = task.spec
    hallucinated = spec.predicted_dim if config.strategy == "optimistic" else 0
    make_planner(config.planner, spec.predicted_dim, spec.action_dim + hallucinated)
    for group, name, chosen, members in (
        ("search", config.search.algorithm, search_class(config.search.algorithm), SEARCHES),
        ("planner", config.planner.algorithm, planner_class(config.planner.algorithm), PLANNERS),
    ):
        if chosen.needs_gradients and (missing := missing_gradients(task)):
            others = ", ".join(k for k, member in members.items() if not member.needs_gradients)
            raise ConfigError(
                f"{group}.algorithm = {name!r}: it follows the gradient of the "
                f"reward, and that of task {task.name!r} has none with respect to the "
                f"{' and the '.join(missing)}; choose one of: {others}"
            )
