"""How far a robot is from each of its constraints: signed distances, in torch."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hucrl_ros.config.constraints import (
    AnyConstraint,
    ApartConstraint,
    BoxSettings,
    CapsuleSettings,
    FunctionConstraint,
    HalfSpaceSettings,
    InsideConstraint,
    OutsideConstraint,
    PositionConstraint,
    PowerConstraint,
    Region,
    SpeedConstraint,
    SphereSettings,
    ends_of,
)
from hucrl_ros.config.reward import Point
from hucrl_ros.config.task_file import CONSTRAINTS, Description
from hucrl_ros.errors import ConfigError
from hucrl_ros.tasks.view import RobotView, explain, in_type_of, left_alone, load_function

Room = Callable[[Any, RobotView, Tensor, Tensor], Tensor]
"""Settings, robot, states `(..., p)`, actions `(..., q)` → `(...)` in the constraint's unit."""
TINY = 1e-9
"""Square of a length that counts as none [m²]."""
ROUNDING = 1e-3
"""Room that may be missing at the start of an episode [margins]."""


def position(limit: PositionConstraint, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """The less of q − low and high − q [rad or m]."""
    place = robot.position(state, limit.joint)
    rooms = [place - limit.low] if limit.low is not None else []
    rooms += [limit.high - place] if limit.high is not None else []
    return rooms[0] if len(rooms) == 1 else torch.minimum(*rooms)


def speed(limit: SpeedConstraint, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """Largest − |q̇| [rad/s or m/s]."""
    return limit.largest - robot.velocity(state, limit.joint).abs()


def power(limit: PowerConstraint, robot: RobotView, state: Tensor, action: Tensor) -> Tensor:
    """Largest − |g u q̇|, where g is the motor's gear [W]."""
    effort, velocity = robot.effort(action, limit.joint), robot.velocity(state, limit.joint)
    return limit.largest - abs(robot.gear(limit.joint)) * (effort * velocity).abs()


def inside(limit: InsideConstraint, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """How deep the point is in the region, less its radius [m]."""
    return -signed_distance(limit.region, robot, state, limit.of) - limit.radius


def outside(limit: OutsideConstraint, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """How far the point is from the region, less its radius [m]."""
    return signed_distance(limit.region, robot, state, limit.of) - limit.radius


def apart(limit: ApartConstraint, robot: RobotView, state: Tensor, _: Tensor) -> Tensor:
    """Distance of two points or lines, less what it has to be [m]."""
    ends = [robot.point(state, end) for link in (limit.of, limit.to) for end in ends_of(link)]
    return _length(_between(*ends)) - limit.distance


ROOMS: dict[str, Room] = {
    "position": position,
    "speed": speed,
    "power": power,
    "inside": inside,
    "outside": outside,
    "apart": apart,
}


def signed_distance(region: Region, robot: RobotView, state: Tensor, of: Any) -> Tensor:  # noqa: ANN401
    """`(...)` of a point from a region's surface, negative inside [m]."""
    point = robot.point(state, of)
    if isinstance(region, SphereSettings):
        return _length(point - robot.point(state, region.center)) - region.radius
    if isinstance(region, CapsuleSettings):
        first, second = (robot.point(state, end) for end in region.ends)
        return _length(_between(point, point, first, second)) - region.radius
    if isinstance(region, HalfSpaceSettings):
        normal = torch.tensor(region.normal, dtype=state.dtype)
        way = point - robot.point(state, region.point)
        return -(way * (normal / math.hypot(*region.normal))).sum(dim=-1)
    assert isinstance(region, BoxSettings)
    sizes = torch.tensor(region.half_sizes, dtype=state.dtype)
    beyond = (point - robot.point(state, region.center)).abs() - sizes
    return _length(beyond.clamp(min=0.0)) + beyond.amax(dim=-1).clamp(max=0.0)


def _length(way: Tensor) -> Tensor:
    """Of vectors `(..., 3)`; where one is zero, so is its gradient."""
    length: Tensor = torch.linalg.vector_norm(way, dim=-1)
    return length


def _between(first: Tensor, end: Tensor, other: Tensor, other_end: Tensor) -> Tensor:
    """Shortest way `(..., 3)` from the line `other` to the line `first` (Ericson, 2004, 5.1.9).

    Where on the lines it begins and ends has no gradient: to first order, the length doesn't
    change with it.
    """
    along, across, apart = (end - first, other_end - other, first - other)
    one, two, both, one_off, two_off = (
        (x * y).sum(dim=-1).detach()
        for x, y in (
            (along, along),
            (across, across),
            (along, across),
            (along, apart),
            (across, apart),
        )
    )
    one, two = one.clamp(min=TINY), two.clamp(min=TINY)
    # Of lines that are parallel any point of the first will do to begin with.
    spread = (one * two - both * both).clamp(min=TINY * TINY)
    share = ((both * two_off - one_off * two) / spread).clamp(0.0, 1.0)
    other_share = ((both * share + two_off) / two).clamp(0.0, 1.0)
    share = ((both * other_share - one_off) / one).clamp(0.0, 1.0)
    return apart + share.unsqueeze(-1) * along - other_share.unsqueeze(-1) * across


class Constraints:
    """All constraints of a description, in order."""

    def __init__(self, described: Description, view: RobotView) -> None:
        """Load the functions that are named.

        Raises:
            ConfigError: one isn't there.
        """
        self._described, self._view = described, view
        self._limits = described.constraints
        self._functions = {
            limit.function: load_function(
                described.file_of(limit.function), limit.function.rpartition(":")[2]
            )
            for limit in self._limits
            if isinstance(limit, FunctionConstraint)
        }

    def room(self, state: Tensor, action: Tensor) -> Tensor:
        """`(..., K)` of states `(..., p)` and actions `(..., q)` [margins]."""
        if not self._limits:
            return state.new_zeros((*state.shape[:-1], 0))
        rooms = [self._room(limit, state, action) / _margin(limit) for limit in self._limits]
        return torch.stack(rooms, dim=-1)

    @property
    def functions(self) -> list[tuple[Path, Callable[[Tensor, Tensor], Tensor]]]:
        """The rooms `(...)` that users' files compute of states and actions, in their units."""
        return [
            (self._described.file_of(limit.function), partial(self._room, limit))
            for limit in self._limits
            if isinstance(limit, FunctionConstraint)
        ]

    def check(self, states: Tensor, actions: Tensor, starts: Tensor) -> None:
        """Try all of them.

        Args:
            states: `(n, p)`.
            actions: `(n, q)`.
            starts: `(m, p)` where episodes start.

        Raises:
            ConfigError: one names what the robot doesn't have, is no finite number for each
                state, or doesn't hold where episodes start.
        """
        for number, limit in enumerate(self._limits):
            origin = f"{self._described.path}: {CONSTRAINTS}.{number} ({limit.kind})"
            room = self._tried(limit, origin, states, actions)
            pair = (states[None], actions[None])  # Searches have steps and particles.
            if room.shape != states.shape[:1] or self._room(limit, *pair).shape != (
                1,
                *room.shape,
            ):
                raise ConfigError(
                    f"{origin}: the room of {len(states)} states is {tuple(room.shape)}; expected "
                    "one number for each"
                )
            if not room.isfinite().all():
                raise ConfigError(f"{origin}: the room is {room[~room.isfinite()][0]:g}")
            self._check_starts(limit, origin, starts, actions)

    def rooms_at(self, of: str, place: Point, states: Tensor) -> Iterator[tuple[str, Tensor]]:
        """What regions would leave `(n,)` [m] if `of` were at `place`, by the constraints' names.

        Args:
            of: Point that is to be kept inside or outside of regions.
            place: Another one, or three numbers [m].
            states: `(n, p)`.
        """
        for limit in self._limits:
            if isinstance(limit, (InsideConstraint, OutsideConstraint)) and limit.of == of:
                away = signed_distance(limit.region, self._view, states, place)
                sign = -1.0 if isinstance(limit, InsideConstraint) else 1.0
                yield limit.name, sign * away - limit.radius

    def _check_starts(
        self, limit: AnyConstraint, origin: str, starts: Tensor, actions: Tensor
    ) -> None:
        room = self._room(limit, starts, actions.new_zeros(len(starts), actions.shape[-1]))
        beyond = int((room < -ROUNDING * _margin(limit)).sum())
        if beyond:
            raise ConfigError(
                f"{origin}: {limit.name}: episodes start {-float(room.min()):.4g} beyond the "
                f"limit, {beyond} of {len(starts)} starts tried; narrow robot.start, or widen "
                "the limit"
            )

    def _room(self, limit: AnyConstraint, state: Tensor, action: Tensor) -> Tensor:
        """`(...)` in the constraint's unit."""
        if isinstance(limit, FunctionConstraint):
            found = self._functions[limit.function](state, action, self._view)
            room: Tensor = in_type_of(state, found)
            return room
        return ROOMS[limit.kind](limit, self._view, state, action)

    def _tried(self, limit: AnyConstraint, origin: str, states: Tensor, actions: Tensor) -> Tensor:
        try:
            with left_alone("the room", states, actions):
                room: object = self._room(limit, states, actions)
        except ConfigError as error:
            raise ConfigError(f"{origin}: {error}") from None
        except Exception as error:
            if not isinstance(limit, FunctionConstraint):
                raise
            file = self._described.file_of(limit.function)
            raise ConfigError(explain(file, error)) from None
        if not isinstance(room, Tensor) or not room.is_floating_point():
            kind = room.dtype if isinstance(room, Tensor) else type(room).__name__
            raise ConfigError(f"{origin}: the room is a {kind}, not a torch.Tensor of floats")
        return room


def _margin(limit: AnyConstraint) -> float:
    assert limit.margin is not None  # Nothing is left to derive.
    return limit.margin
