"""The geoms of a MuJoCo model as triangles, in the frames of their bodies."""

from collections.abc import Iterator
from typing import NamedTuple

import mujoco
import numpy as np
import trimesh
from numpy.typing import NDArray

Array = NDArray[np.float64]
Triangles = tuple[Array, NDArray[np.int64]]
Geom = mujoco.mjtGeom
HIDDEN_GROUP = 3
"""Geoms of this group and above aren't drawn, as in MuJoCo's own viewer: collision shapes."""
ROUND = 32
"""Sides of a cylinder."""
LEVEL = 0.9
"""Upright part of a plane's normal from which on it is a floor, not a wall."""


class Shape(NamedTuple):
    """A geom."""

    name: str
    """Unique in its model."""
    body: int
    """MuJoCo's number of its body; 0: the world."""
    vertices: Array
    """`(V, 3)` in the body's frame [m]."""
    faces: NDArray[np.int64]
    """`(F, 3)` vertices, counter-clockwise seen from outside."""
    colour: tuple[int, int, int]
    """Red, green, blue, up to 255."""
    opacity: float
    """0 to 1."""


def shapes(model: mujoco.MjModel) -> Iterator[Shape]:
    """All geoms that can be seen, but for planes."""
    for geom in range(model.ngeom):
        rgba = colour_of(model, geom)
        if model.geom_group[geom] >= HIDDEN_GROUP or rgba[3] == 0.0:
            continue
        found = _triangles(model, geom)
        if found is None:
            continue
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, model.geom_quat[geom])
        vertices = found[0] @ rotation.reshape(3, 3).T + model.geom_pos[geom]
        red, green, blue = (round(255 * float(share)) for share in rgba[:3])
        name = f"{geom}_{model.geom(geom).name}".strip("_")
        body = int(model.geom_bodyid[geom])
        yield Shape(name, body, vertices, found[1], (red, green, blue), float(rgba[3]))


def colour_of(model: mujoco.MjModel, geom: int) -> Array:
    """`(4,)` shares of red, green, blue, and opacity: the material's, where it has one."""
    material = model.geom_matid[geom]
    # MuJoCo takes the geom's own colour where that isn't the default one.
    if material >= 0 and np.allclose(model.geom_rgba[geom], (0.5, 0.5, 0.5, 1.0)):
        return np.asarray(model.mat_rgba[material], np.float64)
    return np.asarray(model.geom_rgba[geom], np.float64)


def floor_height(model: mujoco.MjModel) -> float | None:
    """Height of the horizontal plane that the robot stands on [m]; None: there is none."""
    up = np.empty(3)
    for geom in range(model.ngeom):
        mujoco.mju_rotVecQuat(up, np.array([0.0, 0.0, 1.0]), model.geom_quat[geom])
        plane = model.geom_type[geom] == Geom.mjGEOM_PLANE and model.geom_bodyid[geom] == 0
        if plane and up[2] > LEVEL:
            return float(model.geom_pos[geom][2])
    return None


def _triangles(model: mujoco.MjModel, geom: int) -> Triangles | None:
    """Of a geom, in its frame; None: what isn't drawn."""
    kind = Geom(model.geom_type[geom])
    if kind == Geom.mjGEOM_MESH:
        return _mesh(model, int(model.geom_dataid[geom]))
    return triangles(kind, model.geom_size[geom])


def triangles(kind: mujoco.mjtGeom, size: Array) -> Triangles | None:
    """Vertices `(V, 3)` [m] and faces `(F, 3)` of a geom by its `size` `(3,)`, as a model has it.

    None: a plane, which is the floor, or a field of heights or signed distances.
    """
    if kind == Geom.mjGEOM_SPHERE:
        made = trimesh.creation.icosphere(subdivisions=3, radius=size[0])
    elif kind == Geom.mjGEOM_ELLIPSOID:
        made = trimesh.creation.icosphere(subdivisions=3, radius=1.0)
        made.vertices *= size
    elif kind == Geom.mjGEOM_CAPSULE:
        made = trimesh.creation.capsule(height=2 * size[1], radius=size[0], count=[ROUND, ROUND])
    elif kind == Geom.mjGEOM_CYLINDER:
        made = trimesh.creation.cylinder(radius=size[0], height=2 * size[1], sections=ROUND)
    elif kind == Geom.mjGEOM_BOX:
        made = trimesh.creation.box(2 * size)
    else:
        return None
    return np.asarray(made.vertices, np.float64), np.asarray(made.faces, np.int64)


def _mesh(model: mujoco.MjModel, mesh: int) -> Triangles:
    first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
    begin, faces = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
    return (
        np.asarray(model.mesh_vert[first : first + count], np.float64),
        np.asarray(model.mesh_face[begin : begin + faces], np.int64),
    )
