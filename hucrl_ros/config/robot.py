"""Schema of a robot that a user describes in a YAML: its model, joints, limits and starts."""

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from hucrl_ros.config.robot_spec import RobotSpec
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


NAME = re.compile(r"[A-Za-z][\w-]*")
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
    def largest(self) -> float:
        """Absolute value that is hardly exceeded."""
        if self.low is not None and self.high is not None:
            return max(abs(self.low), abs(self.high))
        return abs(self.mean or 0.0) + 2.0 * self.std


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

    name: str = ""
    """Of robot and task; empty: that of the file."""
    model: str
    """MJCF or URDF, its path relative to the description."""
    period: float = Field(gt=0)
    """Control period [s]."""
    steps: int = Field(ge=1)
    """Control periods in an episode [1]."""
    timestep: float | None = Field(None, gt=0)
    """Of the physics; None: the model's [s]."""
    joints: tuple[str, ...] = ()
    """In the order of the state; empty: all revolute and prismatic ones that aren't observed."""
    actuated: tuple[str, ...] = ()
    """In the order of commands; empty: those with a motor, or with an effort limit."""
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
    scales: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """Unit of each other entry in the networks' inputs [the entry's unit]."""
    reach: dict[str, Reach] = Field(default_factory=dict)
    """How far an entry is imagined [its unit]: its largest absolute value, or least and largest
    value; None: any."""
    start: dict[str, Annotated[Draw, BeforeValidator(_number_is_mean)]] = Field(
        default_factory=dict
    )
    """How entries are drawn for an episode; a number alone is the mean."""
    topics: dict[Topic, str] = Field(default_factory=dict)
    """Other names of topics."""

    @field_validator("name")
    @classmethod
    def _usable(cls, name: str) -> str:
        if name and not NAME.fullmatch(name):
            raise ValueError(f"{name!r}: expected letters, digits, _ and -, a letter first")
        return name

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
