"""A LeRobotDataset, version 3.0: Parquet and JSON, without pictures."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.datasets.target import library, whole
from hucrl_ros.datasets.trajectories import Trajectories

EXTRA = "lerobot"
VERSION = "v3.0"
FILE = "chunk-000/file-000.parquet"
"""One file is enough: a transition of forty numbers takes 160 bytes."""
PLACEHOLDER = "chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)
_PLAIN = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
"""Features that each LeRobotDataset has."""
_README = """# {about}

A LeRobotDataset ({version}): {frames} transitions in {episodes} episodes, recorded by `hucrl_ros`.

A frame is a state, the action that followed, and in `next.reward` the reward of both; `next.done`
is true at the last transition of an episode, which ends by time, or before a gap. The state after
the last action isn't in it.

| feature | entry | unit |
|---|---|---|
{rows}

{facts}
"""
Frames = dict[str, NDArray[Any]]


def write_lerobot(data: Trajectories, target: Path) -> None:
    """Write one LeRobot episode for each trajectory; numbers are float32, as LeRobot has them.

    Raises:
        HucrlError: pyarrow is missing, something lies there, or it can't be written.
    """
    pa, parquet = library("pyarrow", EXTRA), library("pyarrow.parquet", EXTRA)
    features = _features(data)
    episodes = _episodes(data)
    joined = {name: np.concatenate([part[name] for part in episodes]) for name in features}
    with whole(target) as folder:
        for name in ("data", "meta/episodes"):
            (folder / name / FILE).parent.mkdir(parents=True)
        table = pa.table({name: _column(pa, joined[name]) for name in features})
        parquet.write_table(table, folder / "data" / FILE)
        rows = pa.Table.from_pylist(_rows(data, features, episodes))
        parquet.write_table(rows, folder / "meta/episodes" / FILE)
        parquet.write_table(_tasks(pa, data.about), folder / "meta/tasks.parquet")
        _write_json(folder / "meta/info.json", _info(data, features))
        _write_json(folder / "meta/stats.json", {k: _statistics(x) for k, x in joined.items()})
        (folder / "README.md").write_text(_readme(data), encoding="utf-8")


def _features(data: Trajectories) -> dict[str, dict[str, Any]]:
    """What `info.json` says of each column."""

    def vector(names: tuple[str, ...]) -> dict[str, Any]:
        return {"dtype": "float32", "shape": [len(names)], "names": list(names)}

    return {
        "observation.state": vector(data.observations.names),
        "action": vector(data.actions.names),
        "next.reward": {"dtype": "float32", "shape": [1], "names": None},
        "next.done": {"dtype": "bool", "shape": [1], "names": None},
        **{name: {"dtype": kind, "shape": [1], "names": None} for name, kind in _PLAIN.items()},
    }


def _episodes(data: Trajectories) -> list[Frames]:
    """The columns of each episode; LeRobot's time goes in steps of the control period."""
    episodes: list[Frames] = []
    begin = 0
    for number, part in enumerate(data.parts):
        frame = np.arange(part.length)
        episodes.append(
            {
                "observation.state": part.states[:-1].astype(np.float32),
                "action": part.actions.astype(np.float32),
                "next.reward": part.rewards.astype(np.float32),
                "next.done": frame == part.length - 1,
                "timestamp": (frame * data.task.spec.period).astype(np.float32),
                "frame_index": frame,
                "episode_index": np.full(part.length, number),
                "index": begin + frame,
                "task_index": np.zeros(part.length, dtype=np.int64),
            }
        )
        begin += part.length
    return episodes


def _column(pa: Any, values: NDArray[Any]) -> Any:  # noqa: ANN401  # pyarrow's module and arrays
    """A vector of one entry is a plain number, as LeRobot has it."""
    if values.ndim == 1 or values.shape[1] == 1:
        return pa.array(values.ravel())
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def _rows(
    data: Trajectories, features: dict[str, Any], episodes: list[Frames]
) -> list[dict[str, Any]]:
    """What is said of each episode."""
    rows = []
    for number, frames in enumerate(episodes):
        row: dict[str, Any] = {
            "episode_index": number,
            "tasks": [data.about],
            "length": len(frames["index"]),
            "data/chunk_index": 0,
            "data/file_index": 0,
            "dataset_from_index": int(frames["index"][0]),
            "dataset_to_index": int(frames["index"][-1]) + 1,
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }
        for name in features:
            told = _statistics(frames[name]).items()
            row |= {f"stats/{name}/{statistic}": value for statistic, value in told}
        rows.append(row)
    return rows


def _statistics(values: NDArray[Any]) -> dict[str, list[float]]:
    """Of each entry, over all frames."""
    table = values.reshape(len(values), -1).astype(np.float64)
    quantiles = np.quantile(table, QUANTILES, axis=0)
    return {
        "min": table.min(axis=0).tolist(),
        "max": table.max(axis=0).tolist(),
        "mean": table.mean(axis=0).tolist(),
        "std": table.std(axis=0).tolist(),
        "count": [len(table)],
        **{
            f"q{round(100 * q):02d}": x.tolist() for q, x in zip(QUANTILES, quantiles, strict=True)
        },
    }


def _tasks(pa: Any, about: str) -> Any:  # noqa: ANN401
    """One task; its sentence is the index of a pandas table."""
    kinds = (("task", "unicode", "object"), ("task_index", "int64", "int64"))
    columns = [
        {"name": n, "field_name": n, "pandas_type": kind, "numpy_type": held, "metadata": None}
        for n, kind, held in kinds
    ]
    pandas = {"index_columns": ["task"], "column_indexes": [], "columns": columns}
    table = pa.table({"task_index": pa.array([0], pa.int64()), "task": [about]})
    return table.replace_schema_metadata({"pandas": json.dumps(pandas)})


def _info(data: Trajectories, features: dict[str, Any]) -> dict[str, Any]:
    rate = 1.0 / data.task.spec.period
    return {
        "codebase_version": VERSION,
        "robot_type": data.task.spec.name,
        "total_episodes": len(data.parts),
        "total_frames": data.length,
        "total_tasks": 1,
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": round(rate) if abs(rate - round(rate)) < 1e-6 * rate else rate,
        "splits": {"train": f"0:{len(data.parts)}"},
        "data_path": f"data/{PLACEHOLDER}",
        "video_path": None,
        "features": features,
    }


def _readme(data: Trajectories) -> str:
    columns = {"observation.state": data.observations, "action": data.actions}
    rows = [
        f"| `{feature}` | `{name}` | {unit} |"
        for feature, (names, units) in columns.items()
        for name, unit in zip(names, units, strict=True)
    ]
    return _README.format(
        about=data.about,
        version=VERSION,
        frames=data.length,
        episodes=len(data.parts),
        rows="\n".join(rows),
        facts="\n".join(f"- {name}: {value}" for name, value in data.facts.items()),
    )


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=4) + "\n", encoding="utf-8")
