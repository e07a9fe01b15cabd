"""What a controller must know of a robot, and the schema of the robot that a YAML describes."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hucrl_ros.config.schema import Limit, Settings, Steps
from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Command = Literal["effort", "velocity", "position"]
UNITS: dict[Command, str] = {
    "effort": "N m or N",
    "velocity": "rad/s or m/s",
    "position": "rad or m",
}
"""Of commands and of their limits."""


def plural(command: Command) -> str:
    """What a message calls several of them."""
    return {"velocity": "velocities"}.get(command, f"{command}s")


def limited(command: Command) -> str:
    """What a robot's limits of commands are of: how far a position may lead the measured one."""
    return "changes of position" if command == "position" else plural(command)


SHORTEST_PERIOD, LONGEST_PERIOD = 1e-4, 10.0
"""[s] Control periods: timers can't keep up below, and above a silence isn't noticed in time."""


@dataclass(frozen=True)
class RobotSpec:
    """Joints, limits and control period.

    The state is `(positions..., velocities..., observed..., context...)`: positions and
    velocities of `joint_names` in that order, then what no joint state tells. The model predicts
    all but the context, which stays as it is. An action holds one number for each of
    `actuated_joints`: an effort, a velocity, or the way from where the joint is to where it shall
    go. An absolute position would make what an action does depend on where the robot has been.
    """

    name: str
    joint_names: tuple[str, ...]
    actuated_joints: tuple[str, ...]
    effort_limits: tuple[float, ...]
    """Largest absolute action of each actuated joint [N m or N; rad/s or m/s; rad or m]."""
    period: float
    """Control period [s]."""
    observed: tuple[str, ...] = ()
    """Entries that move and come from elsewhere than the joints, e.g. `object_x` [m]."""
    context: tuple[str, ...] = ()
    """Entries that stay as they are for an episode, e.g. `goal_x` [m]."""
    command: Command = "effort"
    """What the driver takes, as ros2_control calls the interface."""

    def to_command(self, action: "Array", state: "Array") -> "Array":
        """The command `(..., q)` of an action `(..., q)` that is chosen in a state `(..., p)`."""
        return action + self._places(state) if self.command == "position" else action

    def to_action(self, command: "Array", state: "Array") -> "Array":
        """The action `(..., q)` that a command `(..., q)` is in a state `(..., p)`."""
        return command - self._places(state) if self.command == "position" else command

    def _places(self, state: "Array") -> "Array":
        """Positions `(..., q)` of the actuated joints [rad or m]."""
        return state[..., [self.joint_names.index(name) for name in self.actuated_joints]]

    @property
    def state_dim(self) -> int:
        """Length p of the state."""
        return self.predicted_dim + len(self.context)

    @property
    def predicted_dim(self) -> int:
        """Number m of the state's first entries: those that a model predicts."""
        return 2 * len(self.joint_names) + len(self.observed)

    @property
    def action_dim(self) -> int:
        """Length q of the action."""
        return len(self.actuated_joints)


VELOCITY = "_velocity"
AXES = ("x", "y", "z")


class Sources(NamedTuple):
    """Who tells the entries of a robot's state.

    Joint states tell positions and velocities of `joint_names`, and what `observed` calls
    `<joint>_velocity`. What it calls `<body>_x`, `<body>_y` or `<body>_z` comes as the body's
    pose on the topic `object_pose`; what the context calls so comes on the topic `goal`. An
    observed `<body>_x_velocity` of that body is told by two poses.
    """

    further: tuple[str, ...]
    """Joints of which only the velocity is in the state."""
    object: str
    """Body that is observed; empty: none."""
    goal: str
    """Body that the context places; empty: none."""
    order: tuple[int, ...]
    """`(p,)` where the state's entries stand in all that is told: positions and velocities of
    the joints, velocities of the further ones, x, y, z of the object, their velocities, x, y, z
    of the goal."""


def sources(spec: RobotSpec) -> Sources:
    """Find out who tells what of a robot's state.

    Raises:
        ConfigError: nobody tells an entry.
    """
    moving = [name.removesuffix(VELOCITY) for name in spec.observed if name.endswith(VELOCITY)]
    place = [name for name in spec.observed if not name.endswith(VELOCITY)]
    body, goal = _body_of(place, spec, "observed"), _body_of(spec.context, spec, "context")
    joints = 2 * len(spec.joint_names)
    places = [f"{body}_{axis}" for axis in AXES]
    further = [name for name in moving if not body or name not in places]
    observed = [f"{joint}{VELOCITY}" for joint in further]
    observed += [*places, *(f"{place}{VELOCITY}" for place in places)]
    staying = [f"{goal}_{axis}" for axis in AXES]
    order = (
        *range(joints),
        *(joints + observed.index(name) for name in spec.observed),
        *(joints + len(observed) + staying.index(name) for name in spec.context),
    )
    return Sources(tuple(further), body, goal, order)


def object_speeds(spec: RobotSpec) -> list[str]:
    """The observed velocities that two poses of the object tell."""
    told = sources(spec)
    joints = {f"{joint}{VELOCITY}" for joint in told.further}
    return [name for name in spec.observed if name.endswith(VELOCITY) and name not in joints]


def _body_of(names: Sequence[str], spec: RobotSpec, kind: str) -> str:
    """The one body that `names` place; empty where there are none."""
    for name in names:
        body, _, axis = name.rpartition("_")
        if axis not in AXES or body != names[0].rpartition("_")[0]:
            raise ConfigError(
                f"robot {spec.name!r}: {kind} entry {name!r} has no topic; expected <body>_x, "
                f"<body>_y, <body>_z of one body{f' or <joint>{VELOCITY}' * (kind == 'observed')}"
            )
    return names[0].rpartition("_")[0] if names else ""


def _bound(value: Any) -> Any:  # noqa: ANN401
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


def _topic(name: str) -> str:
    if not re.fullmatch(r"/?[A-Za-z_]\w*(/[A-Za-z_]\w*)*", name, re.ASCII):
        raise ValueError(
            f"{name!r}: expected the name of a topic, e.g. /arm/commands: parts of letters, "
            "digits and _, no digit first, with / between"
        )
    return name


def _ordered(limits: tuple[float, float]) -> tuple[float, float]:
    if limits[0] >= limits[1]:
        raise ValueError(f"{list(limits)}: expected [lower, upper]")
    return limits


Name = Annotated[str, AfterValidator(_usable)]
Limits = Annotated[tuple[float, float], AfterValidator(_ordered)]
StateBound = Annotated[float | tuple[float, float] | None, BeforeValidator(_bound)]
LARGEST_START = 1e5
"""Absolute value in a start: above it, no unit of a robot's is meant."""
Start = Annotated[float, Field(ge=-LARGEST_START, le=LARGEST_START)]
Topic = Literal["joint_states", "commands", "goal", "object_pose"]


class Draw(Settings):
    """Distribution of one entry of the state at the start of an episode."""

    mean: Start | None = None
    """None: as the model has it [the entry's unit]."""
    std: float = Field(0.0, ge=0, le=LARGEST_START)
    """Of a normal distribution [the entry's unit]."""
    low: Start | None = None
    """With `high`: of a uniform distribution [the entry's unit]."""
    high: Start | None = None
    """With `low`: of a uniform distribution [the entry's unit]."""
    origin: Start = 0.0
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
    def middle(self) -> float:
        """The mean."""
        return self.origin + self.first + (0.5 * self.spread if self.is_uniform else 0.0)

    @property
    def range(self) -> tuple[float, float]:
        """Least and largest value that it hardly exceeds."""
        first = self.origin + self.first
        if self.is_uniform:
            return first, first + self.spread
        return first - 2.0 * self.std, first + 2.0 * self.std

    @property
    def largest(self) -> float:
        """Absolute value that is hardly exceeded."""
        return max(map(abs, self.range))


def _number_is_mean(value: Any) -> Any:  # noqa: ANN401
    # YAML takes 1e-2 for a text; of another text it is said that it is no number.
    return {"mean": value} if isinstance(value, (int, float, str)) else value


class SiteSettings(Settings):
    """A point that is added to the model; a URDF has none."""

    body: str
    """It moves with this body."""
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """In the body's frame [m]."""


class ServoSettings(Settings):
    """A simulated drive, up to the joint's effort limit."""

    kp: float = Field(0.0, ge=0)
    """Of positions: effort for a deviation of 1 [N m/rad or N/m]."""
    kv: float = Field(gt=0)
    """Effort for a deviation of 1 from the velocity, of positions from rest [N m s/rad or
    N s/m]."""


class RobotSettings(Settings):
    """The section `robot:`. What is left out is derived from the model (`robots.resolve`)."""

    name: Name = ""
    """Of the robot, and of the task unless that has another; empty: that of the file."""
    about: str = ""
    """One line for `hucrl list robots`."""
    model: str
    """MJCF or URDF, its path relative to the description."""
    period: float = Field(ge=SHORTEST_PERIOD, le=LONGEST_PERIOD)
    """Control period [s]."""
    steps: Steps
    """Control periods in an episode [1]."""
    timestep: float | None = Field(None, gt=0)
    """Of the physics; None: the model's [s]."""
    joints: tuple[str, ...] = ()
    """In the order of the state; empty: all revolute and prismatic ones that aren't observed."""
    actuated: tuple[str, ...] = ()
    """In the order of commands; empty: those with a motor, or with an effort limit."""
    limits: dict[str, Limits] = Field(default_factory=dict)
    """Of joints, where learning should know others than the model's [rad or m]."""
    joint_limits: bool = True
    """Add a constraint for each joint with limits that has none in `constraints:`."""
    command: Command = "effort"
    """What the driver takes: efforts, velocities or positions."""
    effort_limits: tuple[Limit, ...] = ()
    """Of each actuated joint; empty: the model's [N m or N]."""
    command_limits: tuple[Limit, ...] = ()
    """Instead of them, where the driver takes no efforts: of each actuated joint the largest
    velocity; empty: the model's [rad/s or m/s]; or the largest way from where it is to the
    position that is commanded, which no model tells [rad or m]."""
    servos: dict[str, ServoSettings] = Field(default_factory=dict)
    """By joint, the simulated drives of velocities or positions, where the model has none."""
    observed: tuple[str, ...] = ()
    """Entries that move and that no joint state tells, e.g. `puck_x`."""
    context: tuple[str, ...] = ()
    """Entries that stay for an episode, e.g. `goal_x`."""
    sites: dict[str, SiteSettings] = Field(default_factory=dict)
    """Points to add to the model."""
    angles: tuple[str, ...] | None = None
    """Joints that networks see as cosine and sine; None: revolute ones."""
    stops: tuple[str, ...] | None = None
    """Joints whose stops networks see; None: all that have limits."""
    vectors: dict[str, tuple[str, ...]] | None = None
    """By body in the state, the sites whose way from it networks see; None: the points of
    `reward.success`."""
    scales: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """Unit of each other entry in the networks' inputs [the entry's unit]."""
    state_bounds: dict[str, StateBound] = Field(default_factory=dict)
    """How far an entry is imagined [its unit]: its largest absolute value, or least and largest
    value; None: any."""
    start: dict[str, Annotated[Draw, BeforeValidator(_number_is_mean)]] = Field(
        default_factory=dict
    )
    """How entries are drawn for an episode; a number alone is the mean."""
    draw_fixed: bool = True
    """Draw a number also for entries that don't vary; it decides what start a seed gives."""
    topics: dict[Topic, Annotated[str, AfterValidator(_topic)]] = Field(default_factory=dict)
    """Other names of topics."""

    @model_validator(mode="after")
    def _fits_the_command(self) -> "RobotSettings":
        other = "command_limits" if self.command == "effort" else "effort_limits"
        if getattr(self, other):
            raise ValueError(
                f"{other}: command = {self.command} has {self.limits_key} "
                f"[{UNITS[self.command]}] instead"
            )
        for joint, servo in self.servos.items():
            if self.command == "effort" or (self.command == "position") != (servo.kp > 0):
                wanted = {"effort": "no servos", "velocity": "kv alone", "position": "kp and kv"}
                raise ValueError(
                    f"servos.{joint}: command = {self.command} takes {wanted[self.command]}"
                )
        return self

    @property
    def limits_key(self) -> str:
        """Name of the setting that holds the largest actions."""
        return "effort_limits" if self.command == "effort" else "command_limits"

    @property
    def action_limits(self) -> tuple[float, ...]:
        """Largest absolute action of each actuated joint, in the unit of the commands."""
        return self.effort_limits or self.command_limits

    @property
    def reach(self) -> dict[str, StateBound]:
        """Deprecated name of `state_bounds`, for functions of users that were written for it."""
        return self.state_bounds

    @property
    def spec(self) -> RobotSpec:
        """What a controller must know; complete once nothing is left to derive."""
        return RobotSpec(
            name=self.name,
            joint_names=self.joints,
            actuated_joints=self.actuated,
            effort_limits=self.action_limits,
            period=self.period,
            observed=self.observed,
            context=self.context,
            command=self.command,
        )

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the state's entries `(p,)`."""
        speeds = tuple(f"{joint}_velocity" for joint in self.joints)
        return (*self.joints, *speeds, *self.observed, *self.context)
