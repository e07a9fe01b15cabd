"""SAC on hallucinated data."""

from stable_baselines3 import SAC
from torch import Generator, Tensor

from hucrl_ros.search.base import GuardedAdam, PolicySearch
from hucrl_ros.search.model_free import Means, policy_arguments
from hucrl_ros.search.model_rollout import InitialStates, ModelRollout
from hucrl_ros.search.off_policy import OffPolicy, Replay


class Sac(PolicySearch):
    """SAC (Haarnoja et al., 2018; stable-baselines3) on hallucinated data, with HVE.

    As `td3`, with policies whose noise is learned and whose entropy is rewarded. The weight of
    the entropy falls with the step size, so that what is learned last is the policies' means,
    which are what a bundle plays.
    """

    def begin(
        self, rollout: ModelRollout, starts: InitialStates, optimiser: GuardedAdam
    ) -> list[GuardedAdam]:
        """Build the library's algorithm on our networks."""
        settings, actor_critic = self.settings, rollout.actor_critic
        self._algorithm = SAC(
            "MlpPolicy",
            None,  # type: ignore[arg-type]
            learning_rate=lambda _: float(optimiser.param_groups[0]["lr"]),
            tau=settings.target_rate,
            gamma=settings.discount,
            ent_coef=settings.entropy_weight,
            target_entropy=0.0,  # unused where the weight is given
            policy_kwargs=policy_arguments(actor_critic),
            device=actor_critic.limits.device,
            _init_setup_model=False,
        )
        replay = Replay(rollout, starts.recorded, settings)
        self._off_policy = OffPolicy(self._algorithm, actor_critic, replay, optimiser, settings)
        assert actor_critic.log_std is not None
        self._algorithm.actor.add_module("mu", Means(actor_critic))
        self._algorithm.actor.add_module("log_std", actor_critic.log_std)
        return [self._off_policy.optimiser]

    def improve_policies(
        self, states: Tensor, rollout: ModelRollout, optimiser: GuardedAdam, generator: Generator
    ) -> None:
        """Imagine a step of drawn actions from `states` `(n, p)`, then learn from all data."""
        settings = self.settings
        share = optimiser.param_groups[0]["lr"] / settings.learning_rate
        self._algorithm.ent_coef_tensor.fill_(share * settings.entropy_weight)

        def act(states: Tensor) -> Tensor:
            joint: Tensor = self._algorithm.actor(states)
            return joint

        self._off_policy.learn(states, act, generator)
