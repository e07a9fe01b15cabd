"""Policy search on trajectories that the learned model imagines."""

from hucrl_ros.config.plugins import load
from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.search.actor_critic import ActorCritic
from hucrl_ros.search.base import PolicySearch, SearchResult
from hucrl_ros.search.bptt import Bptt
from hucrl_ros.search.differentiable import missing_gradients
from hucrl_ros.search.lookahead import Lookahead
from hucrl_ros.search.model_rollout import (
    InitialStates,
    ModelRollout,
    Trajectories,
    make_model_rollout,
)
from hucrl_ros.search.mpo import Mpo
from hucrl_ros.search.pathwise import Pathwise
from hucrl_ros.search.ppo import Ppo
from hucrl_ros.search.sac import Sac
from hucrl_ros.search.td3 import Td3
from hucrl_ros.search.weights import networks_of

SEARCHES: dict[str, type[PolicySearch]] = {
    "lookahead": Lookahead,
    "pathwise": Pathwise,
    "bptt": Bptt,
    "mpo": Mpo,
    "sac": Sac,
    "td3": Td3,
    "ppo": Ppo,
}


def search_class(name: str) -> type[PolicySearch]:
    """The search of this name: one of ours, or a plug-in.

    Raises:
        ConfigError: a plug-in is missing or can't be loaded.
    """
    return SEARCHES.get(name) or load("searches", name, SEARCHES, PolicySearch)  # type: ignore[type-abstract]


def make_search(settings: SearchSettings) -> PolicySearch:
    """Build the search that the settings name."""
    return search_class(settings.algorithm)(settings)


__all__ = [
    "SEARCHES",
    "ActorCritic",
    "InitialStates",
    "Lookahead",
    "ModelRollout",
    "Mpo",
    "Pathwise",
    "PolicySearch",
    "SearchResult",
    "Trajectories",
    "make_model_rollout",
    "make_search",
    "missing_gradients",
    "networks_of",
    "search_class",
]
