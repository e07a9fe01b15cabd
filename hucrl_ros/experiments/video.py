"""Videos of recorded episodes, rendered in a process of its own.

MuJoCo picks its OpenGL library when it is imported, and a driver that crashes must not take the
run's process with it: `python -m hucrl_ros.experiments.video`, with `MUJOCO_GL` set.
"""

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import imageio.v2
import matplotlib
import mujoco
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor, ImageDraw, ImageFont

from hucrl_ros.config.constraints import AnyConstraint
from hucrl_ros.config.robot import Command
from hucrl_ros.experiments.presentation import BLUE, GREY, INK, PALE, VERMILION, signed
from hucrl_ros.experiments.workers import child_environment
from hucrl_ros.robots import MujocoRobot, describe
from hucrl_ros.robots.mujoco_robot import Array
from hucrl_ros.robots.poses import put_through
from hucrl_ros.robots.regions import draw_regions

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
        words = [together, task, *([] if described is None else [str(described)])]
        problem = render_apart(__spec__.name, [str(source), str(folder), *words])
    if problem is not None:
        logger.warning("no videos, as MuJoCo can't render here (%s)", problem)
        return []
    return [folder / name for name in (*(f"{clip.name}.mp4" for clip in clips), f"{together}.gif")]


def render_apart(module: str, words: Sequence[str]) -> str | None:
    """Run a module that renders in a process of its own; None, or why it can't be done here."""
    reasons = []
    for library in _libraries(os.environ):
        problem = _render([sys.executable, "-m", module, *words], library)
        if problem is None:
            return None
        reasons.append(f"{library or 'default'}: {problem}")
    return "; ".join(reasons)


def _libraries(environment: Mapping[str, str]) -> tuple[str, ...]:
    if environment.get("MUJOCO_GL"):
        return (environment["MUJOCO_GL"],)
    return LIBRARIES if sys.platform == "linux" else ("",)


def _render(command: Sequence[str], library: str) -> str | None:
    """Run the renderer; returns None, or the last thing it said before it failed."""
    environment = child_environment(MUJOCO_GL=library) if library else child_environment()
    try:
        done = subprocess.run(
            command,
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
        found = [[arrays[f"{k}/{field}"] for field in Clip._fields] for k in range(count)]
        return [Clip(str(name), str(title), *played) for name, title, *played in found]


Frame = NDArray[np.uint8]

SIZE = 480
"""[pixels] Width and height of the picture of the robot."""
FOOTER = 64
"""[pixels] Height of the strip below it."""
CAMERA = "side"
FREE_CAMERA = -1
"""Where a model has no camera of that name: MuJoCo's own, which sees all of it."""
OBLIQUE = 125.0
"""[degrees] From where that one looks: nothing seems to be in what it stands behind."""
RATE = 20.0
"""[frames/s] GIFs count in hundredths of a second, so not every rate can be had exactly."""
GIF_HEIGHT = 340
"""[pixels]"""
GIF_S = 6.0
"""[s] What a GIF shows, at most; the MP4s show all."""
GIF_COLOURS = 128
GIF_HOLD_S = 1.5
"""[s] How long the last picture stands before the animation starts again."""


def main(
    source: Path, folder: Path, together: str, task: str, described: Path | None = None
) -> None:
    """Render the clips in `source` into `folder`, and a GIF `together` of all of them."""
    found = describe(task, described)
    robot = MujocoRobot(found)
    stride = max(1, round(1 / (RATE * robot.spec.period)))
    rate = 1 / (stride * robot.spec.period)
    clips = load_clips(source)
    films = []
    with renderer_of(robot.model) as renderer:
        for clip in clips:
            film: list[Frame] = []
            frames = draw_clip(robot, renderer, clip, stride, found.constraints)
            frames = _keeping(frames, film, round(GIF_S * rate) + 1)
            write_video(folder / f"{clip.name}.mp4", frames, rate)
            films.append(film)
    write_gif(folder / f"{together}.gif", side_by_side(films), rate)


def _keeping(frames: Iterable[Frame], kept: list[Frame], most: int) -> Iterator[Frame]:
    """The same; the first ones are kept: all of a long episode take gigabytes."""
    for frame in frames:
        if len(kept) < most:
            kept.append(frame)
        yield frame


def draw_clip(
    robot: MujocoRobot,
    renderer: mujoco.Renderer,
    clip: Clip,
    stride: int,
    constraints: Sequence[AnyConstraint] = (),
) -> Iterator[Frame]:
    """Every `stride`-th state of an episode, with its numbers and the regions of constraints."""
    returns = np.concatenate([[0.0], np.cumsum(clip.rewards)])
    actions = np.concatenate([clip.actions, clip.actions[-1:]])
    camera = camera_of(robot.model)
    for k in put_through(robot, clip.states, stride):
        renderer.update_scene(robot.data, camera)
        draw_regions(renderer.scene, robot.model, robot.data, constraints)
        shares = actions[k] / np.asarray(robot.spec.effort_limits)
        yield decorate(
            renderer.render(),
            clip.title,
            float(returns[k]),
            k * robot.spec.period,
            shares,
            robot.spec.command,
        )


def camera_of(model: mujoco.MjModel) -> str | int:
    """The camera that films a model."""
    known = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, CAMERA) >= 0
    return CAMERA if known else FREE_CAMERA


def renderer_of(model: mujoco.MjModel, size: int = SIZE) -> mujoco.Renderer:
    """Draws a model; one without lights, as from a URDF, is lit from where the camera is."""
    if camera_of(model) == FREE_CAMERA:
        model.vis.global_.azimuth = OBLIQUE
    if not model.nlight:
        model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 0.4, 0.7
    return mujoco.Renderer(model, size, size)


def decorate(
    picture: Frame,
    title: str,
    total: float,
    seconds: float,
    shares: Array,
    command: Command = "effort",
) -> Frame:
    """Add title, return, time and a bar for each command to a picture of the robot.

    Args:
        picture: `(SIZE, SIZE, 3)`.
        title: Upper left.
        total: Return so far.
        seconds: Time since the start of the episode [s].
        shares: Commands `(q,)` in shares of their limits.
        command: What they are.
    """
    image = Image.new("RGB", (SIZE, SIZE + FOOTER), "white")
    image.paste(Image.fromarray(picture), (0, 0))
    draw = ImageDraw.Draw(image)
    large, small = _font("DejaVuSans-Bold", 22), _font("DejaVuSans", 18)
    draw.text((18, 14), title, INK, large)
    draw.text((SIZE - 18, 16), f"return {signed(total)}", INK, small, anchor="ra")
    draw.text((18, SIZE + FOOTER // 2), f"{seconds:.1f} s", GREY, small, anchor="lm")
    _draw_bars(draw, shares)
    draw.text((SIZE - 18, SIZE + FOOTER // 2), command, GREY, small, anchor="rm")
    return np.asarray(image)


def _draw_bars(draw: ImageDraw.ImageDraw, shares: Array) -> None:
    left, right, top, height = 104, SIZE - 96, SIZE + 18, FOOTER - 36
    middle, reach = (left + right) / 2, (right - left) / 2
    pitch = height / len(shares)
    for k, share in enumerate(np.clip(shares, -1.0, 1.0)):
        y0 = top + k * pitch
        y1 = max(y0, y0 + pitch - 1)
        draw.rectangle((left, y0, right, y1), fill="#EEF1F4")
        end = middle + float(share) * reach
        colour = BLUE if share >= 0 else VERMILION
        draw.rectangle((min(middle, end), y0, max(middle, end), y1), fill=colour)
    draw.line((middle, top - 5, middle, top + height + 4), fill=GREY, width=2)
    draw.line((0, SIZE, SIZE, SIZE), fill=PALE)


def side_by_side(films: Sequence[Sequence[Frame]]) -> list[Frame]:
    """Films next to each other; a shorter one stands still at its end."""
    pictures = []
    for k in range(max(len(film) for film in films)):
        picture = np.concatenate([film[min(k, len(film) - 1)] for film in films], axis=1)
        picture[:, SIZE::SIZE] = ImageColor.getrgb(PALE)
        pictures.append(picture)
    return pictures


def write_video(path: Path, film: Iterable[Frame], rate: float) -> None:
    """An MP4 (H.264) that every browser plays."""
    with imageio.v2.get_writer(path, fps=rate, codec="libx264", quality=8) as writer:
        for frame in film:
            writer.append_data(frame)


def write_gif(path: Path, film: Sequence[Frame], rate: float) -> None:
    """A small GIF with one palette for all of its pictures."""
    images = [Image.fromarray(frame) for frame in film]
    size = (round(images[0].width * GIF_HEIGHT / images[0].height), GIF_HEIGHT)
    images = [image.resize(size, Image.Resampling.LANCZOS) for image in images]
    # The palette has to know the colours of the whole film, not just those of its first picture.
    chosen = images[:: max(1, len(images) // 8)]
    sample = Image.new("RGB", (size[0], size[1] * len(chosen)))
    for k, image in enumerate(chosen):
        sample.paste(image, (0, k * size[1]))
    palette = sample.quantize(GIF_COLOURS, method=Image.Quantize.MEDIANCUT)
    frames = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    durations = [round(1000 / rate)] * (len(frames) - 1) + [round(1000 * GIF_HOLD_S)]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations, loop=0)


def _font(name: str, size: int) -> ImageFont.FreeTypeFont:
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(str(folder / f"{name}.ttf"), size)


if __name__ == "__main__":
    clips_file, out, gif, task_name, *rest = sys.argv[1:]
    main(Path(clips_file), Path(out), gif, task_name, Path(rest[0]) if rest else None)
