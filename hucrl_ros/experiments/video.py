"""Videos of recorded episodes, rendered in a process of its own.

MuJoCo picks its OpenGL library when it is imported, and a driver that crashes must not take the
run's process with it.
"""

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hucrl_ros.experiments.workers import child_environment
from hucrl_ros.robots.mujoco_robot import Array

logger = logging.getLogger(__name__)

LIBRARIES = ("egl", "osmesa")
"""MuJoCo's ways to draw without a display, in the order they are tried."""
TIMEOUT_S = 180.0
"""[s] Longest rendering."""
TOGETHER = "first_and_best"
"""Name of a run's animation of all clips."""


class Clip(NamedTuple):
    """A recorded episode to be replayed."""

    name: str
    """Of the file, without suffix."""
    title: str
    """What stands in the picture."""
    states: Array
    """`(T + 1, p)`."""
    actions: Array
    """`(T, q)` [N m or N]."""
    rewards: Array
    """`(T,)`."""


def render_videos(
    folder: Path,
    task: str,
    clips: Sequence[Clip],
    described: Path | None = None,
    together: str = TOGETHER,
) -> list[Path]:
    """An MP4 of each clip and a GIF of all of them side by side.

    Args:
        folder: Where they go.
        task: What the robot does.
        clips: Episodes of that task.
        described: Where the description of a robot of one's own may lie.
        together: Name of the GIF.

    Returns:
        The files; none where this machine can't render, which is logged in one line.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "clips.npz"
        save_clips(source, clips)
        reasons = []
        words = [together, task, *([] if described is None else [str(described)])]
        for library in _libraries(os.environ):
            problem = _render(source, folder, words, library)
            if problem is None:
                names = [*(f"{clip.name}.mp4" for clip in clips), f"{together}.gif"]
                return [folder / name for name in names]
            reasons.append(f"{library or 'default'}: {problem}")
    logger.warning("no videos, as MuJoCo can't render here (%s)", "; ".join(reasons))
    return []


def _libraries(environment: Mapping[str, str]) -> tuple[str, ...]:
    if environment.get("MUJOCO_GL"):
        return (environment["MUJOCO_GL"],)
    return LIBRARIES if sys.platform == "linux" else ("",)


def _render(source: Path, folder: Path, words: Sequence[str], library: str) -> str | None:
    """Run the renderer; returns None, or the last thing it said before it failed."""
    environment = child_environment(MUJOCO_GL=library) if library else child_environment()
    command = [sys.executable, "-m", "hucrl_ros.experiments.rendering"]
    try:
        done = subprocess.run(
            [*command, str(source), str(folder), *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"took longer than {TIMEOUT_S:g} s"
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines()
    return lines[-1].strip() if lines else f"exit code {done.returncode}"


def save_clips(path: Path, clips: Sequence[Clip]) -> None:
    """Write clips to one file."""
    arrays = {f"{k}/{field}": value for k, clip in enumerate(clips)
              for field, value in clip._asdict().items()}  # fmt: skip
    np.savez(path, **arrays, allow_pickle=False)


def load_clips(path: Path) -> list[Clip]:
    """Read what `save_clips` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        count = 1 + max(int(key.split("/")[0]) for key in arrays.files)
        return [
            Clip(
                name=str(arrays[f"{k}/name"]),
                title=str(arrays[f"{k}/title"]),
                states=arrays[f"{k}/states"],
                actions=arrays[f"{k}/actions"],
                rewards=arrays[f"{k}/rewards"],
            )
            for k in range(count)
        ]
