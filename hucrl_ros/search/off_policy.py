"""SAC and TD3 on hallucinated data: action values that learn from imagined and real steps."""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple, cast

import torch
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Generator, Tensor, nn

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.models import Transitions
from hucrl_ros.search.actor_critic import ActorCritic
from hucrl_ros.search.base import GuardedAdam, PolicySearch
from hucrl_ros.search.model_free import Means, common_arguments, drawing_from, set_up
from hucrl_ros.search.model_rollout import InitialStates, ModelRollout

UNIFORM_SHARE = 0.5
"""Share of imagined actions that are uniform over their range. Nothing forbids to imagine them,
and values that only ever saw the policies' own actions have a poor gradient elsewhere."""
NOISE_CLIP = 2.5
"""Largest target noise of `td3` [standard deviations], as in its paper."""


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


Follow = Callable[[Tensor], tuple[Tensor, Tensor]]
"""(u, η) `(n, q + h)` of policies at states `(n, p)`; what they earn besides rewards `(n,)`."""


class Replay:
    """Imagined transitions of the last rounds, and all real ones."""

    def __init__(
        self,
        rollout: ModelRollout,
        recorded: Transitions | None,
        settings: SearchSettings,
        follow: Follow,
    ) -> None:
        """An empty memory.

        Args:
            rollout: Imagined dynamics.
            recorded: Real transitions; None or empty: imagined ones alone.
            settings: Sizes and shares.
            follow: The policies that expand values.
        """
        self._rollout, self._actor_critic, self._settings = rollout, rollout.actor_critic, settings
        self._follow = follow
        self._recorded = recorded
        self._rounds: deque[Data] = deque(maxlen=settings.replay_rounds)
        self._imagined: Data | None = None
        self.generator = torch.Generator(rollout.actor_critic.limits.device)
        """Draws batches and noise."""

    @torch.no_grad()
    def add(self, states: Tensor, joint: Tensor) -> None:
        """Imagine one step of (u, η) `joint` `(n, q + h)` from `states` `(n, p)`; store it."""
        following, rewards = self._step(states, joint)
        finite = rewards.isfinite() & following.isfinite().all(dim=-1)
        data = Data(states, joint, following, rewards)
        self._rounds.append(Data(*(entry[finite] for entry in data)))
        self._rollout.left_out += len(states) - len(self._rounds[-1].states)
        self._imagined = Data(*(torch.cat(entry) for entry in zip(*self._rounds, strict=True)))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing imagined to learn from."""
        return self._imagined is None or not len(self._imagined.states)

    def sample(self, batch_size: int, env: object = None) -> ReplayBufferSamples:
        """A batch for the library's `train`, which names and calls it.

        Rewards are those of `expansion_steps` steps, the first as stored and the others imagined
        with the present policies, with what these earn besides, in units of the critic's scale.
        """
        data = self._draw(batch_size)
        rows, following, rewards = self._expanded(data)
        discount = self._settings.discount**self._settings.expansion_steps
        return ReplayBufferSamples(
            observations=data.states[rows],
            actions=data.joint[rows],
            next_observations=following,
            dones=torch.zeros(len(rows), 1),
            rewards=(rewards / self._actor_critic.critic.scale)[:, None],
            discounts=torch.full((len(rows), 1), discount),
        )

    def _step(self, states: Tensor, joint: Tensor) -> tuple[Tensor, Tensor]:
        """Imagined states `(n, p)` that follow, and rewards `(n,)`."""
        width = self._actor_critic.task.spec.predicted_dim
        noise = torch.randn(1, len(states), width, generator=self.generator)
        visited, earned = self._rollout.hold(states, joint, noise)
        return visited[1], earned[0]

    @torch.no_grad()
    def _expanded(self, data: Data) -> tuple[Tensor, Tensor, Tensor]:
        """What H = `expansion_steps` lead to, where that is finite.

        Returns:
            The rows of the data `(n,)`, states after H steps `(n, p)`, and discounted rewards
            until then `(n,)`.
        """
        rows, states, total = _finite(torch.arange(len(data.states)), data.following, data.rewards)
        for t in range(1, self._settings.expansion_steps):
            if not len(rows):  # None is left, and no model can be asked of none.
                break
            joint, bonus = self._follow(states)
            states, rewards = self._step(states, joint)
            total = total + self._settings.discount**t * (rewards + bonus)
            rows, states, total = _finite(rows, states, total)
        self._rollout.left_out += len(data.states) - len(rows)
        return rows, states, total

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
        actor_critic = self._actor_critic
        index = self._random_rows(len(self._recorded.states), count)
        states, efforts, following = self._recorded.part(index)[:3]
        eta = torch.randn(count, actor_critic.hallucination_dim, generator=self.generator)
        joint = torch.cat([efforts / actor_critic.limits, eta], dim=-1)
        return Data(
            states,
            joint,
            following,
            self._rollout.dynamics.reward(actor_critic.task, states, efforts),
        )

    def _random_rows(self, rows: int, count: int) -> Tensor:
        return torch.randint(rows, (count,), generator=self.generator)


class OffPolicy(PolicySearch):
    """An off-policy algorithm of the library, on our networks and a `Replay` (Algorithm 3).

    Twin action values Q(s, u, η) learn from imagined and real transitions; their targets are
    expanded by imagined steps (HVE). The policies climb Q.
    """

    _algorithm: SAC | TD3

    @abstractmethod
    def _make(self, arguments: dict[str, Any]) -> None:
        """Make the library's algorithm from the `arguments` of both and its own."""

    @abstractmethod
    def _put_policies(self, actor_critic: ActorCritic) -> None:
        """Replace the networks of the algorithm's actor by π and η."""

    @abstractmethod
    def _act(self, states: Tensor, actor_critic: ActorCritic, generator: Generator) -> Tensor:
        """Noisy (u, η) `(n, q + h)` of the policies at `states` `(n, p)`."""

    @abstractmethod
    def _follow(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """See `Follow`: the policies whose values are learned."""

    def begin(
        self, rollout: ModelRollout, starts: InitialStates, optimiser: GuardedAdam
    ) -> list[GuardedAdam]:
        """Put our networks, data and optimisers into the algorithm."""
        settings, actor_critic = self.settings, rollout.actor_critic
        assert actor_critic.action_values is not None
        arguments = common_arguments(actor_critic, optimiser)
        self._make({**arguments, "tau": settings.target_rate, "gamma": settings.discount})
        algorithm = self._algorithm
        set_up(algorithm, actor_critic)
        networks = list(actor_critic.action_values.networks)
        _put(networks, algorithm.critic)
        _put(deepcopy(networks), algorithm.critic_target)
        of_values = GuardedAdam(actor_critic.action_values.parameters(), settings.learning_rate)
        algorithm.critic.optimizer = of_values
        algorithm.actor.optimizer = optimiser
        self._replay = Replay(rollout, starts.recorded, settings, self._follow)
        # The library only ever asks it for samples.
        algorithm.replay_buffer = cast(ReplayBuffer, self._replay)
        self._put_policies(actor_critic)
        return [of_values]

    def improve_policies(
        self, states: Tensor, rollout: ModelRollout, optimiser: GuardedAdam, generator: Generator
    ) -> None:
        """Imagine a step of drawn actions from `states` `(n, p)`, then learn from all data."""
        self._replay.generator = generator
        with drawing_from(generator):
            with torch.no_grad():
                own = self._act(states, rollout.actor_critic, generator)
            wide = 2.0 * torch.rand(own.shape, generator=generator) - 1.0
            chosen = torch.rand(len(own), 1, generator=generator) < UNIFORM_SHARE
            self._replay.add(states, torch.where(chosen, wide, own))
            if self._replay.is_empty:  # Nothing was finite so far, and the library needs some.
                return
            self._algorithm.train(self.settings.policy_steps, self.settings.batch_size)


class Td3(OffPolicy):
    """TD3 (Fujimoto et al., 2018; stable-baselines3) on hallucinated data, with HVE."""

    _algorithm: TD3

    def _make(self, arguments: dict[str, Any]) -> None:
        noise = self.settings.candidate_noise
        self._algorithm = TD3(
            **arguments, target_policy_noise=noise, target_noise_clip=NOISE_CLIP * noise
        )

    def _put_policies(self, actor_critic: ActorCritic) -> None:
        self._algorithm.actor.mu = nn.Sequential(Means(actor_critic), nn.Tanh())
        self._algorithm.actor_target.mu = deepcopy(self._algorithm.actor.mu)

    def _act(self, states: Tensor, actor_critic: ActorCritic, generator: Generator) -> Tensor:
        joint = actor_critic.joint(states)
        noise = torch.randn(joint.shape, generator=generator)
        return (joint + self.settings.candidate_noise * noise).clamp(-1.0, 1.0)

    def _follow(self, states: Tensor) -> tuple[Tensor, Tensor]:
        return self._algorithm.actor(states), torch.zeros(len(states))


class Sac(OffPolicy):
    """SAC (Haarnoja et al., 2018; stable-baselines3) on hallucinated data, with HVE.

    As `td3`, with policies whose noise is learned and whose entropy is rewarded. The weight of
    the entropy falls with the step size, so that what is learned last is the policies' means,
    which are what a bundle plays.
    """

    _algorithm: SAC

    def _make(self, arguments: dict[str, Any]) -> None:
        # The target entropy is unused where the entropy's weight is given.
        weight = self.settings.entropy_weight
        self._algorithm = SAC(**arguments, ent_coef=weight, target_entropy=0.0)

    def _put_policies(self, actor_critic: ActorCritic) -> None:
        assert actor_critic.log_std is not None
        self._algorithm.actor.add_module("mu", Means(actor_critic))
        self._algorithm.actor.add_module("log_std", actor_critic.log_std)
        self._scale = actor_critic.critic.scale

    def _act(self, states: Tensor, actor_critic: ActorCritic, generator: Generator) -> Tensor:
        return self._follow(states)[0]

    def _follow(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Drawn (u, η) and the reward of their entropy, as in the values that close the target."""
        joint, log_prob = self._algorithm.actor.action_log_prob(states)
        return joint, -self._algorithm.ent_coef_tensor * self._scale * log_prob

    def improve_policies(
        self, states: Tensor, rollout: ModelRollout, optimiser: GuardedAdam, generator: Generator
    ) -> None:
        """As every off-policy search, with the present weight of the entropy."""
        share = optimiser.param_groups[0]["lr"] / self.settings.learning_rate
        self._algorithm.ent_coef_tensor.fill_(share * self.settings.entropy_weight)
        super().improve_policies(states, rollout, optimiser, generator)


def _finite(rows: Tensor, states: Tensor, totals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Those of which states `(n, p)` and totals `(n,)` are finite."""
    finite = states.isfinite().all(dim=-1) & totals.isfinite()
    return rows[finite], states[finite], totals[finite]


def _put(networks: list[nn.Module], critic: ContinuousCritic) -> None:
    for index, network in enumerate(networks):
        critic.add_module(f"qf{index}", network)
    critic.q_networks = networks
