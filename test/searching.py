"""Searches on the pushed mass, as the tests of searches need them."""

import torch
from linear_system import DISCOUNT, ExactStep, PushedMass

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.models import Transitions
from hucrl_ros.search import ActorCritic, InitialStates, ModelRollout, make_search


class Climb(PushedMass):
    """The further up the better: whatever moves upward is best."""

    def reward(self, state, action):
        return state[..., 0]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def settings_of(algorithm="lookahead", **changes):
    values = {
        "discount": DISCOUNT,
        "iterations": 120,
        "pool": 64,
        "rollout_steps": 4,
        "restart": 0.7,
        "policy_layers": (32, 32),
        "critic_layers": (32, 32),
        "batch_size": 128,
        "policy_noise": 0.0,
        "learning_rate": 1e-2,
        "trial_interval": 40,
    }
    return SearchSettings(algorithm=algorithm, **{**values, **changes})


def actors_of(settings, hallucination_dim=0, task=None, seed=0):
    return ActorCritic(task or PushedMass(0.0), hallucination_dim, settings, generator(seed))


def starts_of(task, recorded=None):
    recorded = recorded or Transitions(torch.zeros(0, 2), torch.zeros(0, 1), torch.zeros(0, 2))
    return InitialStates(task, recorded.states, 0.0, recorded)


def search(settings, step=None, task=None, seed=0, actors=None, gentle=False):
    """Search from fresh actors; returns the newest actors and the result."""
    step, task = step or ExactStep(), task or PushedMass(0.0)
    actors = actors or actors_of(settings, step.hallucination_dim, task, seed)
    first = task.imagined_states(8, generator(5))
    draws = generator(seed + 100)
    result = make_search(settings).improve(
        ModelRollout(actors, step), starts_of(task), first, draws, lambda share: None, gentle
    )
    return actors, result


def some_states(count=200):
    return PushedMass(0.0).imagined_states(count, generator(9))
