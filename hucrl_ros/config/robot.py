"""Schema of a robot that a user describes in a YAML: its model, joints, limits and starts."""

import math
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hucrl_ros.config.robot_spec import LONGEST_PERIOD, SHORTEST_PERIOD, RobotSpec
from hucrl_ros.config.schema import Settings


def _reach(value: Any) -> Any:  # noqa: ANN401
    pair = value if isinstance(value, (list, tuple)) else (0.0, value)
    try:
        least, largest = (float(x) for x in pair)
    except (TypeError, ValueError):
        least = largest = math.nan
    ordered = -math.inf < least < largest < math.inf and not isinstance(value, bool)
    if not ordered and value is not None:
        raise ValueError(
            f"{value!r}: expected the largest absolute value, [least, largest], or null for any"
        )
    return value


def _usable(name: str) -> str:
    if name and not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise ValueError(f"{name!r}: expected letters, digits, _ and -, a letter first")
    return name


def _ordered(limits: tuple[float, float]) -> tuple[float, float]:
    if limits[0] >= limits[1]:
        raise ValueError(f"{list(limits)}: expected [lower, upper]")
    return limits


Name = Annotated[str, AfterValidator(_usable)]
Limits = Annotated[tuple[float, float], AfterValidator(_ordered)]
Reach = Annotated[float | tuple[float, float] | None, BeforeValidator(_reach)]
Topic = Literal["joint_states", "commands", "goal", "object_pose"]


class Draw(Settings):
    """Distribution of one entry of the state at the start of an episode."""

    mean: float | None = None
    """None: as the model has it [the entry's unit]."""
    std: float = Field(0.0, ge=0)
    """Of a normal distribution [the entry's unit]."""
    low: float | None = None
    """With `high`: of a uniform distribution [the entry's unit]."""
    high: float | None = None
    """With `low`: of a uniform distribution [the entry's unit]."""
    origin: float = 0.0
    """Added to what is drawn [the entry's unit]."""

    @model_validator(mode="after")
    def _one_kind(self) -> "Draw":
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high belong together")
        if self.low is not None and self.high is not None:
            if self.mean is not None or self.std:
                raise ValueError("expected mean and std, or low and high, not both")
            if self.low > self.high:
                raise ValueError(f"low = {self.low:g} exceeds high = {self.high:g}")
        return self

    @property
    def is_uniform(self) -> bool:
        """Drawn is `origin + first + spread` times a uniform, else a normal random number."""
        return self.low is not None

    @property
    def first(self) -> float:
        """The least value of a uniform distribution, the mean of a normal one."""
        return self.low if self.low is not None else self.mean or 0.0

    @property
    def spread(self) -> float:
        """The width of a uniform distribution, the deviation of a normal one."""
        return self.std if self.low is None or self.high is None else self.high - self.low

    @property
    def largest(self) -> float:
        """Absolute value that is hardly exceeded."""
        first = self.origin + self.first
        if self.is_uniform:
            return max(abs(first), abs(first + self.spread))
        return abs(first) + 2.0 * self.std


def _number_is_mean(value: Any) -> Any:  # noqa: ANN401
    return {"mean": value} if isinstance(value, (int, float)) else value


class SiteSettings(Settings):
    """A point that is added to the model; a URDF has none."""

    body: str
    """It moves with this body."""
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """In the body's frame [m]."""


class RobotSettings(Settings):
    """The section `robot:`. What is left out is derived from the model (`envs.resolve`)."""

    name: Name = ""
    """Of the robot, and of the task unless that has another; empty: that of the file."""
    about: str = ""
    """One line for `hucrl list robots`."""
    model: str
    """MJCF or URDF, its path relative to the description."""
    period: float = Field(ge=SHORTEST_PERIOD, le=LONGEST_PERIOD)
    """Control period [s]."""
    steps: int = Field(ge=1)
    """Control periods in an episode [1]."""
    timestep: float | None = Field(None, gt=0)
    """Of the physics; None: the model's [s]."""
    joints: tuple[str, ...] = ()
    """In the order of the state; empty: all revolute and prismatic ones that aren't observed."""
    actuated: tuple[str, ...] = ()
    """In the order of commands; empty: those with a motor, or with an effort limit."""
    limits: dict[str, Limits] = Field(default_factory=dict)
    """Of joints, where learning should know others than the model's [rad or m]."""
    effort_limits: tuple[Annotated[float, Field(gt=0)], ...] = ()
    """Of each actuated joint; empty: the model's [N m or N]."""
    observed: tuple[str, ...] = ()
    """Entries that move and that no joint state tells, e.g. `puck_x`."""
    context: tuple[str, ...] = ()
    """Entries that stay for an episode, e.g. `goal_x`."""
    sites: dict[str, SiteSettings] = Field(default_factory=dict)
    """Points to add to the model."""
    angles: tuple[str, ...] | None = None
    """Joints that networks see as cosine and sine; None: revolute ones."""
    stops: tuple[str, ...] | None = None
    """Joints whose stops networks see; None: all of `angles` that have limits."""
    vectors: dict[str, tuple[str, ...]] | None = None
    """By body in the state, the sites whose way from it networks see; None: the points of
    `reward.success`."""
    scales: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """Unit of each other entry in the networks' inputs [the entry's unit]."""
    reach: dict[str, Reach] = Field(default_factory=dict)
    """How far an entry is imagined [its unit]: its largest absolute value, or least and largest
    value; None: any."""
    start: dict[str, Annotated[Draw, BeforeValidator(_number_is_mean)]] = Field(
        default_factory=dict
    )
    """How entries are drawn for an episode; a number alone is the mean."""
    draw_fixed: bool = True
    """Draw a number also for entries that don't vary; it decides what start a seed gives."""
    topics: dict[Topic, str] = Field(default_factory=dict)
    """Other names of topics."""

    @property
    def spec(self) -> RobotSpec:
        """What a controller must know; complete once nothing is left to derive."""
        return RobotSpec(
            name=self.name,
            joint_names=self.joints,
            actuated_joints=self.actuated,
            effort_limits=self.effort_limits,
            period=self.period,
            observed=self.observed,
            context=self.context,
        )

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the state's entries `(p,)`."""
        speeds = tuple(f"{joint}_velocity" for joint in self.joints)
        return (*self.joints, *speeds, *self.observed, *self.context)
