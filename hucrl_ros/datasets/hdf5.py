"""One HDF5 file with the arrays that D4RL's readers expect."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.datasets.target import library, whole
from hucrl_ros.datasets.trajectories import Columns, Trajectories, Trajectory

EXTRA = "hdf5"


def write_hdf5(data: Trajectories, target: Path) -> None:
    """Write all transitions one after the other, float64 as in the bags.

    `observations` `(N, p)`, `actions` `(N, q)`, `rewards` `(N,)`, `next_observations` `(N, p)`,
    `terminals` `(N,)`, which are never true, as an episode ends by time, and `timeouts` `(N,)`,
    true at the last transition before an end or a gap; `episode` and `step` `(N,)`. Names and
    units are attributes of the arrays, the rest of what a reader has to know those of the file.

    Raises:
        HucrlError: h5py is missing, something lies there, or it can't be written.
    """
    h5py = library("h5py", EXTRA)
    columns: dict[str, Columns] = {
        "observations": data.observations,
        "next_observations": data.observations,
        "actions": data.actions,
    }
    parts = [_arrays(part) for part in data.parts]
    with whole(target) as unfinished, h5py.File(unfinished, "w") as file:
        file.attrs.update(data.facts | {"about": data.about})
        for name in parts[0]:
            content = np.concatenate([part[name] for part in parts])
            array = file.create_dataset(name, data=content, compression="gzip")
            if name in columns:
                array.attrs["names"] = list(columns[name].names)
                array.attrs["units"] = list(columns[name].units)
        file["rewards"].attrs["of"] = "the state before the action, and the action"


def _arrays(part: Trajectory) -> dict[str, NDArray[Any]]:
    timeouts = np.zeros(part.length, dtype=np.bool_)
    timeouts[-1] = True
    return {
        "observations": part.states[:-1],
        "actions": part.actions,
        "rewards": part.rewards,
        "next_observations": part.states[1:],
        "terminals": np.zeros(part.length, dtype=np.bool_),
        "timeouts": timeouts,
        "episode": np.full(part.length, part.episode, dtype=np.int64),
        "step": np.arange(part.first, part.first + part.length, dtype=np.int64),
    }
