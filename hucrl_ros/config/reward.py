"""Schema of a reward that a user describes: a Python function, or a sum of given terms."""

import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializeAsAny,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from hucrl_ros.config import plugins
from hucrl_ros.config.robot import Name
from hucrl_ros.config.schema import Settings
from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

Coordinates = tuple[float, float, float]


def _is_function(text: str) -> str:
    if not re.fullmatch(r"|[^:]+\.py:[A-Za-z_]\w*", text):
        raise ValueError(f"{text!r}: expected FILE.py:NAME, e.g. {text or 'mine'}:reward")
    return text


Function = Annotated[str, AfterValidator(_is_function)]
"""`file.py:name`; the file's path is relative to the description."""


def is_place(value: object) -> bool:
    """Whether it is a name, or three finite numbers, of which YAML reads `1e-3` as a text."""
    if isinstance(value, str):
        return True
    try:
        return (
            isinstance(value, (list, tuple))
            and len(value) == 3
            and all(math.isfinite(float(x)) for x in value)
        )
    except (TypeError, ValueError, OverflowError):
        return False


def _place(value: object) -> object:
    if not is_place(value):
        count = f", {len(value)} given" if isinstance(value, (list, tuple)) else ""
        raise ValueError(
            f"{value!r}: expected the name of a site or body, or three numbers [m]{count}"
        )
    return value


Point = Annotated[str | Coordinates, BeforeValidator(_place)]
"""Name of a site, or of a body among the state's entries; or world coordinates [m]."""


class TermSettings(Settings):
    """What all terms have.

    The functions of our terms are in `tasks.terms`. A term of another package derives from this
    class and defines `value`; its module must load without torch, as it is loaded at the robot.
    """

    term: str
    """Its name; `hucrl list rewards` explains them."""
    weight: float = 1.0
    """Factor on the term [reward]."""

    def value(self, robot: Any, state: "Tensor", action: "Tensor") -> "Tensor":  # noqa: ANN401
        """`(...)` of states `(..., p)` and actions `(..., q)`, without the weight.

        `robot` is a `tasks.view.RobotView`, which this room doesn't know.
        """
        raise NotImplementedError(f"reward term {self.term!r} has no value of its own")


class DistanceSettings(TermSettings):
    """Two points."""

    term: Literal["distance"]
    of: str
    """Site or body that has to get somewhere."""
    to: Point
    """Where."""


class NearSettings(TermSettings):
    """Two points, and a length."""

    term: Literal["near"]
    of: str
    to: Point
    length: float = Field(gt=0)
    """Distance at which the term is 1/e [m]."""


class HeightSettings(TermSettings):
    """A point."""

    term: Literal["height"]
    of: str


class UprightSettings(TermSettings):
    """A revolute joint, and a band of the cosine."""

    term: Literal["upright"]
    joint: str
    target: float = 0.0
    """Angle to be at; whole turns don't matter [rad]."""
    cosine: float = Field(0.95, ge=-1, le=1)
    """Least cosine of the angle from the target that is as good as can be [1]."""
    margin: float = Field(0.1, gt=0)
    """How far below it the term is 0.1 [1]."""


class PositionSettings(TermSettings):
    """A joint and where it should be."""

    term: Literal["position"]
    joint: str
    target: float = 0.0
    """[rad or m]"""


class WithinSettings(TermSettings):
    """A joint and the band where it should be."""

    term: Literal["within"]
    joint: str
    low: float
    """[rad or m]"""
    high: float
    """[rad or m]"""
    margin: float = Field(gt=0)
    """How far outside the term is 0.1 [rad or m]."""

    @model_validator(mode="after")
    def _ordered(self) -> "WithinSettings":
        if self.low > self.high:
            raise ValueError(f"low = {self.low:g} exceeds high = {self.high:g}")
        return self


class SlowSettings(TermSettings):
    """A joint and the speed that is as good as rest."""

    term: Literal["slow"]
    joint: str
    band: float = Field(ge=0)
    """[rad/s or m/s]"""
    margin: float = Field(gt=0)
    """How far above it the term is 0.1 [rad/s or m/s]."""


class SpeedSettings(TermSettings):
    """A joint that should move forward."""

    term: Literal["speed"]
    joint: str
    cap: float | None = None
    """Speed beyond which more earns nothing; none: there is none [rad/s or m/s]."""


class VelocitySettings(TermSettings):
    """Joints that should be slow."""

    term: Literal["velocity"]
    joints: tuple[str, ...] = ()
    """Empty: all of the state's."""


class EffortSettings(TermSettings):
    """Unit of the efforts."""

    term: Literal["effort"]
    scale: float = Field(1.0, gt=0)
    """Effort that costs ρ [N m or N]."""


class GentleSettings(TermSettings):
    """Effort that is free."""

    term: Literal["gentle"]
    band: float = Field(ge=0)
    """[N m or N]"""
    margin: float = Field(gt=0)
    """How far above it the tolerance is 0.1 [N m or N]."""


class BoundedEffortSettings(TermSettings):
    """Unit of the efforts."""

    term: Literal["bounded_effort"]
    scale: float = Field(1.0, gt=0)
    """Effort that costs 0.63 ρ [N m or N]."""


class ProductSettings(TermSettings):
    """Terms that count only together."""

    term: Literal["product"]
    factors: "tuple[AnyTerm, ...]" = Field(min_length=2)


def _plugin_or_ours(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    if isinstance(value, TermSettings) and value.term not in OURS:
        return value
    name = value.get("term") if isinstance(value, dict) else None
    if not isinstance(name, str) or name in OURS:
        return handler(value)
    try:
        term = plugins.load("reward_terms", name, OURS, TermSettings)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return term.model_validate(value)


OurTerm = Annotated[
    DistanceSettings
    | NearSettings
    | HeightSettings
    | UprightSettings
    | PositionSettings
    | WithinSettings
    | SlowSettings
    | SpeedSettings
    | VelocitySettings
    | EffortSettings
    | GentleSettings
    | BoundedEffortSettings
    | ProductSettings,
    Field(discriminator="term"),
]
AnyTerm = Annotated[SerializeAsAny[OurTerm], WrapValidator(_plugin_or_ours)]
"""One of ours, or a plug-in."""
OURS = tuple(
    get_args(term.model_fields["term"].annotation)[0] for term in TermSettings.__subclasses__()
)
"""Names of our terms."""
ProductSettings.model_rebuild()


class SuccessSettings(Settings):
    """What counts as success at the end of an episode."""

    of: str
    """Site or body."""
    to: Point
    """Where it should be."""
    within: float = Field(gt=0)
    """Largest distance that counts [m]."""


class RewardSettings(Settings):
    """Either a function or terms."""

    function: Function = ""
    """`(state, action, robot) -> reward`."""
    terms: tuple[AnyTerm, ...] = ()
    """Summed."""
    success: SuccessSettings | None = None
    """Distance at the end of an episode that counts as success: `of`, `to`, `within`."""

    @model_validator(mode="after")
    def _one_of_both(self) -> "RewardSettings":
        if bool(self.function) == bool(self.terms):
            raise ValueError("expected either function: FILE.py:NAME or a list of terms")
        return self


class TaskSettings(Settings):
    """What else makes a task; all of it may be left out."""

    name: Name = ""
    """Empty: the robot's."""
    about: str = ""
    """One line for `hucrl list tasks`."""
    imagined: Function = ""
    """`(count, generator, robot) -> states`, where imagined trajectories start; empty: half as
    episodes do, half with joints anywhere within their limits and moving."""
    optima: dict[float, float] = Field(default_factory=dict)
    """Best achievable return for an action penalty, where it is known."""
