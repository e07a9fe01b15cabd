"""Draws into a scene of viser where constraints let a robot be, and where not."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray
from viser import MeshHandle, SceneApi

from hucrl_ros.config.constraints import (
    AnyConstraint,
    InsideConstraint,
    OutsideConstraint,
)
from hucrl_ros.page.look import colour_of
from hucrl_ros.robots.regions import draw_regions
from hucrl_ros.robots.shapes import triangles

Array = NDArray[np.float64]


class Fences:
    """The regions of a robot's constraints; they move with the sites and bodies they are of."""

    def __init__(
        self,
        scene: SceneApi,
        root: str,
        constraints: Sequence[AnyConstraint],
        model: mujoco.MjModel,
        data: mujoco.MjData,
    ) -> None:
        """Draw them below the node `root`, where `data` has sites and bodies."""
        kinds = (InsideConstraint, OutsideConstraint)
        self._limits = [limit for limit in constraints if isinstance(limit, kinds)]
        self._model = model
        self._measured = mujoco.MjvScene(model, maxgeom=max(len(self._limits), 1))
        self._drawn: list[tuple[MeshHandle, _Measures]] = []
        for row, geom in enumerate(self._geoms(data)):
            mesh = scene.add_mesh_simple(
                f"{root}/fences/{row}",
                *_triangles(geom),
                color=colour_of(geom.rgba),
                opacity=float(geom.rgba[3]),
                side="double",
                cast_shadow=False,
                receive_shadow=False,
                position=geom.pos,
                wxyz=_turn(geom),
            )
            self._drawn.append((mesh, _Measures.of(geom)))

    def follow(self, data: mujoco.MjData) -> None:
        """Move those that have moved to where `data` has sites and bodies now."""
        for row, geom in enumerate(self._geoms(data) if self._limits else ()):
            (mesh, drawn), now = self._drawn[row], _Measures.of(geom)
            if now == drawn:
                continue
            self._drawn[row] = (mesh, now)
            mesh.position, mesh.wxyz = geom.pos, _turn(geom)
            if now.size != drawn.size:  # a capsule between two points
                vertices, faces = _triangles(geom)
                mesh.vertices = vertices.astype(np.float32)
                mesh.faces = faces.astype(np.uint32)

    def _geoms(self, data: mujoco.MjData) -> list[mujoco.MjvGeom]:
        self._measured.ngeom = 0
        draw_regions(self._measured, self._model, data, self._limits)
        return list(self._measured.geoms[: self._measured.ngeom])


class _Measures(NamedTuple):
    """What of a region may change; rounded, so that no picture is sent for nothing."""

    size: tuple[float, ...]
    place: tuple[float, ...]
    turn: tuple[float, ...]

    @classmethod
    def of(cls, geom: mujoco.MjvGeom) -> "_Measures":
        parts = (geom.size, geom.pos, geom.mat.ravel())
        return cls(*(tuple(np.round(part, 4).tolist()) for part in parts))


def _triangles(geom: mujoco.MjvGeom) -> tuple[Array, NDArray[np.int64]]:
    kind, size = mujoco.mjtGeom(geom.type), np.array(geom.size, np.float64)
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        size = size[[0, 2, 1]]  # a scene's has its length in the third place, a model's second
    found = triangles(kind, size)
    assert found is not None
    return found


def _turn(geom: mujoco.MjvGeom) -> Array:
    """`(4,)` quaternion, w first."""
    turn = np.empty(4)
    mujoco.mju_mat2Quat(turn, np.array(geom.mat, np.float64).ravel())
    return turn
