"""Planners: what to do in the next H control periods. numpy only."""

from hucrl_ros.config import PlannerSettings
from hucrl_ros.planners.base import Imagine, Plan, Planner, Rollouts
from hucrl_ros.planners.dyna_mpc import DynaMpc
from hucrl_ros.planners.policy import PolicyPlanner

PLANNERS: dict[str, type[Planner]] = {"dyna_mpc": DynaMpc, "policy": PolicyPlanner}


def make_planner(settings: PlannerSettings, state_dim: int, width: int) -> Planner:
    """Build the planner that `settings` names, for actions `(width,)`, width = q + h."""
    return PLANNERS[settings.algorithm](settings, state_dim, width)


__all__ = [
    "PLANNERS",
    "DynaMpc",
    "Imagine",
    "Plan",
    "Planner",
    "PolicyPlanner",
    "Rollouts",
    "make_planner",
]
