"""SAC on hallucinated data."""

import torch
from stable_baselines3 import SAC
from torch import Tensor

from hucrl_ros.search.base import PolicySearch
from hucrl_ros.search.imagination import Imagination, Starts
from hucrl_ros.search.model_free import Means, policy_arguments
from hucrl_ros.search.off_policy import OffPolicy
from hucrl_ros.search.replay import Replay
from hucrl_ros.search.updates import GuardedAdam


class Sac(PolicySearch):
    """SAC (Haarnoja et al., 2018; stable-baselines3) on hallucinated data, with HVE.

    As `td3`, with policies whose noise is learned and whose entropy is rewarded. The weight of
    the entropy falls with the step size, so that what is learned last is the policies' means,
    which are what a bundle plays.
    """

    def begin(
        self, imagination: Imagination, starts: Starts, optimiser: GuardedAdam
    ) -> list[GuardedAdam]:
        """Build the algorithm around the actors."""
        settings, actors = self.settings, imagination.actors
        self._algorithm = SAC(
            "MlpPolicy",
            None,  # type: ignore[arg-type]
            learning_rate=lambda _: float(optimiser.param_groups[0]["lr"]),
            tau=settings.target_rate,
            gamma=settings.discount,
            ent_coef=settings.entropy_weight,
            target_entropy=0.0,  # unused where the weight is given
            policy_kwargs=policy_arguments(actors),
            device=actors.limits.device,
            _init_setup_model=False,
        )
        replay = Replay(imagination, starts.recorded, settings)
        self._off_policy = OffPolicy(self._algorithm, actors, replay, optimiser, settings)
        assert actors.log_std is not None
        self._algorithm.actor.add_module("mu", Means(actors))
        self._algorithm.actor.add_module("log_std", actors.log_std)
        return [self._off_policy.optimiser]

    def improve_policies(
        self,
        states: Tensor,
        imagination: Imagination,
        optimiser: GuardedAdam,
        generator: torch.Generator,
    ) -> None:
        """Imagine what drawn actions lead to in `states` `(n, p)`, then learn from all data."""
        settings = self.settings
        share = optimiser.param_groups[0]["lr"] / settings.learning_rate
        self._algorithm.ent_coef_tensor.fill_(share * settings.entropy_weight)

        def act(states: Tensor) -> Tensor:
            joint: Tensor = self._algorithm.actor(states)
            return joint

        self._off_policy.learn(states, act, generator)
