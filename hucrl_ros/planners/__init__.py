"""Planners: what to do in the next H control periods. numpy only."""

from hucrl_ros.config.plugins import load
from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.planners.base import Imagine, Plan, Planner, Rollouts, System
from hucrl_ros.planners.cem import Cem
from hucrl_ros.planners.dyna_mpc import DynaMpc
from hucrl_ros.planners.exact import Exact
from hucrl_ros.planners.icem import Icem
from hucrl_ros.planners.ilqr import Ilqr
from hucrl_ros.planners.mppi import Mppi
from hucrl_ros.planners.policy import PolicyPlanner
from hucrl_ros.planners.poplin import PoplinA, PoplinBias
from hucrl_ros.planners.random_shooting import RandomShooting

PLANNERS: dict[str, type[Planner]] = {
    "dyna_mpc": DynaMpc,
    "poplin_a": PoplinA,
    "poplin_bias": PoplinBias,
    "cem": Cem,
    "icem": Icem,
    "mppi": Mppi,
    "random_shooting": RandomShooting,
    "ilqr": Ilqr,
    "exact": Exact,
    "policy": PolicyPlanner,
}


def planner_class(name: str) -> type[Planner]:
    """The planner of this name: one of ours, or a plug-in.

    Raises:
        ConfigError: a plug-in is missing or can't be loaded.
    """
    return PLANNERS.get(name) or load("planners", name, PLANNERS, Planner)  # type: ignore[type-abstract]


def make_planner(settings: PlannerSettings, state_dim: int, width: int) -> Planner:
    """Build the planner that `settings` names, for actions `(width,)`, width = q + h."""
    return planner_class(settings.algorithm)(settings, state_dim, width)


__all__ = [
    "PLANNERS",
    "Cem",
    "DynaMpc",
    "Imagine",
    "Plan",
    "Planner",
    "Rollouts",
    "System",
    "make_planner",
    "planner_class",
]
