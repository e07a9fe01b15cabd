"""A task of which a description says everything."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hucrl_ros.config.robot import Draw, RobotSpec
from hucrl_ros.config.task_file import Description
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.mujoco_robot import MujocoRobot
from hucrl_ros.tasks.base import Task
from hucrl_ros.tasks.geometry import Geometry, Stop, Vector
from hucrl_ros.tasks.terms import total
from hucrl_ros.tasks.view import (
    ImaginedFunction,
    RewardFunction,
    RobotView,
    explain,
    load_function,
)


class DescribedTask(Task):
    """Robot and reward of a description that says everything (`envs.resolve`)."""

    def __init__(self, described: Description, action_penalty: float) -> None:
        """Load the robot's model and, where it is a function, the reward.

        Raises:
            ConfigError: model or reward don't fit the description.
        """
        super().__init__(action_penalty)
        self.described = described
        settings = described.robot
        self.name = described.name
        self.robot = partial(MujocoRobot, described)
        self.steps = settings.steps
        entries, angles = settings.entries, settings.angles or ()
        self.angles = tuple(entries.index(joint) for joint in angles)
        self.scales = tuple(settings.scales[entries[index]] for index in self.others)
        moving = entries[: self.spec.predicted_dim]
        self.reach = tuple(
            math.inf if (most := settings.reach[entry]) is None else most for entry in moving
        )
        success = described.reward.success
        self.close = math.inf if success is None else success.within
        self.optimum = described.task.optima.get(action_penalty)
        robot = self.robot()
        self.view = RobotView(settings, robot, action_penalty)
        self._reward: RewardFunction | None = self._load(described.reward.function)
        self._imagined: ImaginedFunction | None = self._load(described.task.imagined)
        self._check()
        self.geometry = self._geometry(robot)

    @property
    def spec(self) -> RobotSpec:
        """As described."""
        return self.described.robot.spec

    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """Reward `(...)` of states `(..., p)` and efforts `(..., q)` [N m or N]."""
        if self._reward is not None:
            return self._reward(state, action, self.view)
        return total(self.described.reward.terms, self.view, state, action)

    def distance(self, state: Tensor) -> Tensor:
        """`(...)` between the two points of `success` [m]; NaN where there is none."""
        success = self.described.reward.success
        if success is None:
            return super().distance(state)
        return self.view.squared_distance(state, success.of, success.to).sqrt()

    def imagined_states(self, count: int, generator: torch.Generator) -> Tensor:
        """Half as episodes start, half with joints anywhere; or what the description says."""
        if self._imagined is not None:
            return self._imagined(count, generator, self.view)
        entries, joints = self.described.robot.entries, len(self.spec.joint_names)
        states = torch.stack(
            [_drawn(self.described.robot.start[e], count, generator) for e in entries], dim=-1
        )
        anywhere = self.view.anywhere(count, generator)
        moving = torch.cat([anywhere, states[:, 2 * joints :]], dim=-1)
        first = (torch.arange(count) < count - count // 2)[:, None]
        return torch.where(first, states, moving)

    def _geometry(self, robot: MujocoRobot) -> Geometry | None:
        """Stops of limited joints, vectors to bodies, and contacts."""
        joints, seen = self.spec.joint_names, self.described.robot.stops
        stops = [
            Stop(joint, *robot.ranges[joint].tolist())
            for joint in self.angles
            if np.isfinite(robot.ranges[joint]).all() and (seen is None or joints[joint] in seen)
        ]
        found = Geometry(self.spec, stops, self._vectors(), robot.model)
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
        limits = torch.tensor(self.spec.effort_limits)
        actions = limits * (2.0 * torch.rand(64, len(limits), generator=generator) - 1.0)
        origin = self.origin
        for shape in ((64,), (4, 16)):  # Searches have steps and particles.
            try:
                reward = self.reward(states.reshape(*shape, -1), actions.reshape(*shape, -1))
                self.distance(states)
            except ConfigError as error:
                raise ConfigError(f"{self.described.path}: {error}") from None
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

    def _checked_states(self, count: int, generator: torch.Generator) -> Tensor:
        origin = self.described.file_of(self.described.task.imagined)
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
        return states

    @property
    def origin(self) -> Path:
        """The file that says what the reward is."""
        function = self.described.reward.function
        return self.described.file_of(function) if function else self.described.path


def _shown(values: Tensor) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values.tolist()) + ")"


def _drawn(draw: Draw, count: int, generator: torch.Generator) -> Tensor:
    random = torch.rand if draw.is_uniform else torch.randn
    return draw.origin + draw.first + draw.spread * random(count, generator=generator)
