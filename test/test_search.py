"""The parts that policy searches are made of."""

import math

import numpy as np
import pytest
import torch
from linear_system import DISCOUNT, LIMIT, ExactStep, PushedMass, next_state
from searching import Climb, actors_of, generator, settings_of, some_states, starts_of
from torch import nn

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.search import ActorCritic, InitialStates, ModelRollout, Mpo, make_search
from hucrl_ros.search.base import GuardedAdam, descend
from hucrl_ros.search.candidates import e_step_temperature
from hucrl_ros.search.model_rollout import RolloutPool, finite_part, trace_targets
from hucrl_ros.tasks import make_task

# Imagination


def test_targets_without_trace_look_one_step_ahead():
    rewards, values = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[9.0], [4], [5], [6]])
    targets = trace_targets(rewards, values, 0.5, 0.0)
    assert targets.flatten().tolist() == [1 + 0.5 * 4, 2 + 0.5 * 5, 3 + 0.5 * 6]


def test_targets_with_full_trace_are_returns_closed_by_the_critic():
    rewards, values = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[9.0], [4], [5], [6]])
    targets = trace_targets(rewards, values, 0.5, 1.0)
    last = 3 + 0.5 * 6
    assert targets.flatten().tolist() == [1 + 0.5 * (2 + 0.5 * last), 2 + 0.5 * last, last]


def test_targets_between_are_the_weighted_mean_of_all_lookaheads():
    rewards, values = torch.randn(3, 4, generator=generator()), torch.randn(4, 4)
    discount, trace = 0.9, 0.7
    lookaheads = [
        sum(discount**k * rewards[k] for k in range(n)) + discount**n * values[n]
        for n in (1, 2, 3)
    ]
    weights = [1 - trace, (1 - trace) * trace, trace**2]
    expected = sum(w * g for w, g in zip(weights, lookaheads, strict=True))
    torch.testing.assert_close(trace_targets(rewards, values, discount, trace)[0], expected)


def test_a_noiseless_rollout_follows_policy_and_step():
    actors, step, states = actors_of(settings_of(), 2), ExactStep(0.1), some_states(5)
    imagined = ModelRollout(actors, step).imagine(states, 3)
    assert imagined.states.shape == (4, 5, 2)
    for t in range(3):
        here = imagined.states[t]
        effort = LIMIT * actors.policy(here)
        torch.testing.assert_close(imagined.actions[t], effort)
        torch.testing.assert_close(imagined.rewards[t], actors.task.reward(here, effort))
        following = next_state(here, effort) + 0.1 * actors.eta(here)
        torch.testing.assert_close(imagined.states[t + 1], following)


def test_noisy_efforts_stay_within_their_limits():
    imagined = ModelRollout(actors_of(settings_of()), ExactStep()).imagine(
        some_states(50), 4, generator(), policy_noise=2.0
    )
    assert imagined.actions.abs().max() == LIMIT
    assert (imagined.actions.abs() < LIMIT).any()


def test_starts_mix_visited_states_and_those_of_the_task():
    visited = torch.tensor([[7.0, 7.0], [8.0, 8.0]])
    for share, expected in ((0.0, 0.0), (0.3, 0.3), (1.0, 1.0)):
        states = InitialStates(PushedMass(0.0), visited, share).draw(2000, generator())
        recorded = (states[:, 0] > 5.0).float().mean()
        assert float(recorded) == pytest.approx(expected, abs=0.05)
    assert len(InitialStates(PushedMass(0.0), torch.zeros(0, 2), 1.0).draw(9, generator())) == 9


def test_a_pool_goes_on_where_it_was_and_some_start_anew():
    settings = settings_of(pool=500, restart=0.2)
    starts = InitialStates(PushedMass(0.0), torch.zeros(0, 2), 0.0)
    pool, actors = RolloutPool(starts, settings, generator()), actors_of(settings)
    before, after = (pool.advance(ModelRollout(actors, ExactStep())) for _ in range(2))
    went_on = (before.states[-1] == after.states[0]).all(dim=1).float().mean()
    assert float(went_on) == pytest.approx(0.8, abs=0.06)


# What all searches share


@pytest.mark.parametrize("hallucination_dim", [0, 2])
def test_answers_are_bounded_for_any_state(hallucination_dim):
    actors = actors_of(settings_of(), hallucination_dim)
    with torch.no_grad():
        for parameter in actors.parameters():
            parameter.mul_(1e3)
    answers = actors.joint(1e6 * torch.randn(20, 2, generator=generator()))
    assert answers.shape == (20, 1 + hallucination_dim)
    assert answers.abs().max() <= 1.0
    assert actors.effort(answers[:, :1]).abs().max() <= LIMIT


def test_a_step_whose_gradient_is_not_finite_is_refused_and_counted():
    weight = nn.Parameter(torch.ones(2))
    optimiser = GuardedAdam([weight], lr=0.1)
    for _ in range(3):
        descend((weight * torch.tensor([math.nan, 1.0])).sum(), optimiser)
    assert torch.equal(weight, torch.ones(2))
    assert (optimiser.refused, len(optimiser.state)) == (3, 0)  # not even Adam's moments moved
    descend((weight * torch.tensor([3.0, math.inf])).sum(), optimiser)
    assert optimiser.refused == 4
    descend((weight * torch.tensor([30.0, 40.0])).sum(), optimiser)
    torch.testing.assert_close(weight.detach(), torch.tensor([0.9, 0.9]))
    torch.testing.assert_close(weight.grad, torch.tensor([0.6, 0.8]))  # clipped to length 1


def test_trajectories_with_something_not_finite_are_left_out():
    imagined = ModelRollout(actors_of(settings_of()), ExactStep()).imagine(some_states(5), 3)
    assert finite_part(imagined) is imagined
    imagined.rewards[1, 2] = math.nan
    imagined.states[3, 4, 0] = math.inf
    kept = finite_part(imagined)
    assert torch.equal(kept.states, imagined.states[:, [0, 1, 3]])
    assert torch.equal(kept.rewards, imagined.rewards[:, [0, 1, 3]])


def test_a_pool_starts_anew_where_it_lost_a_trajectory():
    settings = settings_of(pool=50, restart=0.0)
    pool, actors = (
        RolloutPool(starts_of(PushedMass(0.0)), settings, generator()),
        actors_of(settings),
    )
    pool._states[7] = math.nan
    assert pool.advance(ModelRollout(actors, ExactStep())).states.isfinite().all()


class Cliff(PushedMass):
    """No number for strong efforts."""

    def reward(self, state, action):
        return super().reward(state, action).where(action[..., 0].abs() < 2.0, math.nan)


def test_a_candidate_without_a_value_counts_as_the_worst():
    task, states = Cliff(0.0), some_states(6)
    actors = actors_of(settings_of(), task=task)
    candidates = torch.tensor([-0.9, 0.0, 0.3, 0.9])[:, None, None].expand(4, 6, 1)
    with torch.no_grad():
        values = ModelRollout(actors, ExactStep()).values_of(
            states, candidates, DISCOUNT, generator(), draws=2
        )
    assert torch.equal(values[[0, 3]], values[1:3].amin(dim=0).expand(2, 6))
    with torch.no_grad():
        hopeless = ModelRollout(actors, ExactStep()).values_of(
            states, candidates[[0, 3]], DISCOUNT, generator(), draws=2
        )
    assert torch.equal(hopeless, torch.zeros(2, 6))


@pytest.mark.parametrize("draws", [0, 2])
@pytest.mark.parametrize("steps", [1, 2, 3])
@torch.no_grad()
def test_a_candidate_lasts_for_the_steps_that_are_asked_for(steps, draws):
    actors, step, states = actors_of(settings_of(), 2), ExactStep(0.1), some_states(6)
    candidates = 2.0 * torch.rand(3, 6, 3, generator=generator(1)) - 1.0
    rollout = ModelRollout(actors, step)
    values = rollout.values_of(states, candidates, 0.7, generator(), draws, steps)
    offset = candidates - actors.joint(states)
    expected, here = 0.0, states.expand(3, 6, 2)
    for t in range(steps):
        joint = (actors.joint(here) + offset).clamp(-1.0, 1.0)
        effort, eta = LIMIT * joint[..., :1], joint[..., 1:]
        expected = expected + 0.7**t * actors.task.reward(here, effort)
        here = next_state(here, effort) + 0.1 * eta
    expected = expected + 0.7**steps * actors.critic(here)
    torch.testing.assert_close(values, expected)


@torch.no_grad()
def test_to_change_nothing_is_worth_what_the_policies_earn():
    """So that what is learned from a comparison with it is an improvement of them."""
    actors, states = actors_of(settings_of(), 2), 3.0 * some_states(6)
    rollout = ModelRollout(actors, ExactStep(0.1))
    own = actors.joint(states)[None]
    value = rollout.values_of(states, own, 0.7, generator(), 0, 5)[0]
    episode = rollout.imagine(states, 5)
    weights = 0.7 ** torch.arange(5.0)
    expected = weights @ episode.rewards + 0.7**5 * actors.critic(episode.states[-1])
    torch.testing.assert_close(value, expected)


SIGMA = 0.5


class Shaken(ExactStep):
    """Noise of deviation `SIGMA` in the speed."""

    def forward(self, state, action, eta, noise):
        shaken = torch.tensor([0.0, SIGMA]) * noise
        return super().forward(state, action, eta, noise) + shaken


class Slowness(nn.Module):
    """V = −v²."""

    def forward(self, states):
        return -(states[..., 1] ** 2)


def resting(algorithm, **changes):
    """A search, its rollout and states at rest, where the best candidate is to do nothing.

    A share u of the limit costs 0.8 u² and makes the speed 0.8 u + SIGMA ε, so that it is worth
    −1.44 u² − SIGMA² on average. Who knows ε chooses −0.56 SIGMA ε.
    """
    settings = settings_of(algorithm, discount=1.0 - 1e-6, **changes)
    actors = actors_of(settings)
    actors.critic = Slowness()
    rest = torch.zeros(400, 2)
    return make_search(settings), ModelRollout(actors, Shaken()), rest


@pytest.mark.parametrize("draws", [0, 2, 4])
def test_no_candidate_counteracts_noise_that_the_robot_does_not_know(draws):
    searching, rollout, rest = resting("lookahead", noise_draws=draws)
    chosen = searching._best_candidates(rest, rollout, generator())
    assert float(chosen.square().mean().sqrt()) < 0.1
    searching, rollout, rest = resting("mpo", noise_draws=draws)
    samples = torch.linspace(-1.0, 1.0, 41)[:, None, None].expand(41, len(rest), 1)
    weights = searching._weights(rest, samples, rollout, generator())
    means = (weights[..., None] * samples).sum(dim=0)
    assert float(means.square().mean().sqrt()) < 0.01


@pytest.mark.parametrize("draws", [2, 8])
def test_a_candidate_is_worth_its_expected_value(draws):
    _, rollout, rest = resting("lookahead")
    shares = torch.linspace(-1.0, 1.0, 5)
    candidates = shares[:, None, None].expand(5, len(rest), 1)
    values = rollout.values_of(rest, candidates, 1.0, generator(), draws)
    found, error = values.mean(dim=1), values.std(dim=1) / len(rest) ** 0.5
    expected = -1.44 * shares**2 - SIGMA**2
    assert ((found - expected).abs() < 3.0 * error).all()
    best = values.amax(dim=0).mean()
    assert float(best) == pytest.approx(-(SIGMA**2), abs=3.0 * float(error[2]))


@pytest.mark.parametrize(("steps", "share"), [(1, 0.0), (3, 1.0)])
def test_lookahead_learns_what_only_held_actions_show(steps, share):
    """A force moves the mass in the second step at the earliest, and this critic knows nothing."""
    settings, task = settings_of(candidate_steps=steps), Climb(0.0)
    actors = actors_of(settings, task=task)
    with torch.no_grad():
        for network in (actors.policy.network, actors.critic.network):
            network[-1].weight.zero_()
            network[-1].bias.zero_()
    searching, draws = make_search(settings), generator()
    optimiser = GuardedAdam(actors.policy_parameters(), 3e-2)
    for _ in range(60):
        rollout = ModelRollout(actors, ExactStep())
        searching.improve_policies(some_states(), rollout, optimiser, draws)
    learned = actors.policy(some_states()).detach()
    assert float(learned.mean()) == pytest.approx(share, abs=0.1)


# Networks


def test_policies_and_critic_see_angles_as_turns():
    task = make_task("pendulum", 0.2)
    settings = SearchSettings(policy_layers=(8,), critic_layers=(8,))
    actors = ActorCritic(task, 2, settings, generator())
    states = task.imagined_states(9, generator(1))
    turned = states + torch.tensor([2 * math.pi, 0.0])
    torch.testing.assert_close(actors.joint(turned), actors.joint(states), atol=1e-5, rtol=0)
    torch.testing.assert_close(actors.critic(turned), actors.critic(states), atol=1e-4, rtol=0)


def test_policies_start_near_doing_nothing_and_the_critic_near_zero():
    actors = actors_of(settings_of(), 2)
    with torch.no_grad():
        assert actors.joint(some_states()).abs().max() < 0.3
        assert actors.critic(some_states()).abs().max() < 0.5 * float(actors.critic.scale)
    assert float(actors.critic.scale) == pytest.approx(0.2 / (1 - DISCOUNT))


# MPO


def gaussian_values(samples=400, states=30, spread=1.0, between=0.0):
    draws = np.random.default_rng(0)
    return spread * draws.normal(size=(samples, states)) + between * draws.normal(size=states)


def divergence_of(values, temperature):
    """Mean KL divergence of the weights from uniform ones."""
    weights = torch.softmax(torch.tensor(values) / temperature, dim=0)
    return float((weights * torch.log(weights * len(values) + 1e-300)).sum(dim=0).mean())


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e3])
def test_the_temperature_keeps_the_weights_within_epsilon(epsilon, spread):
    values = gaussian_values(spread=spread)
    temperature = e_step_temperature(values, epsilon)
    assert divergence_of(values, temperature) == pytest.approx(epsilon, rel=0.02)
    # For Gaussian values, KL = σ² / 2T².
    assert temperature == pytest.approx(spread / math.sqrt(2 * epsilon), rel=0.1)


def test_the_temperature_ignores_how_much_states_differ_in_value():
    values = gaussian_values(spread=1e-3, between=20.0)
    assert divergence_of(values, e_step_temperature(values, 0.1)) == pytest.approx(0.1, rel=0.02)


def test_equal_values_get_equal_weights():
    values = np.ones((10, 4))
    assert divergence_of(values, e_step_temperature(values, 0.1)) == pytest.approx(0.0, abs=1e-9)


def improved_by_mpo(task, rounds=1, **changes):
    """Actors after some rounds, whose critic knows nothing, and their mean KL in the last one."""
    settings = settings_of("mpo", candidates=64, batch_size=256, **changes)
    actors, states, draws = actors_of(settings, task=task), some_states(), generator(3)
    with torch.no_grad():
        for parameter in actors.critic.parameters():
            parameter.zero_()
    optimiser = GuardedAdam(actors.policy_parameters(), settings.learning_rate)
    for _ in range(rounds):
        batch = states[
            torch.randint(len(states), (256,), generator=generator().set_state(draws.get_state()))
        ]
        old = actors.joint(batch).detach()
        Mpo(settings).improve_policies(states, ModelRollout(actors, ExactStep()), optimiser, draws)
        moved = ((actors.joint(batch).detach() - old) ** 2).sum(dim=-1).mean()
    return actors, float(moved) / (2.0 * settings.candidate_noise**2)


class Push(PushedMass):
    """The more effort the better."""

    def reward(self, state, action):
        return action[..., 0]


@pytest.mark.parametrize("bound", [0.001, 0.03, 0.3])
@pytest.mark.parametrize("steps", [1, 60])
def test_the_m_step_stays_within_its_bound_and_uses_it(bound, steps):
    """An E-step that may go far asks for more than each of these bounds."""
    changes = {"mpo_epsilon": 2.0, "mpo_epsilon_mean": bound, "policy_steps": steps}
    _, moved = improved_by_mpo(Push(0.0), **changes)
    assert moved <= bound
    if steps == 60:
        assert moved > 0.9 * bound


def test_an_m_step_that_asks_for_less_than_its_bound_gets_it():
    _, moved = improved_by_mpo(Push(0.0), mpo_epsilon=0.02, mpo_epsilon_mean=10.0, policy_steps=60)
    # The tilted Gaussian has a KL of as much, whatever its mean's is.
    assert 0.01 < moved < 0.05


def test_mpo_reaches_the_limit_of_the_effort():
    actors, _ = improved_by_mpo(Push(0.0), rounds=60, learning_rate=3e-2)
    assert actors.policy(some_states()).mean() > 0.98


def test_weights_of_the_samples_sum_to_one_and_prefer_better_ones():
    settings = settings_of("mpo")
    actors, states = actors_of(settings, task=Climb(0.0)), some_states(6)
    samples = torch.linspace(-1.0, 1.0, 9)[:, None, None].expand(9, 6, 1)
    with torch.no_grad():
        for layer in actors.critic.network:
            if isinstance(layer, nn.Linear):
                layer.weight.abs_()  # values grow with the speed that the effort gives
        weights = Mpo(settings)._weights(
            states, samples, ModelRollout(actors, ExactStep()), generator()
        )
    assert weights.shape == (9, 6)
    torch.testing.assert_close(weights.sum(dim=0), torch.ones(6, dtype=weights.dtype))
    assert (weights.diff(dim=0) > 0).all()
