"""PPO on hallucinated data."""

import math
from collections.abc import Iterator
from typing import cast

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from torch import Generator, Tensor, nn
from torch.optim.swa_utils import AveragedModel

from hucrl_ros.search.base import GuardedAdam, PolicySearch
from hucrl_ros.search.model_free import Means, common_arguments, drawing_from, set_up
from hucrl_ros.search.model_rollout import InitialStates, ModelRollout, trace_targets


class Ppo(PolicySearch):
    """PPO (Schulman et al., 2017; stable-baselines3) on hallucinated data.

    The policies are Gaussians around what (π, η) squash, so that no probability piles up at the
    limits; the imagined system squashes what is drawn. Their standard deviation is fixed; as the
    mean of what is squashed is smaller than the squashed mean, the policies become too large by
    about its square. An advantage is the critic's TD(λ) target minus its value: generalised
    advantage estimation.

    The steps of a policy gradient stay noisy, so the average of the weights over the second half
    of a search (Polyak and Juditsky, 1992) is tried as well; near an optimum it is better.
    """

    def begin(
        self, rollout: ModelRollout, starts: InitialStates, optimiser: GuardedAdam
    ) -> list[GuardedAdam]:
        """Build the library's algorithm on our networks."""
        settings, actor_critic = self.settings, rollout.actor_critic
        algorithm = PPO(
            **common_arguments(actor_critic, optimiser, ortho_init=False),
            n_epochs=1,
            batch_size=settings.batch_size,
            clip_range=settings.ppo_clip,
            vf_coef=0.0,  # The critic has its own regression, as in every search.
        )
        set_up(algorithm, actor_critic)
        policy = algorithm.policy
        assert isinstance(policy, ActorCriticPolicy)
        policy.add_module("action_net", Means(actor_critic))
        policy.add_module("value_net", actor_critic.critic.network)
        policy.log_std = nn.Parameter(
            torch.full_like(policy.log_std, math.log(settings.candidate_noise)),
            requires_grad=False,
        )
        policy.optimizer = optimiser
        self._algorithm, self._policy = algorithm, policy
        self._average, self._done = AveragedModel(policy.action_net), 0
        return []

    def improve_policies(
        self, states: Tensor, rollout: ModelRollout, optimiser: GuardedAdam, generator: Generator
    ) -> None:
        """Imagine trajectories from some of `states` `(n, p)`, then learn from them."""
        settings = self.settings
        starts = states[torch.randperm(len(states), generator=generator)[: settings.pool]]
        samples = self._imagine(starts, rollout, generator)
        if len(samples.actions):  # Else nothing was finite, and the library can't do without.
            buffer = _RolloutBuffer(samples, settings.policy_steps, generator)
            # The library goes through all of it, in batches, and asks it for nothing else.
            self._algorithm.rollout_buffer = cast(RolloutBuffer, buffer)
            with drawing_from(generator):
                self._algorithm.train()
        self._done += 1
        if self._done > self.rounds - self.rounds // 2:
            self._average.update_parameters(self._policy.action_net)

    def alternatives(self) -> Iterator[None]:
        """The average of the policies' weights over the second half of the search."""
        if not self._average.n_averaged:
            return
        policies = self._policy.action_net
        newest = {name: weight.clone() for name, weight in policies.state_dict().items()}
        policies.load_state_dict(self._average.module.state_dict())
        try:
            yield
        finally:
            policies.load_state_dict(newest)

    @torch.no_grad()
    def _imagine(
        self, states: Tensor, rollout: ModelRollout, generator: Generator
    ) -> RolloutBufferSamples:
        """Roll the noisy policies out for `rollout_steps`."""
        settings, actor_critic = self.settings, rollout.actor_critic
        task, dynamics = actor_critic.task, rollout.dynamics
        visited, drawn, rewards = [states], [], []
        std = self._policy.log_std.exp()
        for _ in range(settings.rollout_steps):
            mean = self._policy.action_net(task.features(states))
            drawn.append(mean + std * torch.randn(mean.shape, generator=generator))
            joint = torch.tanh(drawn[-1])
            effort = actor_critic.effort(joint[:, : task.spec.action_dim])
            rewards.append(dynamics.reward(task, states, effort))
            noise = torch.randn(len(states), task.spec.predicted_dim, generator=generator)
            states = dynamics(states, effort, joint[:, task.spec.action_dim :], noise)
            visited.append(states)
        values = actor_critic.critic(torch.stack(visited))
        targets = trace_targets(torch.stack(rewards), values, settings.discount, settings.trace)
        scale = actor_critic.critic.scale
        observations, actions = torch.stack(visited[:-1]).flatten(0, 1), torch.cat(drawn)
        advantages = ((targets - values[:-1]) / scale).flatten()
        finite = advantages.isfinite() & observations.isfinite().all(dim=-1)
        observations, actions = observations[finite], actions[finite]
        rollout.left_out += len(finite) - len(actions)
        _, log_prob, _ = self._policy.evaluate_actions(observations, actions)
        return RolloutBufferSamples(
            observations=observations,
            actions=actions,
            old_values=(values[:-1] / scale).flatten()[finite],
            old_log_prob=log_prob,
            advantages=advantages[finite],
            returns=(targets / scale).flatten()[finite],
        )


class _RolloutBuffer:
    """The buffer that PPO's `train` reads: batches of one rollout, in the library's units."""

    def __init__(self, samples: RolloutBufferSamples, batches: int, generator: Generator) -> None:
        self._samples, self._batches, self._generator = samples, batches, generator
        self.values = samples.old_values.cpu().numpy()
        self.returns = samples.returns.cpu().numpy()

    def get(self, batch_size: int) -> Iterator[RolloutBufferSamples]:
        """`batches` random batches."""
        rows = len(self._samples.actions)
        for _ in range(self._batches):
            index = torch.randint(rows, (batch_size,), generator=self._generator)
            yield RolloutBufferSamples(*(entry[index] for entry in self._samples))
