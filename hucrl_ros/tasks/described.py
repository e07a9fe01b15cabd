"""A task of which a user's description says everything."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hucrl_ros.config.robot import Draw
from hucrl_ros.config.robot_spec import RobotSpec
from hucrl_ros.config.task_file import Description
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.described_robot import DescribedRobot
from hucrl_ros.tasks.base import Task
from hucrl_ros.tasks.geometry import Geometry, Stop, Vector
from hucrl_ros.tasks.reward_function import RewardFunction, explain, load_function
from hucrl_ros.tasks.terms import total
from hucrl_ros.tasks.view import RobotView


class DescribedTask(Task):
    """Robot and reward of a description that says everything (`envs.resolve`)."""

    _ranges: Tensor

    def __init__(self, described: Description, action_penalty: float) -> None:
        """Load the robot's model and, where it is a function, the reward.

        Raises:
            ConfigError: model or reward don't fit the description.
        """
        super().__init__(action_penalty)
        self.described = described
        settings = described.robot
        self.name = described.name
        self.robot = partial(DescribedRobot, described)
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
        robot = DescribedRobot(described)
        self.view = RobotView(self.spec, robot.model, action_penalty)
        ranges = torch.as_tensor(robot.ranges, dtype=torch.float32)
        self.register_buffer("_ranges", ranges, persistent=False)
        self._function: RewardFunction | None = None
        if described.reward.function:
            self._function = load_function(described.source, described.reward.name)
        self._check()
        self.geometry = self._geometry(robot)

    @property
    def spec(self) -> RobotSpec:
        """As described."""
        return self.described.robot.spec

    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """Reward `(...)` of states `(..., p)` and efforts `(..., q)` [N m or N]."""
        if self._function is not None:
            return self._function(state, action, self.view)
        return total(self.described.reward.terms, self.view, state, action)

    def distance(self, state: Tensor) -> Tensor:
        """`(...)` between the two points of `success` [m]; NaN where there is none."""
        success = self.described.reward.success
        if success is None:
            return super().distance(state)
        return self.view.squared_distance(state, success.of, success.to).sqrt()

    def imagined_states(self, count: int, generator: torch.Generator) -> Tensor:
        """Half as episodes start, half with joints anywhere within their limits and moving."""
        entries, joints = self.described.robot.entries, len(self.spec.joint_names)
        states = torch.stack(
            [_drawn(self.described.robot.start[e], count, generator) for e in entries], dim=-1
        )
        half = self._half_widths()
        limited = self._ranges.isfinite().all(dim=-1)
        low = torch.where(limited, self._ranges[:, 0], -half)
        high = torch.where(limited, self._ranges[:, 1], half)
        places = low + (high - low) * torch.rand(count, joints, generator=generator)
        scales = [
            self.described.robot.scales[f"{joint}_velocity"] for joint in self.spec.joint_names
        ]
        speeds = torch.tensor(scales) * torch.randn(count, joints, generator=generator)
        moving = torch.cat([places, speeds, states[:, 2 * joints :]], dim=-1)
        first = (torch.arange(count) < count - count // 2)[:, None]
        return torch.where(first, states, moving)

    def _geometry(self, robot: DescribedRobot) -> Geometry | None:
        """Stops of limited joints, the vector between the points of `success`, and contacts."""
        stops = [
            Stop(joint, *robot.ranges[joint].tolist())
            for joint in self.angles
            if np.isfinite(robot.ranges[joint]).all()
        ]
        success = self.described.reward.success
        points = (success.of, success.to) if success is not None else ()
        named = [point for point in points if isinstance(point, str)]
        bodies = [point for point in named if self.view.is_in_state(point)]
        vectors = [Vector(site, body) for site in named for body in bodies if site not in bodies]
        found = Geometry(self.spec, stops, vectors, robot.model)
        return found if stops or found.vectors or found.contact else None

    def _half_widths(self) -> Tensor:
        """`(n,)` how far an imagined joint without limits may be from 0 [rad or m]."""
        scales, angles = self.described.robot.scales, self.described.robot.angles or ()
        widths = [math.pi if j in angles else scales[j] for j in self.spec.joint_names]
        return torch.tensor(widths)

    def _check(self) -> None:
        """Try the reward on imagined states.

        Raises:
            ConfigError: it fails, or returns something else than one finite number a state.
        """
        generator = torch.Generator().manual_seed(0)
        states = self.imagined_states(64, generator)
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

    @property
    def origin(self) -> Path:
        """The file that says what the reward is."""
        described = self.described
        return described.source if described.reward.function else described.path


def _shown(values: Tensor) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values.tolist()) + ")"


def _drawn(draw: Draw, count: int, generator: torch.Generator) -> Tensor:
    if draw.low is not None and draw.high is not None:
        return draw.low + (draw.high - draw.low) * torch.rand(count, generator=generator)
    return (draw.mean or 0.0) + draw.std * torch.randn(count, generator=generator)
