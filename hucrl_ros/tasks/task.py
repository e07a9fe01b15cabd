"""A task: robot, reward, start and length of episodes, all as a description says."""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hucrl_ros.config.reward import SuccessSettings
from hucrl_ros.config.robot import AXES, Draw, RobotSpec
from hucrl_ros.config.task_file import Description
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot
from hucrl_ros.tasks.constraints import Constraints
from hucrl_ros.tasks.geometry import Geometry, Stop, Vector
from hucrl_ros.tasks.terms import total
from hucrl_ros.tasks.view import (
    ImaginedFunction,
    RewardFunction,
    RobotView,
    explain,
    in_type_of,
    left_alone,
    load_function,
)

logger = logging.getLogger(__name__)

Bound = float | tuple[float, float]
LEVEL = 1e-4
"""[m] A coordinate that varies by less, wherever the joints are, is that of a plane."""
STARTS = 500
"""Drawn starts that constraints have to hold in."""
RANGE_SAMPLES = 4096
"""Imagined states among which the largest and the least reward are looked for."""


class Task(nn.Module):
    """What learning, planning and the nodes know of a task.

    It is a torch module without parameters, so that features and rewards can be exported
    inside the planning graphs.
    """

    name: str
    robot: Callable[..., MujocoRobot]
    """Makes one; it takes a `body` that differs from the model."""
    steps: int
    """Control periods in an episode."""
    angles: tuple[int, ...]
    """State entries that are angles of revolute joints."""
    scales: tuple[float, ...]
    """Unit of each other state entry, in turn, in the networks' inputs [units of the state]."""
    state_bounds: tuple[Bound, ...]
    """`(m,)` how far an imagined state may go in each predicted entry: the largest absolute value,
    infinity for an angle that may wind, or least and largest value, both finite."""
    success_distance: float = math.inf
    """Largest `distance` at the end of an episode that counts as success [m]."""
    optimum: float | None = None
    """Best achievable return at this action penalty, or None where nobody computed it."""
    constraint_names: tuple[str, ...] = ()
    """What must never happen, in words; `(K,)`."""
    reward_type: torch.dtype = torch.float64
    """In which returns are counted: single precision where a user's function knows no other."""
    room_type: torch.dtype = torch.float64
    """The same of rooms."""
    reward_range: float = 0.0
    """Largest less least reward of a step, as far as known; 0 where there are no constraints."""

    def __init__(self, described: Description, action_penalty: float) -> None:
        """Load the robot's model and, where it is a function, the reward.

        Raises:
            ConfigError: model or reward don't fit the description.
        """
        super().__init__()
        self.action_penalty = action_penalty
        self.geometry: Geometry | None = None
        """What networks see besides the state's entries; None: nothing."""
        self.described = described
        settings = described.robot
        self.name = described.name
        self.robot = partial(MujocoRobot, described)
        self.steps = settings.steps
        entries, angles = settings.entries, settings.angles or ()
        self.angles = tuple(entries.index(joint) for joint in angles)
        self.scales = tuple(settings.scales[entries[index]] for index in self.others)
        moving = entries[: self.spec.predicted_dim]
        self.state_bounds = tuple(
            math.inf if (most := settings.state_bounds[entry]) is None else most
            for entry in moving
        )
        success = described.reward.success
        self.success_distance = math.inf if success is None else success.within
        self.optimum = described.task.optima.get(action_penalty)
        robot = self.robot()
        self.view = RobotView(settings, robot, action_penalty)
        self._reward: RewardFunction | None = self._load(described.reward.function)
        self._imagined: ImaginedFunction | None = self._load(described.task.imagined)
        self._constraints = Constraints(described, self.view)
        self.constraint_names = described.constraint_names
        self._check()
        self.geometry = self._geometry(robot)
        if self.constraint_names:
            self.reward_range = self._range_of_rewards()

    @property
    def spec(self) -> RobotSpec:
        """As described."""
        return self.described.robot.spec

    @property
    def feature_dim(self) -> int:
        """Length f of what policies and critic see of a state."""
        return self._entries_dim + (self.geometry.seen_dim if self.geometry else 0)

    @property
    def model_feature_dim(self) -> int:
        """Length of `model_features`."""
        known = self._entries_dim - len(self.spec.context)
        return known + (self.geometry.modelled_dim if self.geometry else 0)

    def features(self, state: Tensor) -> Tensor:
        """Inputs `(..., f)` of policies and critic, of states `(..., p)`.

        Cosines of the angles, their sines, the other entries in units of `scales`, then what the
        geometry lets them see. The kernel computes the same (`controller.engines.kernel`); for a
        task that overrides this method the slower ONNX engine plans, and torch imagines.
        """
        entries = self._entries(state)
        return (
            torch.cat([entries, self.geometry.seen(state)], dim=-1) if self.geometry else entries
        )

    def model_features(self, state: Tensor) -> Tensor:
        """Inputs of the dynamics model, of states `(..., p)`: like `features`, without context."""
        entries = self._entries(state)
        if self.spec.context:
            entries = entries[..., : -len(self.spec.context)]
        if self.geometry is None:
            return entries
        return torch.cat([entries, self.geometry.modelled(state)], dim=-1)

    @property
    def least_deviations(self) -> Tensor:
        """`(f,)` deviations that the model's features are taken to have at least."""
        entries = torch.zeros(self._entries_dim - len(self.spec.context))
        return torch.cat([entries, self.geometry.least_deviations]) if self.geometry else entries

    @property
    def _entries_dim(self) -> int:
        return 2 * len(self.angles) + len(self.scales)

    def _entries(self, state: Tensor) -> Tensor:
        angle = state.index_select(-1, torch.tensor(self.angles, dtype=torch.long))
        rest = state.index_select(-1, torch.tensor(self.others, dtype=torch.long))
        scaled = rest / torch.tensor(self.scales, dtype=state.dtype)
        return torch.cat([torch.cos(angle), torch.sin(angle), scaled], dim=-1)

    @property
    def bounds(self) -> Tensor:
        """`state_bounds` as least and largest values `(2, m)`."""
        pairs = [x if isinstance(x, tuple) else (-x, x) for x in self.state_bounds]
        return torch.tensor(pairs).T.contiguous()

    @property
    def units(self) -> Tensor:
        """Unit `(p,)` of each state entry: 1 rad, or the scale."""
        units = torch.ones(self.spec.state_dim)
        units[self.others] = torch.tensor(self.scales)
        return units

    @property
    def others(self) -> list[int]:
        """State entries that aren't in `angles`."""
        return [i for i in range(self.spec.state_dim) if i not in self.angles]

    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """Reward `(...)` of `action` `(..., q)` [N m or N] in `state` `(..., p)`."""
        if self._reward is not None:
            found = self._reward(state, action, self.view)
        else:
            found = total(self.described.reward.terms, self.view, state, action)
        reward: Tensor = in_type_of(state, found)
        return reward

    def room(self, state: Tensor, action: Tensor) -> Tensor:
        """Room `(..., K)` left by each constraint in `state` `(..., p)` under `action` `(..., q)`.

        In margins: 0 at the limit, negative beyond it, 1 where a margin is left.
        """
        return self._constraints.room(state, action)

    @property
    def room_functions(self) -> list[tuple[Path, Callable[[Tensor, Tensor], Tensor]]]:
        """Constraints that are functions of a user's, after the file that each is in."""
        return self._constraints.functions

    @contextmanager
    def counting(self, share: float) -> Iterator[None]:
        """Inside, rewards count so much of the action penalty."""
        self.view.action_penalty = share * self.action_penalty
        try:
            yield
        finally:
            self.view.action_penalty = self.action_penalty

    def distance(self, state: Tensor) -> Tensor:
        """`(...)` between the two points of `success` [m]; NaN where a task has none."""
        success = self.described.reward.success
        if success is None:
            return torch.full(state.shape[:-1], math.nan)
        return self.view.squared_distance(state, success.of, success.to).sqrt()

    @property
    def start(self) -> Tensor:
        """Mean state `(p,)` in which episodes start."""
        robot = self.described.robot
        return torch.tensor([robot.start[entry].middle for entry in robot.entries])

    @property
    def starts(self) -> Tensor:
        """States `(STARTS + 1, p)` in which episodes start: the mean, then the same draws."""
        generator = torch.Generator().manual_seed(2)
        return torch.cat([self.start[None], self._drawn_starts(STARTS, generator)])

    def imagined_states(self, count: int, generator: torch.Generator) -> Tensor:
        """States `(count, p)` from which imagined trajectories may start.

        Half are as episodes start, half with joints anywhere; or as the description says.
        """
        if self._imagined is not None:
            return self._imagined(count, generator, self.view)
        joints = len(self.spec.joint_names)
        states = self._drawn_starts(count, generator)
        anywhere = self.view.anywhere(count, generator)
        moving = torch.cat([anywhere, states[:, 2 * joints :]], dim=-1)
        first = (torch.arange(count) < count - count // 2)[:, None]
        return torch.where(first, states, moving)

    def _drawn_starts(self, count: int, generator: torch.Generator) -> Tensor:
        robot = self.described.robot
        drawn = [_drawn(robot.start[entry], count, generator) for entry in robot.entries]
        return self.view.led(torch.stack(drawn, dim=-1))

    def rewards(self, states: Array, actions: Array) -> Array:
        """`reward` for numpy arrays: `(T, p)` and `(T, q)` to `(T,)`."""
        with torch.no_grad():
            reward = self.reward(*_tensors(self.reward_type, states, actions))
        return np.asarray(reward.numpy(), dtype=np.float64)

    def rooms(self, states: Array, actions: Array) -> Array:
        """`room` for numpy arrays: `(T, p)` and `(T, q)` to `(T, K)`."""
        with torch.no_grad():
            room = self.room(*_tensors(self.room_type, states, actions))
        return np.asarray(room.numpy(), dtype=np.float64)

    def _geometry(self, robot: MujocoRobot) -> Geometry | None:
        """Stops of limited joints, vectors to bodies, and contacts."""
        joints, seen = self.spec.joint_names, self.described.robot.stops
        stops = [
            Stop(joint, *robot.ranges[joint].tolist())
            for joint, name in enumerate(joints)
            if np.isfinite(robot.ranges[joint]).all() and (seen is None or name in seen)
        ]
        try:
            found = Geometry(self.spec, stops, self._vectors(), robot.model)
        except ValueError as error:  # Points of `success` were tried before.
            raise ConfigError(f"{self.described.path}: robot.vectors: {error}") from None
        return found if stops or found.vectors or found.contact else None

    def _vectors(self) -> list[Vector]:
        chosen = self.described.robot.vectors
        if chosen is not None:
            return [Vector(site, body) for body, sites in chosen.items() for site in sites]
        success = self.described.reward.success
        points = (success.of, success.to) if success is not None else ()
        named = [point for point in points if isinstance(point, str)]
        bodies = [point for point in named if self.view.is_in_state(point)]
        return [Vector(site, body) for site in named for body in bodies if site not in bodies]

    def _load(self, function: str) -> Callable[..., Any] | None:
        name = function.rpartition(":")[2]
        return load_function(self.described.file_of(function), name) if function else None

    def _check(self) -> None:
        """Try the reward on imagined states.

        Raises:
            ConfigError: it fails, or returns something else than one finite number a state; or
                imagined states can't be drawn.
        """
        generator = torch.Generator().manual_seed(0)
        states = self._checked_states(64, generator)
        actions = self._random_actions(64, generator)
        origin = self.origin
        told = "" if self.described.reward.terms else "reward: "
        for shape in ((64,), (4, 16)):  # Searches have steps and particles.
            given = states.reshape(*shape, -1), actions.reshape(*shape, -1)
            with left_alone(f"{origin}: the reward", *given):
                try:
                    reward = self.reward(*given)
                except ConfigError as error:
                    raise ConfigError(f"{self.described.path}: {told}{error}") from None
                except Exception as error:
                    raise ConfigError(explain(origin, error)) from None
            if not isinstance(reward, Tensor):
                raise ConfigError(
                    f"{origin}: the reward is a {type(reward).__name__}, not a torch.Tensor"
                )
            if reward.shape != shape or not reward.is_floating_point():
                raise ConfigError(
                    f"{origin}: the reward of states {(*shape, states.shape[-1])} is "
                    f"{tuple(reward.shape)} {reward.dtype}; expected {shape} of floating point"
                )
            finite = reward.reshape(-1).isfinite()
            if not finite.all():
                worst = int((~finite).nonzero()[0])
                raise ConfigError(
                    f"{origin}: the reward is {float(reward.reshape(-1)[worst])} in the state "
                    f"{_shown(states[worst])} under the action {_shown(actions[worst])}"
                )
        try:
            self.distance(states)
        except ConfigError as error:
            raise ConfigError(f"{self.described.path}: reward.success: {error}") from None
        self._constraints.check(states, actions, self.starts)
        self.reward_type = _widest(self.reward, states, actions)
        self.room_type = _widest(self.room, states, actions)
        for line in self._hopeless_goals():
            _warn(self.described.path, line)

    def _hopeless_goals(self) -> Iterator[str]:
        """Why goals in which episodes start can't be met, one line each."""
        success, starts = self.described.reward.success, self.starts
        if success is None or self.view.is_in_state(success.of):
            return
        goals, within = self.view.point(starts, success.to), success.within
        first, length = self.view.reach(success.of)
        far = torch.linalg.vector_norm(goals - first, dim=-1) > length + within
        if far.any():
            yield (
                f"{int(far.sum())} of {len(goals)} starts have {success.to} out of reach: "
                f"{success.of!r} gets no further than {length:.3g} m from its first joint"
            )
        yield from self._levels_apart(success, goals)
        for name, room in self._constraints.rooms_at(success.of, success.to, starts):
            if (closed := room < -within).any():
                count = int(closed.sum())
                yield (
                    f"{count} of {len(goals)} starts have {success.to} where {success.of!r} "
                    f"mustn't be: {name}"
                )

    def _levels_apart(self, success: SuccessSettings, goals: Tensor) -> Iterator[str]:
        """Goals `(N, 3)` [m] beside the plane that an arm moves in, such as below a flat one."""
        states = self.starts.clone()
        joints = self.view.anywhere(len(states), torch.Generator().manual_seed(0))
        states[:, : joints.shape[-1]] = joints
        places = self.view.point(states, success.of)
        for axis, always, seen in zip(AXES, places.T, goals.T, strict=True):
            stays = float(always.max() - always.min()) < LEVEL
            apart = (seen - always[0]).abs() > success.within
            if stays and apart.any() and f"{success.to}_{axis}" not in self.spec.observed:
                named = {f"{success.to}_{x}" for x in AXES} & {*self.spec.context}
                stays_put = named and f"{success.to}_{axis}" not in named
                hint = f"; robot.context names no {success.to}_{axis}" if stays_put else ""
                yield (
                    f"{int(apart.sum())} of {len(goals)} starts have {success.to} out of reach: "
                    f"its {axis} is {float(seen[apart][0]):.3g} m, that of {success.of!r} always "
                    f"{float(always[0]):.3g} m{hint}"
                )

    def _range_of_rewards(self) -> float:
        generator = torch.Generator().manual_seed(1)
        states = self.imagined_states(RANGE_SAMPLES, generator)
        with torch.no_grad():
            rewards = self.reward(states, self._random_actions(RANGE_SAMPLES, generator))
        known = rewards[rewards.isfinite()]
        # Where all steps earn the same, any price is the highest.
        return float(known.max() - known.min()) or 1.0

    def _random_actions(self, count: int, generator: torch.Generator) -> Tensor:
        limits = torch.tensor(self.spec.effort_limits)
        return limits * (2.0 * torch.rand(count, len(limits), generator=generator) - 1.0)

    def _checked_states(self, count: int, generator: torch.Generator) -> Tensor:
        origin = self.described.file_of(self.described.task.imagined)
        again = generator.clone_state()
        try:
            states: object = self.imagined_states(count, generator)
        except Exception as error:
            raise ConfigError(explain(origin, error)) from None
        shape = (count, self.spec.state_dim)
        if not isinstance(states, Tensor) or states.shape != shape or states.dtype != torch.float:
            size = (
                f" of {tuple(states.shape)} {states.dtype}" if isinstance(states, Tensor) else ""
            )
            raise ConfigError(
                f"{origin}: {count} imagined states are a {type(states).__name__}{size}; expected "
                f"a Tensor of {shape} torch.float32"
            )
        if not torch.equal(states.nan_to_num(), self.imagined_states(count, again).nan_to_num()):
            raise ConfigError(
                f"{origin}: of two draws by the same generator the imagined states differ, and so "
                "would what is learned; expected torch.rand(..., generator=generator)"
            )
        return states

    @property
    def origin(self) -> Path:
        """The file that says what the reward is."""
        function = self.described.reward.function
        return self.described.file_of(function) if function else self.described.path


def _tensors(kind: torch.dtype, *arrays: Array) -> list[Tensor]:
    """Of arrays in double precision, rounded where `kind` is single."""
    tensors = [torch.as_tensor(array) for array in arrays]
    return tensors if kind == torch.float64 else [tensor.to(kind) for tensor in tensors]


def _widest(
    function: Callable[[Tensor, Tensor], Tensor], states: Tensor, actions: Tensor
) -> torch.dtype:
    """Double precision, where `function` computes in it.

    A product with a user's own matrix, which is in single precision unless its author thought of
    another, does not.
    """
    try:
        function(states.double(), actions.double())
    except Exception:  # It was tried in single precision before.
        return torch.float32
    return torch.float64


@cache
def _warn(path: Path, line: str) -> None:
    logger.warning("%s: %s", path, line)


def _shown(values: Tensor) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values.tolist()) + ")"


def _drawn(draw: Draw, count: int, generator: torch.Generator) -> Tensor:
    random = torch.rand if draw.is_uniform else torch.randn
    return draw.origin + draw.first + draw.spread * random(count, generator=generator)
