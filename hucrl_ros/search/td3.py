"""TD3 on hallucinated data."""

from copy import deepcopy

import torch
from stable_baselines3 import TD3
from torch import Tensor, nn

from hucrl_ros.search.base import PolicySearch
from hucrl_ros.search.imagination import Imagination, Starts
from hucrl_ros.search.model_free import Means, policy_arguments
from hucrl_ros.search.off_policy import OffPolicy
from hucrl_ros.search.replay import Replay
from hucrl_ros.search.updates import GuardedAdam

NOISE_CLIP = 2.5
"""Largest target noise [standard deviations], as in TD3's paper."""


class Td3(PolicySearch):
    """TD3 (Fujimoto et al., 2018; stable-baselines3) on hallucinated data, with HVE.

    Twin action values Q(s, u, η) learn from imagined and real transitions; their targets are
    expanded by imagined steps. The policies climb Q.
    """

    def begin(
        self, imagination: Imagination, starts: Starts, optimiser: GuardedAdam
    ) -> list[GuardedAdam]:
        """Build the algorithm around the actors."""
        settings, actors = self.settings, imagination.actors
        algorithm = TD3(
            "MlpPolicy",
            None,  # type: ignore[arg-type]
            learning_rate=lambda _: float(optimiser.param_groups[0]["lr"]),
            tau=settings.target_rate,
            gamma=settings.discount,
            target_policy_noise=settings.candidate_noise,
            target_noise_clip=NOISE_CLIP * settings.candidate_noise,
            policy_kwargs=policy_arguments(actors),
            device=actors.limits.device,
            _init_setup_model=False,
        )
        replay = Replay(imagination, starts.recorded, settings)
        self._off_policy = OffPolicy(algorithm, actors, replay, optimiser, settings)
        algorithm.actor.mu = nn.Sequential(Means(actors), nn.Tanh())
        algorithm.actor_target.mu = deepcopy(algorithm.actor.mu)
        return [self._off_policy.optimiser]

    def improve_policies(
        self,
        states: Tensor,
        imagination: Imagination,
        optimiser: GuardedAdam,
        generator: torch.Generator,
    ) -> None:
        """Imagine what noisy actions lead to in `states` `(n, p)`, then learn from all data."""

        def act(states: Tensor) -> Tensor:
            joint = imagination.actors.joint(states)
            noise = torch.randn(joint.shape, generator=generator)
            return (joint + self.settings.candidate_noise * noise).clamp(-1.0, 1.0)

        self._off_policy.learn(states, act, generator)
