"""What every task provides to learning, planning and the nodes."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from hucrl_ros.robots import MujocoRobot, RobotSpec
from hucrl_ros.robots.mujoco_robot import Array
from hucrl_ros.tasks.geometry import Geometry

Reach = float | tuple[float, float]


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
    close: float = math.inf
    """Largest `distance` at the end of an episode that counts as success [m]."""
    optimum: float | None = None
    """Best achievable return at this action penalty, or None where nobody computed it."""

    def __init__(self, action_penalty: float) -> None:
        super().__init__()
        self.action_penalty = action_penalty
        self.geometry: Geometry | None = None
        """What networks see besides the state's entries; None: nothing."""

    @property
    @abstractmethod
    def spec(self) -> RobotSpec:
        """The robot's joints, limits and period."""

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
        geometry lets them see. The kernel computes the same (`runtime.kernel`); for a task that
        overrides this method the slower ONNX engine plans, and torch imagines.
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

    def rewards(self, states: Array, actions: Array) -> Array:
        """`reward` for numpy arrays: `(T, p)` and `(T, q)` to `(T,)`."""
        with torch.no_grad():
            reward = self.reward(torch.as_tensor(states), torch.as_tensor(actions))
        return np.asarray(reward.numpy(), dtype=np.float64)
