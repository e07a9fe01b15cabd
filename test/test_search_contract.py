"""One contract suite over all policy searches."""

import logging
import math
from contextlib import contextmanager

import pytest
import torch
from linear_system import LIMIT, ExactStep, PushedMass
from searching import (
    Climb,
    actors_of,
    generator,
    search,
    settings_of,
    some_states,
    starts_of,
)
from torch import nn

from hucrl_ros.errors import LearningError
from hucrl_ros.search import SEARCHES, ModelRollout, base, make_search
from hucrl_ros.search.base import GuardedAdam
from hucrl_ros.tasks.terms import tolerance

SKIPPED = pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler")
"""For searches whose gradients are refused or replaced."""
EACH_SEARCH = pytest.mark.parametrize("algorithm", SEARCHES)


def tiny(algorithm, **changes):
    values = {
        "iterations": 3,
        "trial_interval": 1,
        "pool": 32,
        "policy_layers": (8,),
        "critic_layers": (8,),
        "batch_size": 16,
        "policy_steps": 2,
        "critic_steps": 2,
        "bptt_horizon": 2,
        "expansion_steps": 2,
    }
    return settings_of(algorithm, **{**values, **changes})


def flat(weights):
    return torch.cat([w.flatten() for w in weights.values()])


def is_finite(actors):
    return all(bool(weight.isfinite().all()) for weight in actors.state_dict().values())


@EACH_SEARCH
def test_a_search_depends_on_its_generator_alone(algorithm):
    weights = []
    for seed in (1, 1, 2):
        torch.rand(seed)  # nobody draws from the global generator
        _, result = search(tiny(algorithm), ExactStep(0.1), seed=seed)
        weights.append(flat(result.weights))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@EACH_SEARCH
def test_a_search_leaves_the_global_generator_alone(algorithm):
    actors = actors_of(tiny(algorithm), 2)
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    search(tiny(algorithm), ExactStep(0.1), actors=actors)
    assert torch.equal(torch.rand(4), expected)


@EACH_SEARCH
@pytest.mark.parametrize("hallucination", [0.0, 0.1])
def test_improving_policies_leaves_critic_and_model_alone(algorithm, hallucination):
    settings, step = tiny(algorithm), ExactStep(hallucination)
    actors = actors_of(settings, step.hallucination_dim)
    before = {name: value.clone() for name, value in actors.state_dict().items()}
    optimiser = GuardedAdam(actors.policy_parameters(), 1e-2)
    searching = make_search(settings)
    rollout = ModelRollout(actors, step)
    searching.begin(rollout, starts_of(actors.task), optimiser)
    searching.improve_policies(some_states(64), rollout, optimiser, generator())
    changed = {
        name for name, value in actors.state_dict().items() if (value != before[name]).any()
    }
    policies = {"policy", "hallucination"} if hallucination else {"policy"}
    found = {name.partition(".")[0] for name in changed}
    assert policies <= found <= policies | {"action_values", "log_std"}


@EACH_SEARCH
def test_learning_goes_on_from_all_that_was_learned(algorithm):
    """Nothing that a search learns hides outside of `ActorCritic`, which checkpoints keep."""
    settings, step = tiny(algorithm), ExactStep(0.1)
    actors, _ = search(settings, step)
    copy = actors_of(settings, 2, seed=7)
    copy.load_state_dict(actors.state_dict())
    _, first = search(settings, step, seed=4, actors=actors)
    _, second = search(settings, step, seed=4, actors=copy)
    assert torch.equal(flat(first.weights), flat(second.weights))


class Patchy(PushedMass):
    """No number in a corner where many trajectories start."""

    steps = 5

    def reward(self, state, action):
        known = (state > 0.2).sum(dim=-1) < 2
        return super().reward(state, action).where(known, math.nan)

    def imagined_states(self, count, generator):
        states = super().imagined_states(count, generator)
        return states if count > 8 else torch.zeros_like(states)  # trials start and stay there


@SKIPPED
@EACH_SEARCH
def test_rewards_that_are_no_numbers_are_left_out_and_reported(algorithm, caplog):
    with caplog.at_level(logging.WARNING, "hucrl_ros.search"):
        actors, result = search(tiny(algorithm), task=Patchy(0.0))
    assert is_finite(actors) and flat(result.weights).isfinite().all()
    assert result.refused > 0
    assert result.episode.rewards.isfinite().all()
    assert "imagined trajectories left out" in caplog.text
    fresh = actors_of(tiny(algorithm), task=Patchy(0.0))
    assert not torch.equal(flat(fresh.state_dict()), flat(actors.state_dict()))  # it went on


class Timid(PushedMass):
    """No number for what fresh policies never do, but a search tries."""

    steps = 5

    def reward(self, state, action):
        known = action[..., 0].abs() < 0.5 * LIMIT
        return super().reward(state, action).where(known, math.nan)


@pytest.mark.parametrize("algorithm", ["lookahead", "mpo", "sac", "td3", "ppo"])
def test_what_is_tried_and_gives_no_number_is_counted(algorithm, monkeypatch):
    whole = []
    monkeypatch.setattr(base, "finite_part", lambda imagined: whole.append(imagined) or imagined)
    settings = tiny(algorithm, iterations=1, candidate_noise=0.5)
    actors, result = search(settings, task=Timid(0.0))
    assert len(whole) == 1 and whole[0].rewards.isfinite().all()
    assert is_finite(actors)
    assert result.refused > 0


class Cornered(ExactStep):
    """Imagines no number where a corner of the state space would be left."""

    def forward(self, state, action, eta, noise):
        known = (state > 0.2).sum(dim=-1, keepdim=True) < 2
        return super().forward(state, action, eta, noise).where(known, math.nan)


@SKIPPED
@EACH_SEARCH
def test_a_step_without_a_number_is_left_out_and_the_search_goes_on(algorithm):
    task = Patchy(0.0)
    task.reward = PushedMass(0.0).reward
    actors, result = search(tiny(algorithm), Cornered(0.1), task=task)
    assert is_finite(actors) and flat(result.weights).isfinite().all()
    fresh = actors_of(tiny(algorithm), task=task)
    assert not torch.equal(flat(fresh.state_dict()), flat(actors.state_dict()))


@EACH_SEARCH
def test_a_sound_search_refuses_nothing_and_says_nothing(algorithm, caplog):
    _, result = search(tiny(algorithm), ExactStep(0.1))
    assert result.refused == 0
    assert not caplog.records


class Poisoned(torch.autograd.Function):
    """The identity, with a gradient that is no number."""

    @staticmethod
    def forward(context, values):
        return values.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient * math.nan


@SKIPPED
@EACH_SEARCH
def test_gradients_that_are_no_numbers_leave_the_policies_as_they_were(algorithm):
    settings, step = tiny(algorithm), ExactStep(0.1)
    actors = actors_of(settings, 2)
    for network in (actors.policy.network, actors.hallucination.network):
        network.register_forward_hook(lambda module, inputs, output: Poisoned.apply(output))
    before = [weight.clone() for weight in actors.policy_parameters()]
    _, result = search(settings, step, actors=actors)
    assert result.refused >= settings.iterations
    assert is_finite(actors)
    for old, new in zip(before, actors.policy_parameters(), strict=True):
        assert torch.equal(old, new)


class Broken(ExactStep):
    """Imagines no number."""

    def forward(self, state, action, eta, noise):
        return super().forward(state, action, eta, noise) * math.nan


@SKIPPED
@EACH_SEARCH
def test_an_imagination_without_numbers_is_an_error_and_spoils_no_weights(algorithm):
    settings = tiny(algorithm)
    actors = actors_of(settings, 2)
    before = flat(actors.state_dict()).clone()
    with pytest.raises(LearningError, match="not finite"):
        search(settings, Broken(0.1), actors=actors)
    assert torch.equal(flat(actors.state_dict()), before)


@SKIPPED
def test_the_best_trial_is_what_is_returned():
    settings = settings_of(iterations=4, trial_interval=1, critic_steps=1)

    class Staged(SEARCHES["lookahead"]):
        biases = iter([0.0, 2.0, 1.0, -1.0])

        def improve_policies(self, states, rollout, optimiser, generator):
            with torch.no_grad():
                actors.policy.network[-1].weight.zero_()
                actors.policy.network[-1].bias.fill_(next(self.biases))

    task = Climb(0.0)
    actors, starts = actors_of(settings, task=task), starts_of(task)
    first, shares = task.imagined_states(3, generator(5)), []
    result = Staged(settings).improve(
        ModelRollout(actors, ExactStep()), starts, first, generator(), shares.append
    )
    assert float(result.weights["policy.network.4.bias"]) == 2.0
    assert actors.policy.network[-1].bias.item() == -1.0  # the next search goes on from here
    assert shares == [0.25, 0.5, 0.75, 1.0]
    actors.load_state_dict(result.weights)
    again = ModelRollout(actors, ExactStep()).imagine(first, task.steps)
    torch.testing.assert_close(again.rewards, result.episode.rewards)
    assert result.episode.rewards.shape == (task.steps, 3)


def test_a_stopped_search_leaves_nothing_frozen():
    task, settings = PushedMass(0.0), settings_of("pathwise")
    actors, step = actors_of(settings), ExactStep()
    step.gain = nn.Parameter(torch.ones(()))
    step.fixed = nn.Parameter(torch.ones(()), requires_grad=False)

    def stop(*arguments):
        assert not step.gain.requires_grad
        assert not any(p.requires_grad for p in actors.critic.parameters())
        raise KeyboardInterrupt

    searching = make_search(settings)
    searching.improve_policies = stop
    rollout = ModelRollout(actors, step)
    first = task.imagined_states(2, generator())
    with pytest.raises(KeyboardInterrupt):
        searching.improve(rollout, starts_of(task), first, generator(), lambda share: None)
    assert all(parameter.requires_grad for parameter in (step.gain, *actors.parameters()))
    assert not step.fixed.requires_grad


# Which search for which task


class Wall(PushedMass):
    """Weak efforts are free, medium ones cost, one strong effort pays."""

    steps = 5

    def reward(self, state, action):
        share = action[..., 0] / LIMIT
        cost = 0.2 * (tolerance(share, -0.1, 0.1, 0.1) - 1.0)
        return cost + tolerance(share, 0.85, 0.95, 0.1)


@pytest.mark.parametrize(("algorithm", "escapes"), [("lookahead", True), ("pathwise", False)])
def test_looking_ahead_crosses_the_wall_around_doing_nothing(algorithm, escapes):
    _, result = search(settings_of(algorithm, iterations=40), task=Wall(0.0))
    shares = result.episode.actions / LIMIT
    found = (shares > 0.7) if escapes else (shares.abs() < 0.2)
    assert found.float().mean() > 0.9
    assert (float(result.episode.rewards.mean()) > 0.3) == escapes  # 0.8 at best


class Slope(Wall):
    """As the wall, but without the cost of medium efforts it is uphill from nothing."""

    share = 1.0

    @contextmanager
    def counting(self, share):
        self.share = share
        yield
        self.share = 1.0

    def reward(self, state, action):
        share = action[..., 0] / LIMIT
        cost = 0.2 * (tolerance(share, -0.1, 0.1, 0.1) - 1.0)
        return self.share * cost + tolerance(share, 0.85, 0.95, 0.2)


@pytest.mark.parametrize("gentle", [False, True])
def test_a_gentle_search_comes_to_what_the_action_penalty_hides(gentle):
    task = Slope(0.0)
    _, result = search(settings_of("pathwise", iterations=40), task=task, gentle=gentle)
    shares = result.episode.actions / LIMIT
    assert (float(shares.mean()) > 0.7) == gentle
    assert (float(result.episode.rewards.mean()) > 0.6) == gentle  # 0.8, with its whole cost
    assert task.share == 1.0
