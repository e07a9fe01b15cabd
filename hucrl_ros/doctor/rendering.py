"""Pictures and videos of episodes: without them, learning still works."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from hucrl_ros.doctor.finding import Finding

TIMEOUT_S = 60.0
"""[s] The first rendering on a loaded machine takes seconds."""
# A broken driver may end the process that tries it, so it is not this one.
_RENDER = """
import mujoco
model = mujoco.MjModel.from_xml_string(
    '<mujoco><worldbody><light pos="0 0 3"/><geom size="1"/></worldbody></mujoco>')
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = mujoco.Renderer(model, 48, 64)
renderer.update_scene(data)
if not renderer.render().any():
    raise SystemExit("the picture is black")
"""


def check_rendering() -> Finding:
    """MuJoCo draws a picture without a display."""
    backend = os.environ.get("MUJOCO_GL", "egl")
    advice = (
        "only videos need it: on Debian and Ubuntu sudo apt install libegl1 libgl1-mesa-dri, "
        "or set MUJOCO_GL=osmesa after sudo apt install libosmesa6"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", _RENDER],
            env={**os.environ, "MUJOCO_GL": backend},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding.note(f"MUJOCO_GL={backend}: no picture in {TIMEOUT_S:.0f} s", advice)
    if done.returncode == 0:
        return Finding.ok(f"MUJOCO_GL={backend}")
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    reason = next((line for line in reversed(lines) if "Error" in line), lines[-1])
    return Finding.note(f"MUJOCO_GL={backend}: {reason}", advice)


def check_video() -> Finding:
    """An encoder for MP4; GIFs need none."""
    try:
        import imageio_ffmpeg

        path = Path(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        found = shutil.which("ffmpeg")
        if found is None:
            return Finding.note(
                "no ffmpeg: videos become GIFs", "run `make env`, or sudo apt install ffmpeg"
            )
        path = Path(found)
    return Finding.ok(f"{path.name}; GIF by Pillow {metadata.version('pillow')}")


RENDERING: dict[str, Callable[[], Finding]] = {
    "rendering": check_rendering,
    "video": check_video,
}
