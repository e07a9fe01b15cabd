"""What every task provides to learning, planning and the nodes."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from hucrl_ros.envs import MujocoRobot, RobotSpec
from hucrl_ros.envs.base import Array

Reach = float | tuple[float, float]
NEAR_STOP = 0.1
"""[rad or m] From this distance on the model's inputs show a joint's stop."""


class Stop(NamedTuple):
    """Where a joint stops."""

    joint: int
    """Its place in the state."""
    lower: float
    """[rad or m]"""
    upper: float
    """[rad or m]"""


class Ramp(NamedTuple):
    """An input of the model, max(0, offset + per_position q + per_velocity q̇)."""

    position: int
    """Place of q in the state."""
    velocity: int
    """Place of q̇ in the state."""
    per_position: float
    per_velocity: float
    offset: float


class Task(nn.Module, ABC):
    """A robot, a reward, where episodes start and how long they last.

    It is a torch module without parameters, so that features and rewards can be exported
    inside the planning graphs.
    """

    name: str
    robot: Callable[[], MujocoRobot]
    steps: int
    """Control periods in an episode."""
    angles: tuple[int, ...]
    """State entries that are angles of revolute joints."""
    scales: tuple[float, ...]
    """Unit of each other state entry, in turn, in the networks' inputs [units of the state]."""
    reach: tuple[Reach, ...]
    """`(m,)` how far an imagined state may go in each predicted entry: the largest absolute value,
    infinity for an angle that may wind, or least and largest value, both finite."""
    stops: tuple[Stop, ...] = ()
    """Joints whose stops the model sees coming: see `ramps`."""
    close: float = math.inf
    """Largest `distance` at the end of an episode that counts as success [m]."""
    optima: ClassVar[dict[float, float]] = {}
    """Best achievable return for an action penalty, where it is known."""

    def __init__(self, action_penalty: float) -> None:
        super().__init__()
        self.action_penalty = action_penalty

    @property
    @abstractmethod
    def spec(self) -> RobotSpec:
        """The robot's joints, limits and period."""

    @property
    def feature_dim(self) -> int:
        """Length f of what policies and critic see of a state."""
        return 2 * len(self.angles) + len(self.scales)

    @property
    def model_feature_dim(self) -> int:
        """Length of `model_features`."""
        return self.feature_dim - len(self.spec.context) + len(self.ramps)

    @property
    def ramps(self) -> tuple[Ramp, ...]:
        """How far each joint of `stops` would get into the last `NEAR_STOP` before its limits.

        It is where the joint would be after a control period at its present speed that counts:
        whether a stop is hit in a period depends on both, and a network needs many transitions
        to find that out by itself.
        """
        joints, slope = len(self.spec.joint_names), 1.0 / NEAR_STOP
        ahead = slope * self.spec.period
        ramps = []
        for joint, lower, upper in self.stops:
            velocity = joints + joint
            ramps.append(Ramp(joint, velocity, -slope, -ahead, 1.0 + slope * lower))
            ramps.append(Ramp(joint, velocity, slope, ahead, 1.0 - slope * upper))
        return tuple(ramps)

    def features(self, state: Tensor) -> Tensor:
        """Inputs `(..., f)` of policies and critic, of states `(..., p)`.

        Cosines of the angles, their sines, then the other entries in units of `scales`. The
        kernel computes the same (`runtime.kernel`); for a task that overrides this method the
        slower ONNX engine plans, and torch imagines.
        """
        angle = state.index_select(-1, torch.tensor(self.angles, dtype=torch.long))
        rest = state.index_select(-1, torch.tensor(self.others, dtype=torch.long))
        scaled = rest / torch.tensor(self.scales, dtype=state.dtype)
        return torch.cat([torch.cos(angle), torch.sin(angle), scaled], dim=-1)

    def model_features(self, state: Tensor) -> Tensor:
        """Inputs of the dynamics model, of states `(..., p)`: features without context, ramps."""
        features = self.features(state)
        if self.spec.context:
            features = features[..., : -len(self.spec.context)]
        if not self.stops:
            return features
        position = state.index_select(-1, torch.tensor([ramp.position for ramp in self.ramps]))
        velocity = state.index_select(-1, torch.tensor([ramp.velocity for ramp in self.ramps]))
        _, _, slope, ahead, offset = torch.tensor(self.ramps, dtype=state.dtype).T
        ramps = torch.relu(offset + slope * position + ahead * velocity)
        return torch.cat([features, ramps], dim=-1)

    @property
    def bounds(self) -> Tensor:
        """`reach` as least and largest values `(2, m)`."""
        pairs = [x if isinstance(x, tuple) else (-x, x) for x in self.reach]
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

    @abstractmethod
    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """Reward `(...)` of `action` `(..., q)` [N m or N] in `state` `(..., p)`."""

    def distance(self, state: Tensor) -> Tensor:
        """`(...)` from the goal to what has to get there [m]; NaN where a task has neither."""
        return torch.full(state.shape[:-1], math.nan)

    @abstractmethod
    def imagined_states(self, count: int, generator: torch.Generator) -> Tensor:
        """States `(count, p)` from which imagined trajectories may start."""

    @property
    def optimum(self) -> float | None:
        """Best achievable return at this action penalty, or None where nobody computed it."""
        return self.optima.get(self.action_penalty)

    def rewards(self, states: Array, actions: Array) -> Array:
        """`reward` for numpy arrays: `(T, p)` and `(T, q)` to `(T,)`."""
        with torch.no_grad():
            reward = self.reward(torch.as_tensor(states), torch.as_tensor(actions))
        return np.asarray(reward.numpy(), dtype=np.float64)
