"""What every task provides to learning, planning and the nodes."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from hucrl_ros.envs import MujocoRobot, RobotSpec
from hucrl_ros.envs.base import Array


class Task(nn.Module, ABC):
    """A robot, a reward, where episodes start and how long they last.

    It is a torch module without parameters, so that features and rewards can be exported
    inside the planning graphs.
    """

    name: str
    robot: Callable[[], MujocoRobot]
    steps: int
    """Control periods in an episode."""
    feature_dim: int
    """Length f of the network inputs made from a state."""
    reach: tuple[float, ...]
    """`(p,)` largest absolute value of each state entry that an imagined state may take;
    infinity where there is none, as for an angle that may wind."""
    optima: ClassVar[dict[float, float]] = {}
    """Best achievable return for an action penalty, where it is known."""

    def __init__(self, action_penalty: float) -> None:
        super().__init__()
        self.action_penalty = action_penalty

    @property
    @abstractmethod
    def spec(self) -> RobotSpec:
        """The robot's joints, limits and period."""

    @abstractmethod
    def features(self, state: Tensor) -> Tensor:
        """Network inputs `(..., f)` of states `(..., p)`: angles as (sin, cos), the rest as is."""

    @abstractmethod
    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """Reward `(...)` of `action` `(..., q)` [N m or N] in `state` `(..., p)`."""

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
