"""What networks see of a robot besides its state's entries: joint stops, and points on it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import torch
from torch import Tensor, nn

from hucrl_ros.robot import AXES, RobotSpec
from hucrl_ros.tasks.kinematics import ForwardKinematics

NEAR_STOP = 0.1
"""[rad] From this distance on the model sees a joint's stop."""
GRAZED = 0.1
"""Deviation of a ramp in the data, at least: a stop that was only grazed would otherwise make an
input of a hundred deviations where it is imagined to be hit."""
VECTOR_UNIT = 0.3
"""[m] Of the vectors, in the networks' inputs."""


class Stop(NamedTuple):
    """Where a revolute joint stops."""

    joint: int
    """Its place among the joints."""
    lower: float
    """[rad]"""
    upper: float
    """[rad]"""


class Vector(NamedTuple):
    """From a body whose coordinates are in the state to a site of the robot."""

    site: str
    body: str


class Component(NamedTuple):
    """One coordinate of a vector."""

    site: int
    """Its place among `Geometry.sites`."""
    axis: int
    """0 to 2: x, y, z."""
    entry: int
    """Where the body's coordinate stands in the state."""


class Geometry(nn.Module):
    """Vectors and ramps near stops, as inputs of networks.

    Both spare a network to find out from data what the robot's description says: where its
    points are, which only kinematics tells from joint angles, and whether a joint is stopped in
    the next control period, which depends on its position and its speed. The kernel computes the
    same (`runtime.kernel`).
    """

    _lower: Tensor
    _upper: Tensor

    def __init__(
        self,
        spec: RobotSpec,
        stops: Sequence[Stop] = (),
        vectors: Sequence[Vector] = (),
        model: mujoco.MjModel | None = None,
    ) -> None:
        """Nothing is seen unless it is named.

        Args:
            spec: Of the robot.
            stops: Revolute joints with limits.
            vectors: From bodies to sites; coordinates that aren't in the state are left out.
            model: Has the sites; None only without vectors.
        """
        super().__init__()
        self.joints = len(spec.joint_names)
        self.period = spec.period
        self.stops = tuple(stops)
        further = (*spec.observed, *spec.context)
        self.vectors = tuple(
            vector for vector in vectors if any(f"{vector.body}_{x}" in further for x in AXES)
        )
        names = list(dict.fromkeys(vector.site for vector in self.vectors))
        self.sites = nn.ModuleList()
        if model is not None:
            self.sites.extend(ForwardKinematics(model, name, spec.joint_names) for name in names)
        self.components = tuple(
            Component(names.index(vector.site), axis, 2 * self.joints + further.index(entry))
            for vector in self.vectors
            for axis, letter in enumerate(AXES)
            if (entry := f"{vector.body}_{letter}") in further
        )
        self.moving = tuple(c for c in self.components if c.entry < spec.predicted_dim)
        """Those of bodies that the model predicts."""
        limits = torch.tensor([[-math.inf] * self.joints, [math.inf] * self.joints])
        for joint, lower, upper in self.stops:
            limits[:, joint] = torch.tensor((lower, upper))
        self.register_buffer("_lower", limits[0], persistent=False)
        self.register_buffer("_upper", limits[1], persistent=False)

    @property
    def seen_dim(self) -> int:
        """Length of `seen`."""
        return len(self.components)

    @property
    def modelled_dim(self) -> int:
        """Length of `modelled`."""
        return 2 * len(self.stops) + len(self.moving)

    @property
    def least_deviations(self) -> Tensor:
        """`(modelled_dim,)` deviations that `modelled` is taken to have at least."""
        least = torch.zeros(self.modelled_dim)
        least[: 2 * len(self.stops)] = GRAZED
        return least

    def seen(self, state: Tensor) -> Tensor:
        """The present vectors `(..., seen_dim)` of states `(..., p)`, for policies and critic."""
        return self._vectors(state[..., : self.joints], state, self.components)

    def modelled(self, state: Tensor) -> Tensor:
        """Inputs `(..., modelled_dim)` of the model, of states `(..., p)`.

        Both kinds are taken where the joints would be after a control period at their present
        speeds: ramps from 0 at `NEAR_STOP` before each lower, then each upper limit to 1 at it
        and on beyond it, and vectors to what moves, with the joints held by their stops.
        """
        velocities = state[..., self.joints : 2 * self.joints]
        ahead = state[..., : self.joints] + self.period * velocities
        parts = []
        if self.stops:
            stopped = torch.tensor([stop.joint for stop in self.stops])
            place = ahead.index_select(-1, stopped)
            lower = self._lower.index_select(0, stopped).to(state.dtype)
            upper = self._upper.index_select(0, stopped).to(state.dtype)
            parts.append(torch.relu(1.0 - (place - lower) / NEAR_STOP))
            parts.append(torch.relu(1.0 - (upper - place) / NEAR_STOP))
        if self.moving:
            held = torch.maximum(ahead, self._lower.to(state.dtype))
            held = torch.minimum(held, self._upper.to(state.dtype))
            parts.append(self._vectors(held, state, self.moving))
        return torch.cat(parts, dim=-1) if parts else state[..., :0]

    def _vectors(
        self, positions: Tensor, state: Tensor, components: Sequence[Component]
    ) -> Tensor:
        if not components:
            return state[..., :0]
        places = torch.cat([site(positions) for site in self.sites], dim=-1)
        rows = torch.tensor([3 * component.site + component.axis for component in components])
        entries = torch.tensor([component.entry for component in components])
        away = places.index_select(-1, rows) - state.index_select(-1, entries)
        return away / VECTOR_UNIT
