"""What networks see of a robot besides its state's entries: joint stops, and points on it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import torch
from torch import Tensor, nn

from hucrl_ros.config.robot import AXES, RobotSpec, sources
from hucrl_ros.tasks.contact import Contact, links_against, shape_of
from hucrl_ros.tasks.kinematics import ForwardKinematics, site_point

NEAR_STOP = 0.1
"""[rad or m] From this distance on the model sees a joint's stop."""
GRAZED = 0.1
"""Deviation of a ramp in the data, at least: what was only grazed would otherwise make an input of
a hundred deviations where it is imagined to be hit."""
VECTOR_UNIT = 0.3
"""[m] Of the vectors, in the networks' inputs."""


class Stop(NamedTuple):
    """Where a joint stops."""

    joint: int
    """Its place among the joints."""
    lower: float
    """[rad or m]"""
    upper: float
    """[rad or m]"""


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


class Touch(NamedTuple):
    """One link that can push the object."""

    first: int
    """Place of one of its ends among `Geometry.sites`."""
    second: int
    """Place of the other."""
    reach: float
    """Of the link's surface, and of the rounding of the object's, together [m]."""


class Geometry(nn.Module):
    """Vectors, and ramps near stops and contacts, as inputs of networks.

    They spare a network to find out from data what the robot's description says: where its
    points are, which only kinematics tells from joint angles, and whether in the next control
    period a joint is stopped or a link pushes the object, which depends on positions and on
    speeds. The kernel computes the same (`controller.engines.kernel`).
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
        """Nothing is seen unless it is named, but contacts, which are seen where there are any.

        Args:
            spec: Of the robot.
            stops: Joints with limits.
            vectors: From bodies to sites; coordinates that aren't in the state are left out.
            model: Has the sites and the links; None only without vectors and object.
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
        self._named = len(names)
        self.sites = nn.ModuleList()
        """Those of vectors, then further ends of links."""
        self.contact: Contact | None = None
        """Of the links with the object; None where there are none."""
        self.touches: tuple[Touch, ...] = ()
        self.object_entries: tuple[int, ...] = ()
        """Where x, y, z of the object that links push stand in the state."""
        if model is not None:
            self.sites.extend(ForwardKinematics(model, name, spec.joint_names) for name in names)
            self._find_contact(model, spec, names)
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
        return 2 * len(self.stops) + len(self.moving) + len(self.object_entries)

    @property
    def least_deviations(self) -> Tensor:
        """`(modelled_dim,)` deviations that `modelled` is taken to have at least."""
        least = torch.full((self.modelled_dim,), GRAZED)
        least[2 * len(self.stops) :][: len(self.moving)] = 0.0
        return least

    def seen(self, state: Tensor) -> Tensor:
        """The present vectors `(..., seen_dim)` of states `(..., p)`, for policies and critic."""
        return self._vectors(state[..., : self.joints], state, self.components)

    def modelled(self, state: Tensor) -> Tensor:
        """Inputs `(..., modelled_dim)` of the model, of states `(..., p)`.

        All are taken where the joints would be after a control period at their present speeds:
        ramps from 0 at `NEAR_STOP` before each lower, then each upper limit to 1 at it and on
        beyond it; and, with the joints held by their stops, vectors to what moves and the
        contact with the object.
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
        if self.moving or self.contact:
            held = torch.maximum(ahead, self._lower.to(state.dtype))
            held = torch.minimum(held, self._upper.to(state.dtype))
            parts.append(self._vectors(held, state, self.moving))
            if self.contact:
                parts.append(self._touched(self.contact, held, state))
        return torch.cat(parts, dim=-1) if parts else state[..., :0]

    def _vectors(
        self, positions: Tensor, state: Tensor, components: Sequence[Component]
    ) -> Tensor:
        if not components:
            return state[..., :0]
        named = list(self.sites)[: self._named]
        places = torch.cat([site(positions) for site in named], dim=-1)
        rows = torch.tensor([3 * component.site + component.axis for component in components])
        entries = torch.tensor([component.entry for component in components])
        away = places.index_select(-1, rows) - state.index_select(-1, entries)
        return away / VECTOR_UNIT

    def _touched(self, contact: Contact, positions: Tensor, state: Tensor) -> Tensor:
        first, second = (
            torch.stack([self.sites[end](positions) for end in ends], dim=-2)
            for ends in zip(*((touch.first, touch.second) for touch in self.touches), strict=True)
        )
        pushed: Tensor = contact(first, second, state[..., list(self.object_entries)])
        return pushed

    def _find_contact(self, model: mujoco.MjModel, spec: RobotSpec, named: Sequence[str]) -> None:
        """Whichever links can push the object whose coordinates are in the state.

        Sites `named` are located already.
        """
        name = sources(spec).object
        entries = [f"{name}_{axis}" for axis in AXES]
        if not name or not set(entries) <= set(spec.observed):
            return
        body = int(model.body(name).id)
        shape = shape_of(model, body)
        links = links_against(model, body, spec.joint_names) if shape else []
        if shape is None or not links:
            return
        # Ends of links that are sites of vectors aren't located twice.
        places = {site_point(model, site): place for place, site in enumerate(named)}
        for end in (end for link in links for end in (link.first, link.second)):
            if end not in places:
                places[end] = len(self.sites)
                self.sites.append(ForwardKinematics(model, end, spec.joint_names))
        self.touches = tuple(
            Touch(places[link.first], places[link.second], link.radius + shape.rounding)
            for link in links
        )
        self.object_entries = tuple(
            2 * self.joints + spec.observed.index(entry) for entry in entries
        )
        self.contact = Contact(shape, [touch.reach for touch in self.touches])
