"""Policy search on the imagined system."""

from hucrl_ros.config import SearchSettings
from hucrl_ros.search.actors import Actors
from hucrl_ros.search.base import PolicySearch, SearchResult
from hucrl_ros.search.imagination import Imagined, Starts, imagine
from hucrl_ros.search.lookahead import Lookahead
from hucrl_ros.search.mpo import Mpo
from hucrl_ros.search.pathwise import Pathwise

SEARCHES: dict[str, type[PolicySearch]] = {
    "lookahead": Lookahead,
    "pathwise": Pathwise,
    "mpo": Mpo,
}


def make_search(settings: SearchSettings) -> PolicySearch:
    """Build the search that the settings name."""
    return SEARCHES[settings.algorithm](settings)


__all__ = [
    "SEARCHES",
    "Actors",
    "Imagined",
    "Lookahead",
    "Mpo",
    "Pathwise",
    "PolicySearch",
    "SearchResult",
    "Starts",
    "imagine",
    "make_search",
]
