"""Where a point of a robot is, as a differentiable function of its joints.

Written here because `pytorch-kinematics` 0.10 exports as 147 operators where 9 suffice, it is
evaluated for every imagined state of a control tick, and it can't read an MJCF by MuJoCo 3.17.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hucrl_ros.robots.extras import joints_of

Array = NDArray[np.float64]
GROUP = 3
"""Revolute joints whose product is one sum of sines: 3 joints have 27 of them, 4 have 81."""
ROUNDING = 1e-12


class Point(NamedTuple):
    """A point that moves with a body of a MuJoCo model."""

    body: int
    place: tuple[float, float, float]
    """In the body's frame, to the nanometre [m]."""


def point_of(body: int, place: Array) -> Point:
    """The point at `place` `(3,)` in a body's frame [m]."""
    x, y, z = np.round(place, 9).tolist()
    return Point(body, (x, y, z))


def site_point(model: mujoco.MjModel, name: str) -> Point:
    """Where a site is."""
    site = model.site(name)
    return point_of(int(site.bodyid[0]), site.pos)


class Joint(NamedTuple):
    """A joint of the chain from the world to the point."""

    column: int
    """Its place in the positions given to `ForwardKinematics`."""
    slides: bool
    """It is prismatic, not revolute."""
    axis: Array
    """`(3,)` in the frame before the joint."""
    zero: float
    """Position in which it does nothing [rad or m]."""
    before: Array
    """`(4, 4)` constant transform from the joint before, or from the world."""

    def transform(self, position: float) -> Array:
        """`before` and the joint's own motion `(4, 4)`."""
        motion = np.eye(4)
        if self.slides:
            motion[:3, 3] = self.axis * (position - self.zero)
        else:
            x, y, z = self.axis
            cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
            angle = position - self.zero
            turned = math.sin(angle) * cross + (1.0 - math.cos(angle)) * cross @ cross
            motion[:3, :3] += turned
        return np.asarray(self.before @ motion)


class ForwardKinematics(nn.Module):
    """World position of a point of a MuJoCo model.

    The product of the transforms of three revolute joints has entries that are sums of sines of
    integer combinations of their angles. So the whole chain is one affine map of the angles, one
    sine, one linear map to the products' entries, and one matrix-vector product a group.
    """

    frequencies: Tensor
    phases: Tensor
    slopes: Tensor
    entries: Tensor
    chain: list[Joint]
    """Joints that move the point, from the world on."""
    tip: Array
    """`(4,)` the point in the last one's frame."""

    def __init__(
        self, model: mujoco.MjModel, point: str | Point, joint_names: Sequence[str]
    ) -> None:
        """Read the chain from a model.

        Args:
            model: From an MJCF or URDF.
            point: A point, or the name of a site.
            joint_names: Order of the positions given to `forward`; joints that don't move the
                point may be among them.

        Raises:
            ValueError: the point hangs at a joint that is not among `joint_names`, or at one
                that is neither revolute nor prismatic.
        """
        super().__init__()
        chain, tip = _read_chain(model, point, list(joint_names))
        while chain and np.allclose(
            chain[-1].transform(0.0) @ tip, chain[-1].transform(1.0) @ tip
        ):
            tip = chain.pop().transform(0.0) @ tip
        self.chain, self.tip = chain, tip
        groups = _grouped(chain) or [[]]
        maps = [
            _group_map(group, len(joint_names), tip if group is groups[-1] else np.eye(4))
            for group in groups
        ]
        # Only x, y, z of the first group's rows are asked for.
        shapes = [(4, 4) if k + 1 < len(groups) else (4,) for k in range(len(groups))]
        shapes[0] = (3, *shapes[0][1:])
        blocks = [
            m.entries[:, : shape[0]].reshape(len(m.entries), -1)
            for m, shape in zip(maps, shapes, strict=True)
        ]
        self._shapes = shapes
        self._slides = any(joint.slides for joint in chain)
        for name, value in (
            ("frequencies", np.concatenate([m.frequencies for m in maps], axis=1)),
            ("phases", np.concatenate([m.phases for m in maps])),
            ("slopes", np.concatenate([m.slopes for m in maps], axis=1)),
            ("entries", _block_diagonal(blocks)),
        ):
            self.register_buffer(name, torch.as_tensor(value), persistent=False)

    @property
    def reach(self) -> tuple[Array, float]:
        """The first joint's place `(3,)`, and how far from it the point gets at most [m].

        Joints may not turn as far; a prismatic one may slide to any place.
        """
        if not self.chain or self._slides:
            return np.zeros(3), math.inf
        links = [joint.before[:3, 3] for joint in self.chain[1:]] + [self.tip[:3]]
        return self.chain[0].before[:3, 3], float(sum(np.linalg.norm(link) for link in links))

    def forward(self, positions: Tensor) -> Tensor:
        """World coordinates `(..., 3)` [m] at joint positions `(..., n)` [rad or m]."""
        dtype = positions.dtype
        terms = torch.sin(positions @ self.frequencies.to(dtype) + self.phases.to(dtype))
        if self._slides:
            terms = terms + positions @ self.slopes.to(dtype)
        entries = terms @ self.entries.to(dtype)
        sizes = [math.prod(shape) for shape in self._shapes]
        parts = torch.split(entries, sizes, dim=-1)
        point = parts[-1]
        for part, shape in zip(parts[-2::-1], self._shapes[-2::-1], strict=True):
            point = (part.reshape(*part.shape[:-1], *shape) * point.unsqueeze(-2)).sum(dim=-1)
        return point


def is_moved_by(model: mujoco.MjModel, body: int, joint_names: Sequence[str]) -> bool:
    """Whether a body moves, and nothing but revolute or prismatic `joint_names` moves it."""
    above = [joint for each in _bodies_to(model, body) for joint in joints_of(model, each)]
    return bool(above) and all(_is_one_of(model, joint, joint_names) for joint in above)


def _bodies_to(model: mujoco.MjModel, body: int) -> list[int]:
    """From the one that hangs on the world to `body`."""
    bodies = [body]
    while model.body_parentid[bodies[0]]:
        bodies.insert(0, int(model.body_parentid[bodies[0]]))
    return bodies


def _is_one_of(model: mujoco.MjModel, joint: int, names: Sequence[str]) -> bool:
    """Whether a joint is a revolute or prismatic one of `names`."""
    kinds = (mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE)
    known = any(model.jnt_type[joint] == kind for kind in kinds)
    return known and model.joint(joint).name in names


class _GroupMap(NamedTuple):
    """A group's transform as `(sin(x · frequencies + phases) + x · slopes) · entries`."""

    frequencies: Array
    """`(n, terms)`"""
    phases: Array
    """`(terms,)`"""
    slopes: Array
    """`(n, terms)`; not zero for prismatic joints only."""
    entries: Array
    """`(terms, 4, 4)`, or `(terms, 4)` for the group that carries the point."""


def _read_chain(
    model: mujoco.MjModel, point: str | Point, names: list[str]
) -> tuple[list[Joint], Array]:
    """Joints from the world to the point, and the point `(4,)` in the last one's frame."""
    if isinstance(point, str):
        what, point = f"site {point!r}", site_point(model, point)
    else:
        what = f"a point of body {model.body(point.body).name!r}"
    chain: list[Joint] = []
    after = np.eye(4)  # from the frame after the last joint to the present one
    for body in _bodies_to(model, point.body):
        if model.body_mocapid[body] >= 0:
            name = model.body(body).name
            raise ValueError(f"{what} hangs on {name!r}, which is put where a goal is: name that")
        after = after @ _placement(model.body_pos[body], model.body_quat[body])
        for index in joints_of(model, body):
            joint = model.joint(index)
            slides = joint.type[0] == mujoco.mjtJoint.mjJNT_SLIDE
            if not _is_one_of(model, index, names):
                raise ValueError(
                    f"{what} hangs at joint {joint.name!r}; expected only revolute and "
                    f"prismatic joints among {', '.join(names)}"
                )
            before = after @ _placement(joint.pos)
            zero = float(model.qpos0[joint.qposadr[0]])
            column = names.index(joint.name)
            chain.append(Joint(column, slides, np.array(joint.axis), zero, before))
            after = _placement(-joint.pos)
    return chain, np.asarray(after @ np.append(point.place, 1.0))


def _placement(position: Array, quaternion: Array | None = None) -> Array:
    """Translation and rotation `(4, 4)`."""
    matrix = np.eye(4)
    matrix[:3, 3] = position
    if quaternion is not None:
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, quaternion)
        matrix[:3, :3] = rotation.reshape(3, 3)
    return matrix


def _grouped(chain: list[Joint]) -> list[list[Joint]]:
    """At most `GROUP` neighbouring revolute joints together, prismatic ones alone."""
    groups: list[list[Joint]] = []
    for joint in chain:
        full = not groups or len(groups[-1]) == GROUP or groups[-1][0].slides
        if full or joint.slides:
            groups.append([])
        groups[-1].append(joint)
    return groups


def _group_map(group: list[Joint], joints: int, last: Array) -> _GroupMap:
    """The group's transform times `last`."""
    if group and group[0].slides:
        (joint,) = group
        at_zero, at_one = (joint.transform(x) @ last for x in (0.0, 1.0))
        slopes = np.zeros((joints, 2))
        slopes[joint.column, 1] = 1.0
        entries = np.stack([at_zero, at_one - at_zero])
        return _GroupMap(np.zeros((joints, 2)), np.array([math.pi / 2, 0.0]), slopes, entries)
    combinations = [
        k for k in itertools.product((0, 1, -1), repeat=len(group)) if next(filter(None, k), 1) > 0
    ]
    pairs = [(k, phase) for k in combinations for phase in (math.pi / 2, 0.0) if phase or any(k)]
    frequencies = np.zeros((joints, len(pairs)))
    for row, joint in enumerate(group):
        frequencies[joint.column] = [k[row] for k, _ in pairs]
    phases = np.array([phase for _, phase in pairs])
    # As many poses as terms: the discrete Fourier transform of the product of transforms.
    thirds = [2.0 * math.pi / 3.0 * i for i in range(3)]
    poses = np.array(list(itertools.product(thirds, repeat=len(group)))).reshape(len(pairs), -1)
    values = np.stack([_product(group, pose) @ last for pose in poses])
    positions = np.zeros((len(poses), joints))
    positions[:, [joint.column for joint in group]] = poses
    terms = np.sin(positions @ frequencies + phases)
    entries = np.linalg.solve(terms, values.reshape(len(poses), -1))
    entries[np.abs(entries) < ROUNDING] = 0.0
    used = entries.any(axis=1)
    return _GroupMap(
        frequencies[:, used],
        phases[used],
        np.zeros((joints, int(used.sum()))),
        entries[used].reshape(-1, *values.shape[1:]),
    )


def _product(group: list[Joint], positions: Array) -> Array:
    matrix = np.eye(4)
    for joint, position in zip(group, positions, strict=True):
        matrix = matrix @ joint.transform(float(position))
    return matrix


def _block_diagonal(blocks: Sequence[Array]) -> Array:
    rows, columns = (sum(block.shape[axis] for block in blocks) for axis in (0, 1))
    whole = np.zeros((rows, columns))
    row = column = 0
    for block in blocks:
        whole[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return whole
