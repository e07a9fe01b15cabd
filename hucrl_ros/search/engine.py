"""What imagines trajectories in a search."""

import logging

from hucrl_ros.models.exploration import Step
from hucrl_ros.search.actors import Actors
from hucrl_ros.search.imagination import Imagination
from hucrl_ros.search.weights import networks_of

logger = logging.getLogger(__name__)


def make_imagination(actors: Actors, step: Step) -> Imagination:
    """The compiled kernel where it knows the model, the strategy and the features; else torch.

    The model must stay as it is as long as the result is used; the policies may change.
    """
    if actors.limits.device.type != "cpu":
        return Imagination(actors, step)
    networks = networks_of(actors, step)
    if networks is None:
        logger.info("imagining with torch: the model, the strategy or the features are special")
        return Imagination(actors, step)
    try:
        from hucrl_ros.search.compiled import CompiledImagination
    except (ImportError, RuntimeError) as error:  # RuntimeError: no place for numba's cache
        logger.info("imagining with torch: numba can't be used: %s", error)
        return Imagination(actors, step)
    return CompiledImagination(actors, step, networks)
