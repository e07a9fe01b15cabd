"""A Minari dataset, which `minari.load_dataset` loads."""

import os
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

import hucrl_ros
from hucrl_ros.datasets.target import library, whole
from hucrl_ros.datasets.trajectories import Trajectories, Trajectory
from hucrl_ros.errors import ConfigError

EXTRA = "minari"
ROOT = "MINARI_DATASETS_PATH"
"""Environment variable by which Minari finds its datasets."""
_NAME = re.compile(r"(?:[-\w]+/)*[-\w]+-v\d+")


class Place(NamedTuple):
    """Where a dataset lies."""

    name: str
    """That `minari.load_dataset` takes."""
    root: Path
    """What `MINARI_DATASETS_PATH` has to be for it."""

    @property
    def namespace(self) -> str:
        """What its name begins with; empty: nothing."""
        return self.name.rpartition("/")[0]

    @property
    def folder(self) -> Path:
        """The dataset's."""
        return self.root / self.name


def place_of(typed: str) -> Place:
    """Where a name or a folder is; a folder begins with `/`, `.` or `~`.

    Raises:
        ConfigError: Minari takes no such name.
    """
    if typed.startswith(("/", ".", "~")):
        folder = Path(os.path.abspath(Path(typed).expanduser()))  # noqa: PTH100  # of links, too
        place = Place(folder.name, folder.parent)
    else:
        kept = os.environ.get(ROOT)
        place = Place(typed, Path(kept) if kept else Path.home() / ".minari" / "datasets")
    if not _NAME.fullmatch(place.name):
        raise ConfigError(
            f"--minari = {typed}: expected a name that ends with a version, such as "
            "pendulum/optimistic-v0, or a folder so named, such as ./optimistic-v0"
        )
    return place


def write_minari(data: Trajectories, place: Place) -> None:
    """Write one Minari episode for each trajectory, float64 as in the bags.

    Raises:
        HucrlError: minari or h5py are missing, something lies there, or it can't be written.
    """
    library("h5py", EXTRA)
    library("minari", EXTRA)
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage
    from minari.namespace import create_namespace, list_local_namespaces

    spec = data.task.spec
    limits = np.asarray(spec.effort_limits)
    observed = spaces.Box(-np.inf, np.inf, (spec.state_dim,), np.float64)
    acted = spaces.Box(-limits, limits, dtype=np.float64)
    with whole(place.folder) as unfinished:
        if place.namespace and place.namespace not in list_local_namespaces():
            create_namespace(place.namespace)
        unfinished.mkdir()
        storage = MinariStorage.new(unfinished / "data", observed, acted, data_format="hdf5")
        storage.update_metadata(_metadata(data, place.name, version("minari")))
        storage.update_episodes([_buffer(EpisodeBuffer, k, p) for k, p in enumerate(data.parts)])
        storage.update_episode_metadata(
            [{"run_episode": part.episode, "first_step": part.first} for part in data.parts]
        )


def _buffer(made: Callable[..., Any], number: int, part: Trajectory) -> Any:  # noqa: ANN401
    """One of Minari's episodes: it ends by time, never by what happened."""
    truncated = np.zeros(part.length, dtype=np.bool_)
    truncated[-1] = True
    return made(
        id=number,
        observations=part.states,
        actions=part.actions,
        rewards=part.rewards,
        terminations=np.zeros(part.length, dtype=np.bool_),
        truncations=truncated,
        infos={"time": part.time},
    )


def _metadata(data: Trajectories, name: str, minari_version: str) -> dict[str, Any]:
    return {
        "dataset_id": name,
        "minari_version": minari_version,
        "algorithm_name": f"H-UCRL, {data.config.strategy}",
        "author": {f"hucrl_ros {hucrl_ros.__version__}"},
        "description": data.about,
        "observation_names": data.observations.names,
        "observation_units": data.observations.units,
        "action_names": data.actions.names,
        "action_units": data.actions.units,
        **data.facts,
    }
