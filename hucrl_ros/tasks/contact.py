"""How links of a robot press against an object: an input of the dynamics model."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import torch
from torch import Tensor, nn

from hucrl_ros.controller.engines.program import ROUNDS, TINY
from hucrl_ros.tasks.kinematics import Point, is_moved_by, point_of

NEAR_CONTACT = 0.01
"""[m] From this gap on the model sees a link."""
FLATTEST = 0.1
"""Level part of a push's direction below which the model sees less and less of it."""


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
    level: bool
    """Whether the object moves level with the ground only."""


def shape_of(model: mujoco.MjModel, body: int) -> Shape | None:
    """The shape of a body that hangs on prismatic joints.

    None unless the only part that collides, of it and of what is fixed to it, is a sphere, an
    upright cylinder or an upright capsule about the body's origin.
    """
    fixed = [other for other in range(model.nbody) if model.body_rootid[other] == body]
    geoms = [geom for part in fixed for geom in _colliding(model, part)]
    if len(geoms) != 1 or geoms != _colliding(model, body):
        return None
    if np.abs(model.geom_pos[geoms[0]]).max() > TINY:
        return None
    (geom,) = geoms
    matrix = np.empty(9)
    turned = np.empty(4)
    mujoco.mju_mulQuat(turned, model.body_quat[body], model.geom_quat[geom])
    mujoco.mju_quat2Mat(matrix, turned)
    upright = abs(matrix[8]) > 1.0 - TINY
    radius, half_height = map(float, model.geom_size[geom, :2])
    kind, level = model.geom_type[geom], _is_level(model, body)
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return Shape(0.0, 0.0, radius, level)
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE and upright:
        return Shape(0.0, half_height, radius, level)
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER and upright:
        return Shape(radius, half_height, 0.0, level)
    return None


def _is_level(model: mujoco.MjModel, body: int) -> bool:
    """Whether none of the joints that a body hangs on moves it up or down."""
    axis = np.empty(3)
    first = int(model.body_jntadr[body])
    for joint in range(first, first + int(model.body_jntnum[body])):
        mujoco.mju_rotVecQuat(axis, model.jnt_axis[joint], model.body_quat[body])
        if abs(axis[2]) > TINY:
            return False
    return True


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
        beyond it grows with the depth. What can't be moved up or down gives way sideways, the
        farther the flatter a link lies on its rim: its ramps are of the level way to a link.

        Args:
            first: One end of each link `(..., links, 3)` [m].
            second: The other end.
            place: The object's centre `(..., 3)` [m].

        Returns:
            `(..., 3)` [1].
        """
        # From here on seen from the object's centre.
        start = first - place.unsqueeze(-2)
        line = second - first
        with torch.no_grad():
            share = self._nearest_share(start, line)
        # From its mark on the object once more, for what halvings leave, and for a gradient.
        mark = self._mark(start + share.clamp(0.0, 1.0) * line)
        squared = (line**2).sum(dim=-1, keepdim=True).clamp(min=TINY**2)
        share = ((mark - start) * line).sum(dim=-1, keepdim=True) / squared
        away = -(start + share.clamp(0.0, 1.0) * line)
        flat, up = away[..., :2], away[..., 2:]
        distance = ((flat**2).sum(dim=-1, keepdim=True) + TINY**2).sqrt()
        beside = distance - self.shape.radius
        above = torch.relu(up.abs() - self.shape.half_height)
        outside = torch.relu(beside)
        corner = (outside**2 + above**2 + TINY**2).sqrt()
        level = above <= 0.0
        gap = torch.where(level, beside, corner) - self._reach.to(place.dtype)[:, None]
        slope = torch.where(level, torch.ones_like(up), outside / corner)
        rise = torch.where(level, torch.zeros_like(up), up.sign() * above / corner)
        ramp = torch.relu(1.0 - gap / NEAR_CONTACT)
        sideways = ramp * slope
        if self.shape.level:
            ramp_level = torch.relu(1.0 - gap / (NEAR_CONTACT * slope.clamp(min=FLATTEST)))
            sideways = ramp_level * (slope / FLATTEST).clamp(max=1.0)
        return torch.cat([sideways * flat / distance, ramp * rise], dim=-1).sum(dim=-2)

    def _nearest_share(self, start: Tensor, line: Tensor) -> Tensor:
        """Share `(..., 1)` of the way along each line to its point nearest to the object.

        The distance to what is convex is convex along a line: its slope has one root, which
        halvings enclose before a secant meets it.
        """
        share, half = torch.full_like(line[..., :1], 0.5), 0.5
        for _ in range(ROUNDS):
            half *= 0.5
            share = share - half * self._slope(start + share * line, line).sign()
        before = self._slope(start + (share - half) * line, line)
        after = self._slope(start + (share + half) * line, line)
        rise = after - before
        return share - torch.where(
            rise > 0.0, half * (after + before) / rise, torch.zeros_like(rise)
        )

    def _slope(self, point: Tensor, line: Tensor) -> Tensor:
        """Slope `(..., 1)` of half the squared distance along the line, negative before it.

        Inside the object the distance to its axis counts.
        """
        way = point - self._mark(point)
        inside = (way == 0.0).all(dim=-1, keepdim=True)
        way = torch.where(inside, point * point.new_tensor([1.0, 1.0, 0.0]), way)
        return (way * line).sum(dim=-1, keepdim=True)

    def _mark(self, away: Tensor) -> Tensor:
        """The point nearest to `away` `(..., 3)` of a cylinder as large as the object's."""
        flat, up = away[..., :2], away[..., 2:]
        distance = ((flat**2).sum(dim=-1, keepdim=True) + TINY**2).sqrt()
        half = self.shape.half_height
        inward = (self.shape.radius / distance).clamp(max=1.0)
        return torch.cat([flat * inward, up.clamp(-half, half)], dim=-1)
