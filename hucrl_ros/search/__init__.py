"""Policy search on trajectories that the learned model imagines."""

import logging

from hucrl_ros.config.plugins import load
from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.models.exploration import ImaginedDynamics
from hucrl_ros.search.actor_critic import ActorCritic
from hucrl_ros.search.base import PolicySearch, SearchResult
from hucrl_ros.search.candidates import Lookahead, Mpo
from hucrl_ros.search.gradients import Bptt, Pathwise, gradient_fault
from hucrl_ros.search.model_rollout import (
    InitialStates,
    ModelRollout,
    Trajectories,
)
from hucrl_ros.search.off_policy import Sac, Td3
from hucrl_ros.search.ppo import Ppo
from hucrl_ros.search.weights import networks_of

logger = logging.getLogger(__name__)

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


def make_model_rollout(actor_critic: ActorCritic, dynamics: ImaginedDynamics) -> ModelRollout:
    """The compiled kernel where it knows the model, the strategy and the features; else torch.

    The model must stay as it is as long as the result is used; the policies may change.
    """
    if actor_critic.limits.device.type != "cpu":
        return ModelRollout(actor_critic, dynamics)
    networks = networks_of(actor_critic, dynamics)
    if networks is None:
        logger.info("imagining with torch: the model, the strategy or the features are special")
        return ModelRollout(actor_critic, dynamics)
    try:
        from hucrl_ros.search.compiled import CompiledModelRollout
    except (ImportError, RuntimeError) as error:  # RuntimeError: no place for numba's cache
        logger.info("imagining with torch: numba can't be used: %s", error)
        return ModelRollout(actor_critic, dynamics)
    return CompiledModelRollout(actor_critic, dynamics, networks)


__all__ = [
    "SEARCHES",
    "ActorCritic",
    "InitialStates",
    "Lookahead",
    "ModelRollout",
    "Mpo",
    "PolicySearch",
    "SearchResult",
    "Trajectories",
    "gradient_fault",
    "make_model_rollout",
    "make_search",
    "networks_of",
    "search_class",
]
