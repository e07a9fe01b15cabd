"""Policy search on the imagined system."""

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.search.actors import Actors
from hucrl_ros.search.base import PolicySearch, SearchResult
from hucrl_ros.search.bptt import Bptt
from hucrl_ros.search.checks import missing_gradients
from hucrl_ros.search.engine import make_imagination
from hucrl_ros.search.imagination import Imagination, Imagined, Starts
from hucrl_ros.search.lookahead import Lookahead
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


def make_search(settings: SearchSettings) -> PolicySearch:
    """Build the search that the settings name."""
    return SEARCHES[settings.algorithm](settings)


__all__ = [
    "SEARCHES",
    "Actors",
    "Imagination",
    "Imagined",
    "Lookahead",
    "Mpo",
    "Pathwise",
    "PolicySearch",
    "SearchResult",
    "Starts",
    "make_imagination",
    "make_search",
    "missing_gradients",
    "networks_of",
]
