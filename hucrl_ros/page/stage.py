"""The stage that a robot stands on: floor, light, and from where it is looked at."""

import numpy as np
from viser import ViserServer

from hucrl_ros.page.kinematics import Kinematics
from hucrl_ros.robots.shapes import floor_height

FROM = np.array([0.55, -1.0, 0.42])
"""Direction of the camera from the robot."""
DISTANCE = 2.0
"""Of the camera from the middle of what moves, in sizes of that."""
FIELD = np.deg2rad(40.0)
"""Of view, vertically."""


def set_stage(server: ViserServer, kinematics: Kinematics) -> None:
    """Light, a floor at the height of the model's, and a camera that sees all of the robot."""
    scene, model = server.scene, kinematics.model
    scene.set_up_direction("+z")
    scene.configure_default_lights(enabled=True, cast_shadow=True)
    height = floor_height(model)
    size = float(model.stat.extent)
    cell = 10.0 ** np.floor(np.log10(size)) / 2.0
    scene.add_grid(
        "/floor",
        infinite_grid=True,
        cell_size=cell,
        section_size=5 * cell,
        cell_color=(206, 211, 219),
        section_color=(176, 183, 194),
        fade_distance=14.0 * size,
        shadow_opacity=0.18,
        position=(0.0, 0.0, 0.0 if height is None else height),
    )
    camera = server.initial_camera
    centre, reach = kinematics.reach()
    camera.look_at = centre
    camera.position = centre + DISTANCE * reach * FROM / np.linalg.norm(FROM)
    camera.fov = float(FIELD)
