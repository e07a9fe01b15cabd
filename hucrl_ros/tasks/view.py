"""What a user's functions may ask of a robot, of states and of actions, by name."""

import math
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import mujoco
import torch
from torch import Tensor, nn

from hucrl_ros.config.reward import Point
from hucrl_ros.config.robot import AXES, VELOCITY, RobotSettings
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.motors import followers, led
from hucrl_ros.robots.mujoco_robot import MujocoRobot
from hucrl_ros.tasks.kinematics import ForwardKinematics

RewardFunction = Callable[[Tensor, Tensor, "RobotView"], Tensor]
"""States `(..., p)`, actions `(..., q)`, robot → `(...)`."""
ImaginedFunction = Callable[[int, torch.Generator, "RobotView"], Tensor]
"""Count, source of random numbers, robot → states `(count, p)`."""


class RobotView(nn.Module):
    """Named parts of states `(..., p)` and actions `(..., q)`, differentiable and exportable.

    It is the third argument of a user's functions.
    """

    def __init__(self, settings: RobotSettings, robot: MujocoRobot, action_penalty: float) -> None:
        """View the states of a robot.

        Args:
            settings: With nothing left to derive.
            robot: Its model holds the sites, and what doesn't move.
            action_penalty: ρ.
        """
        super().__init__()
        self.settings = settings
        """The section `robot:` with all that was derived: `start`, `scales`, `state_bounds`."""
        self.spec = settings.spec
        self.action_penalty = action_penalty
        """ρ of the run's settings."""
        self.entries = settings.entries
        """Names of the state's entries `(p,)`."""
        # Without the joints: one called `tool_x` is no coordinate of a body `tool`.
        others = (*settings.observed, *settings.context)
        self._places = {name: index for index, name in enumerate(others, 2 * len(settings.joints))}
        self._model = robot.model
        self._ranges = robot.ranges
        self._sites = nn.ModuleList()
        # Not a ModuleDict, whose keys can't be `tip.001`, or `half`.
        self._numbers: dict[str, int] = {}

    def anywhere(self, count: int, generator: torch.Generator) -> Tensor:
        """Positions and velocities `(count, 2 n)` of joints within their limits and moving.

        A joint without limits is up to half a turn, or its scale, from 0; one that follows
        another is where that leads it.
        """
        scales, angles = self.settings.scales, self.settings.angles or ()
        joints = self.spec.joint_names
        half = torch.tensor([math.pi if joint in angles else scales[joint] for joint in joints])
        ranges = torch.tensor(self._ranges, dtype=torch.float32)
        limited = ranges.isfinite().all(dim=-1)
        low = torch.where(limited, ranges[:, 0], -half)
        high = torch.where(limited, ranges[:, 1], half)
        places = low + (high - low) * torch.rand(count, len(joints), generator=generator)
        speeds = torch.tensor([scales[f"{joint}_velocity"] for joint in joints])
        moving = speeds * torch.randn(count, len(joints), generator=generator)
        return self.led(torch.cat([places, moving], dim=-1))

    def led(self, states: Tensor) -> Tensor:
        """`states` `(..., p)`, or `(..., 2 n)`, with joints that follow others where those are."""
        if not followers(self._model):
            return states
        return torch.as_tensor(led(self._model, self.spec, states.double().numpy())).to(states)

    def entry(self, state: Tensor, name: str) -> Tensor:
        """One entry `(...)` of the state: `<joint>`, `<joint>_velocity`, `goal_x`."""
        return state[..., self._index(name, self.entries, "entry of the state")]

    def position(self, state: Tensor, joint: str) -> Tensor:
        """Position `(...)` of a joint [rad or m]; an angle isn't wrapped."""
        return state[..., self._index(joint, self.spec.joint_names, "joint")]

    def angle(self, state: Tensor, joint: str) -> Tensor:
        """Position `(...)` of a joint that has to be a revolute one [rad]."""
        angle = self.position(state, joint)
        if self._model.joint(joint).type[0] != mujoco.mjtJoint.mjJNT_HINGE:
            raise ConfigError(f"joint {joint!r} is prismatic; expected a revolute one")
        return angle

    def velocity(self, state: Tensor, joint: str) -> Tensor:
        """Velocity `(...)` of a joint, also of an observed one [rad/s or m/s]."""
        name = f"{joint}{VELOCITY}"
        if name not in self.entries:
            moving = [entry for entry in self.entries if entry.endswith(VELOCITY)]
            self._index(joint, tuple(entry.removesuffix(VELOCITY) for entry in moving), "joint")
        return self.entry(state, name)

    def velocities(self, state: Tensor) -> Tensor:
        """Velocities `(..., n)` of the joints [rad/s or m/s]."""
        joints = len(self.spec.joint_names)
        return state[..., joints : 2 * joints]

    def effort(self, action: Tensor, joint: str) -> Tensor:
        """Effort `(...)` of an actuated joint's motor, before its gear [N m or N]."""
        return action[..., self._index(joint, self.spec.actuated_joints, "actuated joint")]

    def gear(self, joint: str) -> float:
        """What reaches an actuated joint of an effort of 1 of its motor [1]."""
        motor = self._index(joint, self.spec.actuated_joints, "actuated joint")
        return float(self._model.actuator_gear[motor, 0])

    def site(self, state: Tensor, name: str) -> Tensor:
        """World coordinates `(..., 3)` [m] of a site of the model."""
        if name not in self._numbers:
            self._sites.append(self._kinematics(name))
            self._numbers[name] = len(self._sites) - 1
        place: Tensor = self._sites[self._numbers[name]](state[..., : len(self.spec.joint_names)])
        return place

    def reach(self, site: str) -> tuple[Tensor, float]:
        """Place `(3,)` of the first joint that moves a site, and how far it gets [m]."""
        place, length = self._kinematics(site).reach
        return torch.tensor(place, dtype=torch.float32), length

    def body(self, state: Tensor, name: str) -> Tensor:
        """World coordinates `(..., 3)` [m] of a body that is observed, or of a goal.

        An axis that isn't in the state stays where the model has it.
        """
        index = mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_BODY, name)
        if index < 0 or not self.is_in_state(name):
            raise ConfigError(f"body {name!r} isn't in the state; known: {self._known_points()}")
        names = [f"{name}_{axis}" for axis in AXES]
        found = [self._places[entry] for entry in names if entry in self._places]
        if found == list(range(found[0], found[0] + len(AXES))):  # One slice is cheaper.
            return state[..., found[0] : found[0] + len(AXES)]
        fixed = torch.tensor(self._model.body_pos[index], dtype=state.dtype)
        columns = [
            state[..., self._places[entry]]
            if entry in self._places
            else stays.expand(state.shape[:-1])
            for entry, stays in zip(names, fixed, strict=True)
        ]
        return torch.stack(columns, dim=-1)

    def point(self, state: Tensor, point: Point) -> Tensor:
        """World coordinates `(..., 3)` [m] of a body in the state, a site, or a fixed place."""
        if not isinstance(point, str):
            return torch.tensor(point, dtype=state.dtype).expand(*state.shape[:-1], 3)
        return self.body(state, point) if self.is_in_state(point) else self.site(state, point)

    def squared_distance(self, state: Tensor, of: Point, to: Point) -> Tensor:
        """`(...)` between two points [m²]."""
        there = (
            self.point(state, to) if isinstance(to, str) else torch.tensor(to, dtype=state.dtype)
        )
        return ((self.point(state, of) - there) ** 2).sum(dim=-1)

    def is_in_state(self, body: str) -> bool:
        """Whether a coordinate of it is observed or a goal's; else a point is a site."""
        return any(f"{body}_{letter}" in self._places for letter in AXES)

    def _kinematics(self, site: str) -> ForwardKinematics:
        if mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_SITE, site) < 0:
            body = mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_BODY, site) >= 0
            hint = "it is a body, of which robot.sites names a point; " if body else ""
            raise ConfigError(
                f"the model has no site {site!r}; {hint}known: {self._known_points()}"
            )
        try:
            return ForwardKinematics(self._model, site, self.spec.joint_names)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def _known_points(self) -> str:
        sites = [self._model.site(k).name for k in range(self._model.nsite)]
        bodies = {e[:-2] for e in self._places if e[-2:] in ("_x", "_y", "_z")}
        return ", ".join(sorted({*filter(None, sites), *bodies})) or "none"

    def _index(self, name: str, known: tuple[str, ...], kind: str) -> int:
        if name not in known:
            raise ConfigError(f"{name!r} is no {kind}; known: {', '.join(known)}")
        return known.index(name)


def load_function(path: Path, name: str) -> Callable[..., Any]:
    """Run a user's file and take the function `name` from it.

    Nothing is left behind: no entry in `sys.modules`, no compiled file next to the source.

    Raises:
        ConfigError: the file can't be read or run, or has no such function.
    """
    # By a name that nobody imports.
    module = ModuleType(f"<{path}>")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # Dataclasses look there for what annotations mean.
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except Exception as error:
        raise ConfigError(explain(path, error)) from None
    finally:
        sys.modules.pop(module.__name__, None)
    found = vars(module).get(name)
    if not callable(found):
        known = [key for key, value in vars(module).items() if _is_own_function(value, path)]
        raise ConfigError(
            f"{path}: has no function {name!r}; functions there: {', '.join(known) or 'none'}"
        )
    function: Callable[..., Any] = found
    return function


def in_type_of(state: Tensor, found: Any) -> Any:  # noqa: ANN401 - a user's function's
    """What a user's function found, as precise as the states that it was given.

    A constant of numpy's makes it double, which a bundle's graphs are not.
    """
    other = isinstance(found, Tensor) and found.is_floating_point() and found.dtype != state.dtype
    return found.to(state.dtype) if other else found


@contextmanager
def left_alone(what: str, *given: Tensor) -> Iterator[None]:
    """Inside, `what`, a user's function, is called with `given`.

    They may be a recorded episode's own memory, or a trajectory that goes on.

    Raises:
        ConfigError: it changed them.
    """
    before = [tensor.nan_to_num() for tensor in given]  # what isn't finite is found elsewhere
    yield
    after = [tensor.nan_to_num() for tensor in given]
    if not all(map(torch.equal, before, after)):
        raise ConfigError(
            f"{what} changes the states or actions that it is given; expected new tensors, such "
            "as state[..., 0] - 1 in place of state[..., 0] -= 1"
        )


def explain(path: Path, error: Exception) -> str:
    """One line on what went wrong in a user's file, with the last of its lines involved."""
    if isinstance(error, SyntaxError):
        return f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    where = f"{path}:{lines[-1]}" if lines else str(path)
    return f"{where}: {type(error).__name__}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """The message's first line that says something."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)


def _is_own_function(value: object, path: Path) -> bool:
    code = getattr(value, "__code__", None)
    return code is not None and code.co_filename == str(path)
