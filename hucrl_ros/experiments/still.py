"""A picture of a robot at a start, with the regions of its constraints, or at its limits.

Drawn in a process of its own, as videos are: `python -m hucrl_ros.experiments.still`.
"""

import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
from PIL import Image

from hucrl_ros.config.constraints import AnyConstraint, PositionConstraint
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.video import camera_of, render_apart, renderer_of
from hucrl_ros.robots import MujocoRobot, describe
from hucrl_ros.robots.regions import FORBIDDEN, draw_regions

SIZE = 480
"""[pixels] Width and height; no model has to allow for more."""
MOST_LIMITED = 2
"""Joints whose limits are drawn: those of an arm would hide it."""
SHADE = 0.3
"""Opacity of the robot at a limit."""


def render_still(picture: Path, description: Path) -> None:
    """Draw the robot of a description into a PNG, which is replaced in one step.

    Raises:
        ConfigError: MuJoCo can't draw here, or the file can't be written.
    """
    try:
        with tempfile.TemporaryDirectory(dir=picture.parent, prefix=".picture-") as folder:
            drawn = Path(folder) / "robot.png"
            problem = render_apart(__spec__.name, [str(description), str(drawn)])
            if problem is not None:
                raise ConfigError(f"{picture}: no picture, as MuJoCo can't draw here ({problem})")
            drawn.replace(picture)
    except OSError as error:
        raise ConfigError(f"{picture}: can't be written: {error.strerror}") from None


def main(description: Path, picture: Path) -> None:
    """Draw the robot of `description` at the first start of seed 0."""
    found = describe(str(description))
    robot = MujocoRobot(found)
    robot.reset(np.random.default_rng(0))
    with renderer_of(robot.model, SIZE) as renderer:
        renderer.update_scene(robot.data, camera_of(robot.model))
        draw_regions(renderer.scene, robot.model, robot.data, found.constraints)
        draw_limits(renderer.scene, robot, found.constraints)
        Image.fromarray(renderer.render()).save(picture)


def draw_limits(
    scene: mujoco.MjvScene, robot: MujocoRobot, constraints: Sequence[AnyConstraint]
) -> None:
    """Add the robot with each limited joint at each of its limits, where there are few."""
    limits = [limit for limit in constraints if isinstance(limit, PositionConstraint)]
    if len({limit.joint for limit in limits}) > MOST_LIMITED:
        return
    state, everything = robot.state, mujoco.MjvOption()
    for limit in limits:
        for end in (limit.low, limit.high):
            if end is None or not math.isfinite(end):
                continue
            there = state.copy()
            there[robot.spec.joint_names.index(limit.joint)] = end
            robot.set_state(there)
            begin = scene.ngeom
            moving = mujoco.mjtCatBit.mjCAT_DYNAMIC
            nothing = mujoco.MjvPerturb()
            mujoco.mjv_addGeoms(robot.model, robot.data, everything, nothing, moving, scene)
            for shape in scene.geoms[begin : scene.ngeom]:
                shape.rgba[:] = (*FORBIDDEN[:3], SHADE)
    robot.set_state(state)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
