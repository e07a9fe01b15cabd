"""Hallucinated data for off-policy searches, mixed with real ones (Algorithms 3 and 5)."""

from collections import deque
from typing import NamedTuple

import torch
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Tensor

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.models import Transitions
from hucrl_ros.search.imagination import Imagination


class Data(NamedTuple):
    """Transitions of the augmented system."""

    states: Tensor
    """`(n, p)`"""
    joint: Tensor
    """`(n, q + h)` (u, η), u in shares of the limits"""
    following: Tensor
    """`(n, p)`"""
    rewards: Tensor
    """`(n,)`"""


class Replay:
    """Imagined transitions of the last rounds, and all real ones."""

    def __init__(
        self,
        imagination: Imagination,
        recorded: Transitions | None,
        settings: SearchSettings,
    ) -> None:
        """An empty memory.

        Args:
            imagination: The imagined system, with the policies that expand values.
            recorded: Real transitions; None or empty: imagined ones alone.
            settings: Sizes and shares.
        """
        self._imagination, self._actors, self._settings = imagination, imagination.actors, settings
        self._recorded = recorded
        self._rounds: deque[Data] = deque(maxlen=settings.replay_rounds)
        self._imagined: Data | None = None
        self.generator = torch.Generator(imagination.actors.limits.device)
        """Draws batches and noise."""

    @torch.no_grad()
    def add(self, states: Tensor, joint: Tensor) -> None:
        """Imagine what (u, η) `joint` `(n, q + h)` leads to in `states` `(n, p)`; keep it."""
        width = self._actors.task.spec.predicted_dim
        noise = torch.randn(len(states), width, generator=self.generator)
        visited, earned = self._imagination.hold(states, joint, noise[None])
        following, rewards = visited[1], earned[0]
        finite = rewards.isfinite() & following.isfinite().all(dim=-1)
        data = Data(states, joint, following, rewards)
        self._rounds.append(Data(*(entry[finite] for entry in data)))
        self._imagined = Data(*(torch.cat(entry) for entry in zip(*self._rounds, strict=True)))

    def sample(self, batch_size: int, env: object = None) -> ReplayBufferSamples:
        """A batch for the library's `train`, which names and calls it.

        Rewards are those of `expansion_steps` steps, the first as stored and the others imagined
        with the present policies, in units of the critic's scale.
        """
        data = self._draw(batch_size)
        following, rewards = self._expanded(data)
        discount = self._settings.discount**self._settings.expansion_steps
        return ReplayBufferSamples(
            observations=data.states,
            actions=data.joint,
            next_observations=following,
            dones=torch.zeros(batch_size, 1),
            rewards=(rewards / self._actors.critic.scale)[:, None],
            discounts=torch.full((batch_size, 1), discount),
        )

    def _expanded(self, data: Data) -> tuple[Tensor, Tensor]:
        """States `(n, p)` after H = `expansion_steps`, discounted rewards until then `(n,)`."""
        further = self._settings.expansion_steps - 1
        if not further:
            return data.following, data.rewards
        expanded = self._imagination.imagine(data.following, further, self.generator)
        powers = self._settings.discount ** torch.arange(1.0, further + 1)
        return expanded.states[-1], data.rewards + powers @ expanded.rewards

    def _draw(self, count: int) -> Data:
        assert self._imagined is not None
        real = 0
        if self._recorded is not None and len(self._recorded.states):
            real = round(self._settings.real_share * count)
        index = self._random_rows(len(self._imagined.states), count - real)
        imagined = Data(*(entry[index] for entry in self._imagined))
        if not real:
            return imagined
        return Data(*(torch.cat(pair) for pair in zip(imagined, self._real(real), strict=True)))

    def _real(self, count: int) -> Data:
        """Recorded transitions, with an η that is drawn from a standard normal distribution."""
        assert self._recorded is not None
        actors = self._actors
        index = self._random_rows(len(self._recorded.states), count)
        states, efforts, following = (entry[index] for entry in self._recorded)
        eta = torch.randn(count, actors.hallucination_dim, generator=self.generator)
        joint = torch.cat([efforts / actors.limits, eta], dim=-1)
        return Data(states, joint, following, actors.task.reward(states, efforts))

    def _random_rows(self, rows: int, count: int) -> Tensor:
        return torch.randint(rows, (count,), generator=self.generator)
