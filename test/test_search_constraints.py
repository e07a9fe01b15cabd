"""Searches keep away from constraints, and promise what is earned."""

import pytest
import torch
from linear_system import ExactStep
from searching import Climb, search, settings_of

from hucrl_ros.config.schema import ExplorationSettings
from hucrl_ros.models.exploration import ImaginedDynamics
from hucrl_ros.tasks.terms import tolerance


class Ceiling(Climb):
    """The further up the better, but not above 1; a margin is 0.1."""

    constraint_names = ("ceiling",)
    reward_range = 4.0
    ceiling = 1.0

    def room(self, state, action):
        return (self.ceiling - state[..., :1]) / 0.1


class Cellar(Ceiling):
    """Some starts are too high already."""

    ceiling = 0.0


class PayingStep(ExactStep):
    """The true next state, rewarded as strategies are."""

    settings = ExplorationSettings(constraint_penalty=1.0)
    for_task = True
    _share = 1.0
    counting = ImaginedDynamics.counting
    bonus = ImaginedDynamics.bonus
    pays = ImaginedDynamics.pays
    earned = ImaginedDynamics.earned
    reward = ImaginedDynamics.reward


@pytest.mark.parametrize("algorithm", ["lookahead", "pathwise"])
def test_policies_stop_below_a_constraint(algorithm):
    settings = settings_of(algorithm, rollout_steps=8, restart=0.3)
    _, free = search(settings, ExactStep(), Climb(0.0))
    assert float(free.episode.states[-1, :, 0].min()) > 1.5
    _, kept = search(settings, PayingStep(), Ceiling(0.0))
    heights = kept.episode.states[..., 0]
    assert float((heights > 1.0).float().mean()) < 0.05
    assert float(heights[-10:].mean()) > 0.3


def test_a_promise_is_what_is_earned_and_a_score_what_was_maximised():
    task, step = Cellar(0.0), PayingStep()
    _, found = search(settings_of(iterations=2, trial_interval=1), step, task)
    states, actions, rewards = found.episode
    assert torch.equal(rewards, states[:-1, :, 0])
    planned = step.reward(task, states[:-1], actions).sum(dim=0).mean()
    assert found.paid > 1.0
    assert found.promise == pytest.approx(float(rewards.sum(dim=0).mean()))
    assert found.score == pytest.approx(float(planned), rel=1e-5)


def test_where_nothing_is_paid_the_promise_is_what_was_maximised():
    _, found = search(settings_of(iterations=2, trial_interval=1), ExactStep(), Climb(0.0))
    assert found.paid == 0.0
    assert found.score == found.promise


class Ditch(Ceiling):
    """Between where it starts and what is worth something lies what a constraint forbids."""

    def room(self, state, action):
        place = state[..., :1]
        return ((place - 0.4).abs() - 0.1) / 0.1

    def reward(self, state, action):
        return tolerance(state[..., 0], 0.8, 2.0, 0.3)


@pytest.mark.parametrize("gentle", [False, True])
def test_a_gentle_search_comes_to_what_constraints_hide(gentle):
    task, step = Ditch(0.0), PayingStep()
    _, found = search(settings_of(iterations=40, rollout_steps=8), step, task, gentle=gentle)
    assert (found.promise > 20.0) == gentle
    assert step._share == 1.0
