"""What is sound of an attempt at an episode that was interrupted."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hucrl_ros.bags.course import LEAST_SHARE
from hucrl_ros.bags.reader import Episode, read_episode
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import Config
from hucrl_ros.errors import BagError


class SoundPart(NamedTuple):
    """What can be learned from of an interrupted attempt."""

    episode: Episode | None
    """None: nothing."""
    line: str
    """How much it is, or why it is nothing."""


def sound_part(path: Path, spec: RobotSpec, steps: int, config: Config) -> SoundPart:
    """Read what was recorded up to the last tick; what came later nobody controlled.

    Args:
        path: The attempt's bag, which may be cut off.
        spec: The robot.
        steps: Control periods in an episode.
        config: Settings of its run.
    """
    try:
        episode = up_to_last_tick(read_episode(path, spec, steps, config))
    except BagError as error:  # nothing depends on it: the episode was played again
        return SoundPart(None, f"not learned from: {error}")
    sound, count = int(np.count_nonzero(episode.contiguous)), len(episode.actions)
    if sound < max(LEAST_SHARE * count, 1):
        return SoundPart(
            None,
            f"not learned from: {sound} of {count} transitions took one control period; "
            f"at least {LEAST_SHARE:.0%} must",
        )
    return SoundPart(episode, f"{sound} transitions up to the last tick are learned from")


def up_to_last_tick(episode: Episode) -> Episode:
    """The transitions that ended when the controller was still there."""
    last = int(episode.ticks["stamp_ns"][-1])
    count = max(int(np.searchsorted(episode.stamps_ns, last, side="right")) - 1, 0)
    return replace(
        episode,
        states=episode.states[: count + 1],
        actions=episode.actions[:count],
        contiguous=episode.contiguous[:count],
        stamps_ns=episode.stamps_ns[: count + 1],
    )
