"""The stage that a robot stands on: light, and from where it is looked at."""

import numpy as np
from numpy.typing import NDArray
from viser import ClientHandle, ViserServer

from hucrl_ros.page.kinematics import Kinematics

Array = NDArray[np.float64]
FROM = np.array([0.55, -1.0, 0.42])
"""Direction of the camera from the robot."""
DISTANCE = 1.7
"""Of the camera from the middle of what moves, in sizes of that."""
BESIDE, ABOVE = np.array([0.22, 0.0]), np.array([0.0, 0.8])
"""How far the robot is from the window's middle, beside the panel or above it [sizes]."""
FIELD = np.deg2rad(40.0)
"""Of view, vertically."""
SHEET = 0.7
"""Width of a window over its height, of a phone's, below which the panel lies over its lower part.
In another one it is beside, too."""


def set_stage(server: ViserServer, kinematics: Kinematics) -> None:
    """Light, and a camera that sees all of the robot."""
    server.scene.set_up_direction("+z")
    server.scene.configure_default_lights(enabled=True, cast_shadow=True)
    camera = server.initial_camera
    camera.position, camera.look_at = view(*kinematics.reach(), BESIDE)
    camera.fov = float(FIELD)


def show_narrow(client: ClientHandle, kinematics: Kinematics) -> None:
    """Where a window is narrow, move its camera so that all is in it and beside the panel."""
    if not 0 < client.camera.image_width < client.camera.image_height:
        return  # also in a window of no size
    (centre, reach), aspect = kinematics.reach(), client.camera.aspect
    aside = aspect * (ABOVE if aspect < SHEET else BESIDE + ABOVE)
    top = DISTANCE * np.tan(FIELD / 2)
    aside[1] = min(aside[1], top - aspect / 2)  # higher up it would be out of the window
    client.camera.position, client.camera.look_at = view(centre, reach / aspect, aside)


def view(centre: Array, size: float, aside: Array) -> tuple[Array, Array]:
    """Where the camera stands, and what it looks at.

    Args:
        centre: `(3,)` what is to be seen [m].
        size: Of that [m].
        aside: To the left of the window's middle and above it, in sizes.
    """
    toward = -FROM / np.linalg.norm(FROM)
    right = np.cross(toward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    shift = size * (aside[0] * right - aside[1] * np.cross(right, toward))
    look_at = centre + shift
    return look_at - DISTANCE * size * toward, look_at
