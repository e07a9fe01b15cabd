"""Where constraints let a robot be, and where not, for RViz."""

import math
from collections.abc import Iterable, Sequence

from geometry_msgs.msg import Point, Pose, Quaternion, Vector3
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from hucrl_ros.config.constraints import (
    AnyConstraint,
    BoxSettings,
    CapsuleSettings,
    InsideConstraint,
    OutsideConstraint,
    Region,
    SphereSettings,
)
from hucrl_ros.controller.state_reader import FRAME
from hucrl_ros.robots.regions import ALLOWED, FORBIDDEN

PLANE = (2.0, 2.0, 0.002)
"""[m] Length, width and thickness of what is drawn of a half-space's plane."""


def region_markers(constraints: Iterable[AnyConstraint]) -> MarkerArray:
    """One marker or more for each region that stands still in the world.

    Namespaces: `inside` and `outside`. Regions at a site or body move; what knows the robot's
    model draws those.
    """
    markers: list[Marker] = []
    for limit in constraints:
        if not isinstance(limit, (InsideConstraint, OutsideConstraint)):
            continue
        colour = ALLOWED if isinstance(limit, InsideConstraint) else FORBIDDEN
        for marker in _shapes(limit.region):
            marker.ns, marker.id = limit.kind, len(markers)
            marker.color = ColorRGBA(**dict(zip("rgba", colour, strict=True)))
            marker.header.frame_id = FRAME
            markers.append(marker)
    return MarkerArray(markers=markers)


def _shapes(region: Region) -> list[Marker]:
    """Without colour and name; none of a region that moves."""
    if isinstance(region, CapsuleSettings):
        first, second = region.ends
        if isinstance(first, str) or isinstance(second, str):
            return []
        middle = tuple((a + b) / 2 for a, b in zip(first, second, strict=True))
        way = tuple(b - a for a, b in zip(first, second, strict=True))
        width = 2 * region.radius
        return [
            _marker(Marker.CYLINDER, middle, (width, width, math.hypot(*way)), way),
            *(_marker(Marker.SPHERE, end, (width,) * 3) for end in (first, second)),
        ]
    place = region.center if isinstance(region, BoxSettings | SphereSettings) else region.point
    if isinstance(place, str):
        return []
    if isinstance(region, BoxSettings):
        return [_marker(Marker.CUBE, place, [2 * half for half in region.half_sizes])]
    if isinstance(region, SphereSettings):
        return [_marker(Marker.SPHERE, place, (2 * region.radius,) * 3)]
    return [_marker(Marker.CUBE, place, PLANE, region.normal)]


def _marker(
    kind: int,
    place: Sequence[float],
    sizes: Sequence[float],
    upward: Sequence[float] = (0.0, 0.0, 1.0),
) -> Marker:
    """A shape whose own z axis points `upward`."""
    pose = Pose(position=Point(**_named(place)), orientation=_turned(upward))
    return Marker(type=kind, action=Marker.ADD, pose=pose, scale=Vector3(**_named(sizes)))


def _named(values: Sequence[float]) -> dict[str, float]:
    return dict(zip("xyz", map(float, values), strict=True))


def _turned(upward: Sequence[float]) -> Quaternion:
    """The shortest turn of the z axis to a direction."""
    length = math.hypot(*upward)
    x, y, z = (float(value) / length for value in upward) if length else (0.0, 0.0, 1.0)
    if z < -1.0 + 1e-9:
        return Quaternion(x=1.0, y=0.0, z=0.0, w=0.0)
    half = math.sqrt(2.0 * (1.0 + z))
    return Quaternion(x=-y / half, y=x / half, z=0.0, w=half / 2.0)
