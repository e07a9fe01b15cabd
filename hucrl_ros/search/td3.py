"""TD3 on hallucinated data."""

from copy import deepcopy

import torch
from stable_baselines3 import TD3
from torch import Generator, Tensor, nn

from hucrl_ros.search.base import GuardedAdam, PolicySearch
from hucrl_ros.search.model_free import Means, policy_arguments
from hucrl_ros.search.model_rollout import InitialStates, ModelRollout
from hucrl_ros.search.off_policy import OffPolicy, Replay

NOISE_CLIP = 2.5
"""Largest target noise [standard deviations], as in TD3's paper."""


class Td3(PolicySearch):
    """TD3 (Fujimoto et al., 2018; stable-baselines3) on hallucinated data, with HVE.

    Twin action values Q(s, u, η) learn from imagined and real transitions; their targets are
    expanded by imagined steps. The policies climb Q.
    """

    def begin(
        self, rollout: ModelRollout, starts: InitialStates, optimiser: GuardedAdam
    ) -> list[GuardedAdam]:
        """Build the library's algorithm on our networks."""
        settings, actor_critic = self.settings, rollout.actor_critic
        algorithm = TD3(
            "MlpPolicy",
            None,  # type: ignore[arg-type]
            learning_rate=lambda _: float(optimiser.param_groups[0]["lr"]),
            tau=settings.target_rate,
            gamma=settings.discount,
            target_policy_noise=settings.candidate_noise,
            target_noise_clip=NOISE_CLIP * settings.candidate_noise,
            policy_kwargs=policy_arguments(actor_critic),
            device=actor_critic.limits.device,
            _init_setup_model=False,
        )
        replay = Replay(rollout, starts.recorded, settings)
        self._off_policy = OffPolicy(algorithm, actor_critic, replay, optimiser, settings)
        algorithm.actor.mu = nn.Sequential(Means(actor_critic), nn.Tanh())
        algorithm.actor_target.mu = deepcopy(algorithm.actor.mu)
        return [self._off_policy.optimiser]

    def improve_policies(
        self, states: Tensor, rollout: ModelRollout, optimiser: GuardedAdam, generator: Generator
    ) -> None:
        """Imagine a step of noisy actions from `states` `(n, p)`, then learn from all data."""

        def act(states: Tensor) -> Tensor:
            joint = rollout.actor_critic.joint(states)
            noise = torch.randn(joint.shape, generator=generator)
            return (joint + self.settings.candidate_noise * noise).clamp(-1.0, 1.0)

        self._off_policy.learn(states, act, generator)
