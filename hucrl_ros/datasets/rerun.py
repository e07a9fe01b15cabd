"""A Rerun recording: the robot in 3D, its joints, its ticks and its returns over time."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.datasets.target import library, whole
from hucrl_ros.datasets.trajectories import Columns, Trajectories, Trajectory
from hucrl_ros.errors import HucrlError
from hucrl_ros.robots.body import last_body
from hucrl_ros.robots.poses import poses_of
from hucrl_ros.robots.shapes import shapes

EXTRA = "rerun"
MOVEMENT, EPISODE = "movement", "episode"
"""Time lines: seconds of movement of the whole run, and numbers of episodes. Each episode also has
its own, `episode_003`, in seconds from its beginning."""
SHOWN = ("tick_ms", "planned_return", "epistemic_std", "hallucination", "surprise")
"""Fields of ticks that are drawn."""
Column = NDArray[Any]


def write_rerun(data: Trajectories, target: Path) -> None:
    """Write `robot/<body>`, `trajectory`, `state/`, `action/`, `reward`, `tick/`, `return`.

    Raises:
        HucrlError: rerun-sdk is missing, something lies there, or it can't be written.
    """
    rr = library("rerun", EXTRA)
    chunks = library("rerun.chunk", EXTRA)
    with whole(target) as unfinished:
        with rr.RecordingStream(f"hucrl_ros {data.task.name}") as stream:
            stream.save(unfinished)
            _Recording(rr, stream, data).write()
            stream.disconnect()
        require_whole(chunks, unfinished, target)


def require_whole(chunks: ModuleType, path: Path, target: Path) -> None:
    """Look whether a file can be read to its end: what writes it raises nothing on a full disk.

    Raises:
        HucrlError: it can't.
    """
    try:
        chunks.RrdReader(path).store()
    except (RuntimeError, OSError):
        raise HucrlError(f"{target}: can't be written: is the disk full?") from None


class _Recording:
    """What is written of a run."""

    def __init__(self, rr: ModuleType, stream: Any, data: Trajectories) -> None:  # noqa: ANN401
        self._rr, self._stream, self._data = rr, stream, data
        self._robot = data.task.robot()
        self._before = 0.0
        """Movement of earlier episodes [s]."""

    def write(self) -> None:
        rr, stream, model = self._rr, self._stream, self._robot.model
        stream.log("/", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        facts = "\n".join(f"{name}: {value}" for name, value in self._data.facts.items())
        stream.log("about", rr.TextDocument(f"{self._data.about}\n\n{facts}"), static=True)
        for shape in shapes(model):
            mesh = rr.Mesh3D(
                vertex_positions=shape.vertices,
                triangle_indices=shape.faces,
                albedo_factor=(*shape.colour, round(255 * shape.opacity)),
            )
            stream.log(f"{_body(model.body(shape.body).name)}/{shape.name}", mesh, static=True)
        for index in sorted({part.episode for part in self._data.parts}):
            self._episode(index, [part for part in self._data.parts if part.episode == index])

    def _episode(self, index: int, parts: Sequence[Trajectory]) -> None:
        for part in parts:
            self._part(index, part)
        total = sum(float(part.rewards.sum()) for part in parts)
        numbered = self._rr.TimeColumn(EPISODE, sequence=[index])
        self._scalars("return", [numbered], np.array([total]))
        self._before += float(parts[-1].time[-1])

    def _part(self, index: int, part: Trajectory) -> None:
        at_states = self._times(index, part.time)
        at_actions = self._times(index, part.time[:-1])
        self._entries("state", self._data.observations, at_states, part.states)
        self._entries("action", self._data.actions, at_actions, part.actions)
        self._scalars("reward", at_actions, part.rewards)
        self._bodies(at_states, part)
        self._ticks(index, part)

    def _times(self, index: int, seconds: Column) -> list[Any]:
        """The moments, `seconds` after the episode's beginning, on their time lines."""
        lines = {MOVEMENT: self._before + seconds, f"episode_{index:03d}": seconds}
        return [
            self._rr.TimeColumn(name, duration=np.round(x * NANOSECONDS).astype("timedelta64[ns]"))
            for name, x in lines.items()
        ]

    def _entries(self, kind: str, columns: Columns, times: list[Any], values: Column) -> None:
        for name, unit, column in zip(*columns, values.T, strict=True):
            path = f"{kind}/{name}"
            label = self._rr.SeriesLines(names=[f"{name} [{unit}]"])
            self._stream.log(path, label, static=True)
            self._scalars(path, times, column)

    def _scalars(self, path: str, times: list[Any], values: Column) -> None:
        columns = self._rr.Scalars.columns(scalars=np.asarray(values, np.float64))
        self._stream.send_columns(path, indexes=times, columns=columns)

    def _bodies(self, times: list[Any], part: Trajectory) -> None:
        rr, model = self._rr, self._robot.model
        positions, quaternions = poses_of(self._robot, part.states)
        for body in range(1, model.nbody):
            columns = rr.Transform3D.columns(
                translation=positions[:, body], quaternion=quaternions[:, body, [1, 2, 3, 0]]
            )
            path = _body(model.body(body).name)
            self._stream.send_columns(path, indexes=times, columns=columns)
        way = positions[:, last_body(model, self._data.task.spec)]
        strips = rr.LineStrips3D.columns(strips=[way])
        # From its beginning on, so that the way ahead is seen.
        began = self._times(part.episode, part.time[:1])
        self._stream.send_columns("trajectory", indexes=began, columns=strips)

    def _ticks(self, index: int, part: Trajectory) -> None:
        for name in SHOWN:
            known = np.isfinite(part.ticks[name])
            if known.any():
                times = self._times(index, part.tick_time[known])
                self._scalars(f"tick/{name}", times, part.ticks[name][known])


def _body(name: str) -> str:
    return f"robot/{name}"
