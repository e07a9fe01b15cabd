"""Whether search, planner and device go with a task and with this machine."""

from typing import TYPE_CHECKING

from hucrl_ros.config import plugins
from hucrl_ros.config.files import load_config, task_config_path
from hucrl_ros.config.schema import Config
from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    from hucrl_ros.tasks import Task


def check_combination(config: Config, task: "Task") -> None:
    """Refuse a search or planner that makes no sense for the task, and names provided twice.

    Raises:
        ConfigError: with the reason and what to choose instead.
    """
    from hucrl_ros.models import MODELS  # torch takes seconds to load
    from hucrl_ros.planners import PLANNERS, make_planner, planner_class
    from hucrl_ros.search import SEARCHES, gradient_fault, search_class

    for kind, ours in (("planners", PLANNERS), ("searches", SEARCHES), ("models", MODELS)):
        plugins.installed(kind, ours)
    spec = task.spec
    hallucinated = spec.predicted_dim if config.strategy in ("optimistic", "opax") else 0
    make_planner(config.planner, spec.predicted_dim, spec.action_dim + hallucinated)
    if config.planner.algorithm == "exact" and spec.context:
        raise ConfigError(
            "planner.algorithm = 'exact': makes a grid over two entries of the state, and that of "
            f"{spec.name!r} holds {', '.join(spec.context)}, too; the others plan for any number"
        )
    for group, name, chosen, members in (
        ("search", config.search.algorithm, search_class(config.search.algorithm), SEARCHES),
        ("planner", config.planner.algorithm, planner_class(config.planner.algorithm), PLANNERS),
    ):
        if chosen.needs_gradients and (fault := gradient_fault(task)):
            others = ", ".join(k for k, member in members.items() if not member.needs_gradients)
            raise ConfigError(
                f"{group}.algorithm = {name!r}: it follows the gradient of the "
                f"reward, and that of task {task.name!r} {fault}; choose one of: {others}"
            )


def check_choices(task: str, config: Config) -> None:
    """Look whether search and planner fit one of the paper's tasks.

    What its own settings choose does; tests see to that, and torch need not be loaded here.

    Raises:
        ConfigError: they don't.
    """
    own = load_config(task_config_path(task))
    if [own.search.algorithm, own.planner.algorithm] == [
        config.search.algorithm,
        config.planner.algorithm,
    ]:
        return
    from hucrl_ros.tasks import make_task

    check_combination(config, make_task(task, config.action_penalty))


def check_device_of(config: Config) -> None:
    """Refuse a device that this machine hasn't.

    Raises:
        ConfigError: it has none.
    """
    if config.device != "cpu":  # torch takes seconds to load.
        from hucrl_ros.run.device import check_device

        check_device(config.device)
