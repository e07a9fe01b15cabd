"""Schema of constraints: where a robot must never be, whatever it is taught."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hucrl_ros.config.reward import Coordinates, Function, Point, is_place
from hucrl_ros.config.schema import Settings

MARGIN_OF_RANGE = 0.02
"""Usual margin, as a share of a joint's range."""
MARGIN_OF_LARGEST = 0.05
"""Usual margin, as a share of the largest speed or power."""
MARGIN_IN_SPACE = 0.02
"""Usual margin of a distance [m]."""


def _positive(sizes: Coordinates) -> Coordinates:
    if min(sizes) <= 0:
        raise ValueError(f"{list(sizes)}: expected three positive lengths")
    return sizes


def _direction(normal: Coordinates) -> Coordinates:
    if not any(normal):
        raise ValueError(f"{list(normal)}: expected a direction")
    return normal


class BoxSettings(Settings):
    """A box with edges along the axes of the world."""

    shape: Literal["box"]
    center: Point
    """Its middle."""
    half_sizes: Annotated[Coordinates, AfterValidator(_positive)]
    """Half its length, width and height [m]."""


class SphereSettings(Settings):
    """A sphere."""

    shape: Literal["sphere"]
    center: Point
    """Its middle."""
    radius: float = Field(gt=0)
    """[m]"""


class CapsuleSettings(Settings):
    """All that is near a line between two points: a cylinder with round ends."""

    shape: Literal["capsule"]
    ends: tuple[Point, Point]
    """Of the line."""
    radius: float = Field(gt=0)
    """[m]"""


class HalfSpaceSettings(Settings):
    """One side of a plane."""

    shape: Literal["half_space"]
    point: Point
    """Of the plane."""
    normal: Annotated[Coordinates, AfterValidator(_direction)]
    """Direction from the plane into the half-space, of any length [1]."""


Region = Annotated[
    BoxSettings | SphereSettings | CapsuleSettings | HalfSpaceSettings,
    Field(discriminator="shape"),
]


def _point_or_ends(value: object) -> object:
    line = isinstance(value, (list, tuple)) and len(value) == 2 and all(map(is_place, value))
    if not line and not is_place(value):
        raise ValueError(
            f"{value!r}: expected the name of a site or body, three numbers [m], or two of these"
        )
    return value


Link = Annotated[Point | tuple[Point, Point], BeforeValidator(_point_or_ends)]
"""A point, or the line between two."""


class ConstraintSettings(Settings):
    """What all constraints have."""

    kind: str
    """Which."""
    margin: float | None = Field(None, gt=0)
    """How far inside the limit is far enough, in the limit's unit; None: 2% of a joint's range,
    5% of the largest speed or power, 0.02 m of a distance."""
    about: str = ""
    """What it is for."""

    @property
    def usual_margin(self) -> float | None:
        """Where none is given; None: there is no usual one."""
        return MARGIN_IN_SPACE

    @property
    def subject(self) -> str:
        """What is limited, in words."""
        raise NotImplementedError

    @property
    def limit(self) -> str:
        """To what, in words."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """All of it in words, for reports."""
        words = f"{self.subject} {self.limit}"
        return f"{words} ({self.about})" if self.about else words


class PositionConstraint(ConstraintSettings):
    """A joint stays between two positions."""

    kind: Literal["position"]
    joint: str
    low: float | None = None
    """None: the model's limit, if it has one [rad or m]."""
    high: float | None = None
    """None: the model's limit, if it has one [rad or m]."""

    @model_validator(mode="after")
    def _has_room(self) -> "PositionConstraint":
        if self.low is None or self.high is None:
            return self
        if self.low >= self.high:
            raise ValueError(f"low = {self.low:g} isn't less than high = {self.high:g}")
        if self.margin is not None and 2 * self.margin >= self.high - self.low:
            raise ValueError(
                f"margin = {self.margin:g} leaves no room between low = {self.low:g} and "
                f"high = {self.high:g}"
            )
        return self

    @property
    def usual_margin(self) -> float | None:
        """Of a joint with two limits."""
        if self.low is None or self.high is None:
            return None
        return round(MARGIN_OF_RANGE * (self.high - self.low), 9)

    @property
    def subject(self) -> str:
        """The joint."""
        return f"position of {self.joint}"

    @property
    def limit(self) -> str:
        """The positions."""
        if self.low is None or self.high is None:
            return f"≤ {self.high:g}" if self.low is None else f"≥ {self.low:g}"
        return f"{self.low:g} … {self.high:g}"


class _LargestConstraint(ConstraintSettings):
    joint: str
    largest: float = Field(gt=0)
    """In either direction."""

    @model_validator(mode="after")
    def _has_room(self) -> "_LargestConstraint":
        if self.margin is not None and self.margin >= self.largest:
            raise ValueError(
                f"margin = {self.margin:g} leaves no room below largest = {self.largest:g}"
            )
        return self

    @property
    def usual_margin(self) -> float | None:
        """A share of the largest."""
        return MARGIN_OF_LARGEST * self.largest

    @property
    def subject(self) -> str:
        """The joint."""
        return f"{self.kind} of {self.joint}"

    @property
    def limit(self) -> str:
        """The largest."""
        return f"≤ {self.largest:g}"


class SpeedConstraint(_LargestConstraint):
    """A joint moves no faster than `largest` [rad/s or m/s]."""

    kind: Literal["speed"]


class PowerConstraint(_LargestConstraint):
    """The motor of an actuated joint gives and takes no more power than `largest` [W]."""

    kind: Literal["power"]

    @property
    def limit(self) -> str:
        """The largest power."""
        return f"≤ {self.largest:g} W"


class _RegionConstraint(ConstraintSettings):
    of: Point
    """Site, or body among the state's entries."""
    region: Region
    """`shape: box` with `center` and `half_sizes`; `sphere` with `center` and `radius`; `capsule`
    with two `ends` and `radius`; `half_space` with `point` and `normal`."""
    radius: float = Field(0.0, ge=0)
    """Of a sphere about the point, all of which counts [m]."""

    @property
    def subject(self) -> str:
        """The point."""
        return str(self.of)

    @property
    def limit(self) -> str:
        """The region."""
        return f"{self.kind} {_words(self.region)}"


class InsideConstraint(_RegionConstraint):
    """A point stays inside a region."""

    kind: Literal["inside"]


class OutsideConstraint(_RegionConstraint):
    """A point stays outside a region."""

    kind: Literal["outside"]


class ApartConstraint(ConstraintSettings):
    """Two points, or lines between points, stay apart: the arm and itself."""

    kind: Literal["apart"]
    of: Link
    """A point, or the two ends of a line, e.g. of a link's axis."""
    to: Link
    """Another one."""
    distance: float = Field(gt=0)
    """Least distance of both, radii of links included [m]."""

    @property
    def subject(self) -> str:
        """Both."""
        return f"{_link(self.of)} to {_link(self.to)}"

    @property
    def limit(self) -> str:
        """The distance."""
        return f"≥ {self.distance:g} m"


class FunctionConstraint(ConstraintSettings):
    """Whatever a function tells."""

    kind: Literal["function"]
    function: Annotated[Function, Field(min_length=1)]
    """`(state, action, robot) -> room`: how far the limit is, in any unit, negative beyond it."""
    margin: float = Field(gt=0)
    """How far inside the limit is far enough [the function's unit]."""

    @property
    def subject(self) -> str:
        """The function."""
        return self.function

    @property
    def limit(self) -> str:
        """0."""
        return "≥ 0"


AnyConstraint = Annotated[
    PositionConstraint
    | SpeedConstraint
    | PowerConstraint
    | InsideConstraint
    | OutsideConstraint
    | ApartConstraint
    | FunctionConstraint,
    Field(discriminator="kind"),
]


class ConstraintList(Settings):
    """The section `constraints:`, in order."""

    constraints: tuple[AnyConstraint, ...] = ()


def ends_of(link: Link) -> tuple[Point, Point]:
    """Both ends of a line, or the same point twice."""
    if isinstance(link, str) or len(link) == 3:
        return link, link
    return link


def _link(link: Link) -> str:
    first, second = ends_of(link)
    return str(first) if first == second else f"{first}–{second}"


def _words(region: Region) -> str:
    if isinstance(region, HalfSpaceSettings):
        return f"half-space at {region.point}"
    if isinstance(region, CapsuleSettings):
        return f"capsule of {region.radius:g} m, {_link(region.ends)}"
    if isinstance(region, SphereSettings):
        return f"sphere of {region.radius:g} m at {region.center}"
    sizes = " × ".join(f"{2 * size:g}" for size in region.half_sizes)
    return f"box of {sizes} m at {region.center}"
