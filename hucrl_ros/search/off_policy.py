"""What `sac` and `td3` have in common: hallucinated data, action values, the library's `train`."""

from collections.abc import Callable
from copy import deepcopy
from typing import cast

import torch
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.policies import ContinuousCritic
from torch import Tensor, nn

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.search.actors import Actors
from hucrl_ros.search.model_free import drawing_from, set_up
from hucrl_ros.search.replay import Replay
from hucrl_ros.search.updates import GuardedAdam

UNIFORM_SHARE = 0.5
"""Share of imagined actions that are uniform over their range. Nothing forbids to imagine them,
and values that only ever saw the policies' own actions have a poor gradient elsewhere."""


class OffPolicy:
    """An off-policy algorithm on the networks of `Actors` and the data of a `Replay`."""

    def __init__(
        self,
        algorithm: SAC | TD3,
        actors: Actors,
        replay: Replay,
        optimiser: GuardedAdam,
        settings: SearchSettings,
    ) -> None:
        """Put our networks, data and optimisers into `algorithm`.

        Args:
            algorithm: Without environment and networks yet.
            actors: Hold the networks.
            replay: Holds the data.
            optimiser: Of the policies; its step size holds for the action values too.
            settings: Steps and batch size.
        """
        assert actors.action_values is not None
        set_up(algorithm, actors)
        networks = list(actors.action_values.networks)
        _put(networks, algorithm.critic)
        _put(deepcopy(networks), algorithm.critic_target)
        self.optimiser = GuardedAdam(actors.action_values.parameters(), settings.learning_rate)
        """Of the action values."""
        algorithm.critic.optimizer = self.optimiser
        algorithm.actor.optimizer = optimiser
        # The library only ever asks it for samples.
        algorithm.replay_buffer = cast(ReplayBuffer, replay)
        self._algorithm, self._replay, self._settings = algorithm, replay, settings

    def learn(
        self, states: Tensor, act: Callable[[Tensor], Tensor], generator: torch.Generator
    ) -> None:
        """One round of Algorithm 3.

        Args:
            states: `(n, p)` from which data are imagined.
            act: Draws the policies' (u, η) `(n, q + h)` for states.
            generator: Draws everything random.
        """
        self._replay.generator = generator
        with drawing_from(generator):
            with torch.no_grad():
                own = act(states)
            wide = 2.0 * torch.rand(own.shape, generator=generator) - 1.0
            chosen = torch.rand(len(own), 1, generator=generator) < UNIFORM_SHARE
            self._replay.add(states, torch.where(chosen, wide, own))
            self._algorithm.train(self._settings.policy_steps, self._settings.batch_size)


def _put(networks: list[nn.Module], critic: ContinuousCritic) -> None:
    for index, network in enumerate(networks):
        critic.add_module(f"qf{index}", network)
    critic.q_networks = networks
