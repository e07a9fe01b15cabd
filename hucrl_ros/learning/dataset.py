"""The data set: recorded episodes, checked, joined into transitions, and hashed."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hucrl_ros.bags.course import LEAST_SHARE
from hucrl_ros.errors import LearningError
from hucrl_ros.models import Transitions


class RecordedEpisode(NamedTuple):
    """States and actions of one episode with T transitions."""

    states: NDArray[np.float64]
    """`(T + 1, p)`"""
    actions: NDArray[np.float64]
    """`(T, q)` [N m or N]"""
    contiguous: NDArray[np.bool_]
    """`(T,)` whether a transition took one control period."""
    weight: float = 1.0
    """Of its transitions in a fit [1]."""
    finished: bool = True
    """Otherwise it is the sound part of an attempt that was interrupted, which earns nothing."""
    cut: bool = False
    """It was ended by a surprise; it counts as an episode, but its return tells nothing."""
    flown: int | None = None
    """Number of the bundle that played it; None: the episode's own."""
    bag: Path | None = None
    """Where it was read; None: nowhere."""


def join_transitions(episodes: Sequence[RecordedEpisode], origin: Path) -> Transitions:
    """All transitions that took one control period.

    Of an episode that a surprise ended those are taken that there are, if any: it may be over
    after a few ticks, and nobody will play it again.

    Args:
        episodes: In the order of the run.
        origin: Where it comes from, for messages.

    Raises:
        LearningError: too few of a whole episode did, or one isn't finite.
    """
    parts = []
    weighs = any(episode.weight != 1.0 for episode in episodes)
    for index, episode in enumerate(episodes):
        states, actions, kept, weight = episode[:4]
        where = episode.bag or f"{origin}: episode {index}"
        if not episode.cut and kept.sum() < max(LEAST_SHARE * len(kept), 1):
            raise LearningError(
                f"{where}: {kept.sum()} of {len(kept)} transitions took one "
                f"control period by their stamps; at least {LEAST_SHARE:.0%} must: have joint "
                "states published once a control period; then move this bag away, with all later "
                "bags and bundles, and go on with --resume"
            )
        arrays = (states[:-1][kept], actions[kept], states[1:][kept])
        part = Transitions(*(torch.as_tensor(array, dtype=torch.float32) for array in arrays))
        for name, values in zip(part._fields, part[:3], strict=False):
            bad = values[~values.isfinite()]
            if len(bad):
                raise LearningError(
                    f"{where}: {name} hold {float(bad[0])}; only finite numbers can be learned "
                    "from"
                )
        if weighs:
            part = part._replace(weights=torch.full((len(part.states),), weight))
        parts.append(part)
    columns = list(zip(*parts, strict=True))
    return Transitions(*(torch.cat(column) for column in (columns if weighs else columns[:3])))


def hash_of(episodes: Sequence[RecordedEpisode]) -> str:
    """SHA-256 over all arrays of all episodes."""
    digest = hashlib.sha256()
    for episode in episodes:
        for array in episode[:3]:
            digest.update(np.ascontiguousarray(array).tobytes())
        if episode.weight != 1.0:
            digest.update(str(episode.weight).encode())
    return digest.hexdigest()
