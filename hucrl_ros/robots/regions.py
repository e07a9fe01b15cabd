"""Regions of constraints, drawn into MuJoCo's pictures of a robot."""

import math
from collections.abc import Iterable

import mujoco
import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.constraints import (
    AnyConstraint,
    BoxSettings,
    CapsuleSettings,
    HalfSpaceSettings,
    InsideConstraint,
    OutsideConstraint,
    Region,
)
from hucrl_ros.config.reward import Point

Array = NDArray[np.float64]
ALLOWED, FORBIDDEN = (0.34, 0.71, 0.91, 0.12), (0.84, 0.37, 0.0, 0.35)
"""Red, green, blue and opacity of regions to stay inside or outside of: two of Okabe and Ito's
colours, which colour-blind people tell apart; in videos, on the page and in RViz."""
HALF_PLANE = 1.0
"""[m] Half the side of the square that is drawn of a plane."""
THICKNESS = 1e-3
"""[m] Half of that square's."""


def draw_regions(
    scene: mujoco.MjvScene,
    model: mujoco.MjModel,
    data: mujoco.MjData,
    constraints: Iterable[AnyConstraint],
) -> None:
    """Add what constraints say of places to a scene; `data` holds where sites and bodies are."""
    for limit in constraints:
        if not isinstance(limit, (InsideConstraint, OutsideConstraint)):
            continue
        if scene.ngeom >= scene.maxgeom:
            return
        colour = ALLOWED if isinstance(limit, InsideConstraint) else FORBIDDEN
        _draw(scene.geoms[scene.ngeom], model, data, limit.region, np.array(colour, np.float32))
        scene.ngeom += 1


def _draw(
    shape: mujoco.MjvGeom,
    model: mujoco.MjModel,
    data: mujoco.MjData,
    region: Region,
    colour: NDArray[np.float32],
) -> None:
    kind: mujoco.mjtGeom = mujoco.mjtGeom.mjGEOM_BOX
    size: Array = np.zeros(3)
    turn: Array = np.eye(3)
    middle: Array = np.zeros(3)
    if isinstance(region, BoxSettings):
        size, middle = np.array(region.half_sizes), _place(model, data, region.center)
    elif isinstance(region, HalfSpaceSettings):
        size = np.array([HALF_PLANE, HALF_PLANE, THICKNESS])
        middle, turn = _place(model, data, region.point), _turned(region.normal)
    elif isinstance(region, CapsuleSettings):
        kind = mujoco.mjtGeom.mjGEOM_CAPSULE
    else:
        kind = mujoco.mjtGeom.mjGEOM_SPHERE
        size, middle = np.full(3, region.radius), _place(model, data, region.center)
    mujoco.mjv_initGeom(shape, kind, size, middle, turn.ravel(), colour)
    if isinstance(region, CapsuleSettings):
        first, second = (_place(model, data, end) for end in region.ends)
        mujoco.mjv_connector(shape, kind, region.radius, first, second)


def _place(model: mujoco.MjModel, data: mujoco.MjData, point: Point) -> Array:
    """World coordinates `(3,)` [m] of a site or body, or the point itself."""
    if not isinstance(point, str):
        return np.array(point)
    site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, point)
    found = data.body(point).xpos if site < 0 else data.site_xpos[site]
    return np.array(found)


def _turned(normal: Iterable[float]) -> Array:
    """A rotation `(3, 3)` whose third column points along `normal`."""
    quaternion, matrix = np.empty(4), np.empty(9)
    way = np.array(list(normal))
    mujoco.mju_quatZ2Vec(quaternion, way / math.sqrt(float(way @ way)))
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)
