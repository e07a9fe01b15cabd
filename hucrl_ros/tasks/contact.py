"""How links of a robot press against an object: an input of the dynamics model."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import torch
from torch import Tensor, nn

from hucrl_ros.controller.nearness import ROUNDS, TINY
from hucrl_ros.tasks.kinematics import Point, is_moved_by, point_of

NEAR_CONTACT = 0.01
"""[m] From this gap on the model sees a link."""


class Capsule(NamedTuple):
    """A link: all that is within a radius of the line between two points."""

    first: Point
    second: Point
    radius: float
    """[m]"""


class Shape(NamedTuple):
    """An upright object: all that is within `rounding` of an upright cylinder."""

    radius: float
    """Of the cylinder [m]; 0 for spheres and capsules."""
    half_height: float
    """Of the cylinder [m]; 0 for a sphere."""
    rounding: float
    """[m]; 0 for cylinders."""


def shape_of(model: mujoco.MjModel, body: int) -> Shape | None:
    """The shape of a body that hangs on prismatic joints.

    None unless the only part that collides, of it and of what is fixed to it, is a sphere, an
    upright cylinder or an upright capsule about the body's origin.
    """
    fixed = [other for other in range(model.nbody) if model.body_rootid[other] == body]
    geoms = [geom for part in fixed for geom in _colliding(model, part)]
    if len(geoms) != 1 or np.abs(model.geom_pos[geoms[0]]).max() > TINY:
        return None
    (geom,) = geoms
    matrix = np.empty(9)
    turned = np.empty(4)
    mujoco.mju_mulQuat(turned, model.body_quat[body], model.geom_quat[geom])
    mujoco.mju_quat2Mat(matrix, turned)
    upright = abs(matrix[8]) > 1.0 - TINY
    radius, half_height = map(float, model.geom_size[geom, :2])
    kind = model.geom_type[geom]
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return Shape(0.0, 0.0, radius)
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE and upright:
        return Shape(0.0, half_height, radius)
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER and upright:
        return Shape(radius, half_height, 0.0)
    return None


def links_against(model: mujoco.MjModel, body: int, joint_names: Sequence[str]) -> list[Capsule]:
    """The capsules and spheres that collide with `body` and that `joint_names` alone move."""
    (geom,) = _colliding(model, body)
    excluded = {frozenset(divmod(int(pair), 2**16)) for pair in model.exclude_signature}
    found = []
    for other in range(model.ngeom):
        owner = int(model.geom_bodyid[other])
        if frozenset((body, owner)) in excluded or not _collide(model, geom, other):
            continue
        if not is_moved_by(model, owner, joint_names):
            continue
        if model.geom_type[other] == mujoco.mjtGeom.mjGEOM_CAPSULE:
            half = float(model.geom_size[other, 1])
        elif model.geom_type[other] == mujoco.mjtGeom.mjGEOM_SPHERE:
            half = 0.0
        else:
            continue
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, model.geom_quat[other])
        way = half * matrix.reshape(3, 3)[:, 2]
        first, second = (point_of(owner, model.geom_pos[other] + side * way) for side in (-1, 1))
        found.append(Capsule(first, second, float(model.geom_size[other, 0])))
    return found


def _colliding(model: mujoco.MjModel, body: int) -> list[int]:
    first = int(model.body_geomadr[body])
    geoms = range(first, first + int(model.body_geomnum[body]))
    return [g for g in geoms if model.geom_contype[g] or model.geom_conaffinity[g]]


def _collide(model: mujoco.MjModel, geom: int, other: int) -> bool:
    one, two = (
        int(model.geom_contype[a]) & int(model.geom_conaffinity[b])
        for a, b in ((geom, other), (other, geom))
    )
    return bool(one or two)


class Contact(nn.Module):
    """Where links press against an object, and how much."""

    _reach: Tensor

    def __init__(self, shape: Shape, reach: Sequence[float]) -> None:
        """Against an object of `shape`; links and its rounding `reach` so far [m]."""
        super().__init__()
        self.shape = shape
        self.register_buffer("_reach", torch.tensor(reach, dtype=torch.float64), persistent=False)

    def forward(self, first: Tensor, second: Tensor, place: Tensor) -> Tensor:
        """Sum over the links of a ramp along the direction in which each would push.

        A ramp is 0 until a link is `NEAR_CONTACT` away from the object, 1 where they touch, and
        beyond it grows with the depth.

        Args:
            first: One end of each link `(..., links, 3)` [m].
            second: The other end.
            place: The object's centre `(..., 3)` [m].

        Returns:
            `(..., 3)` [1].
        """
        place = place.unsqueeze(-2)
        line = second - first
        squared = (line**2).sum(dim=-1, keepdim=True).clamp(min=TINY**2)
        mark = place
        for left in reversed(range(ROUNDS + 1)):
            share = ((mark - first) * line).sum(dim=-1, keepdim=True) / squared
            nearest = first + share.clamp(0.0, 1.0) * line
            if left:
                radius = self.shape.radius if left <= ROUNDS // 2 else 0.0
                mark = place + self._nearest(nearest - place, radius)
        away = place - nearest
        flat, up = away[..., :2], away[..., 2:]
        distance = ((flat**2).sum(dim=-1, keepdim=True) + TINY**2).sqrt()
        beside = distance - self.shape.radius
        above = torch.relu(up.abs() - self.shape.half_height)
        outside = torch.relu(beside)
        corner = (outside**2 + above**2 + TINY**2).sqrt()
        level = above <= 0.0
        gap = torch.where(level, beside, corner) - self._reach.to(place.dtype)[:, None]
        towards = torch.where(
            level,
            torch.cat([flat / distance, torch.zeros_like(up)], dim=-1),
            torch.cat([flat / distance * outside, up.sign() * above], dim=-1) / corner,
        )
        return (torch.relu(1.0 - gap / NEAR_CONTACT) * towards).sum(dim=-2)

    def _nearest(self, away: Tensor, radius: float) -> Tensor:
        """The point nearest to `away` `(..., 3)` of a cylinder as high as the object's."""
        flat, up = away[..., :2], away[..., 2:]
        distance = ((flat**2).sum(dim=-1, keepdim=True) + TINY**2).sqrt()
        half = self.shape.half_height
        inward = (radius / distance).clamp(max=1.0)
        return torch.cat([flat * inward, up.clamp(-half, half)], dim=-1)
