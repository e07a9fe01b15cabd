"""Hallucinated data, value expansion, the library's algorithms on our networks, BPTT."""

import math

import numpy as np
import pytest
import torch
from linear_system import DISCOUNT, LIMIT, ExactStep, PushedMass, next_state
from searching import actors_of, generator, search, settings_of, some_states, starts_of
from torch.optim.swa_utils import AveragedModel

from hucrl_ros.models import Transitions
from hucrl_ros.search import ModelRollout, make_search
from hucrl_ros.search.base import GENTLE_ROUNDS, GuardedAdam
from hucrl_ros.search.gradients import imagined_value

UNCERTAIN = 0.1


def replay_of(settings, recorded=None):
    searching, actors, _ = begun(settings, recorded)
    return searching._replay, actors, ExactStep(UNCERTAIN)


def some_joint(count, seed=1):
    return 2.0 * torch.rand(count, 3, generator=generator(seed)) - 1.0


def recorded_transitions(count=50):
    """States around 7, where nobody imagines any."""
    states = 7.0 + some_states(count)
    efforts = LIMIT * some_joint(count)[:, :1]
    return Transitions(states, efforts, next_state(states, efforts))


class Breaking(PushedMass):
    """The reward is a number where it isn't broken."""

    broken = True

    def reward(self, state, action):
        return super().reward(state, action) + (math.nan if self.broken else 0.0)


def imagination_of(actors):
    return ModelRollout(actors, ExactStep(UNCERTAIN))


def begun(settings, recorded=None, task=None):
    """A search ready to improve policies; its actors and the optimiser of the policies."""
    actors = actors_of(settings, 2, task)
    optimiser = GuardedAdam(actors.policy_parameters(), settings.learning_rate)
    searching = make_search(settings)
    searching.begin(imagination_of(actors), starts_of(actors.task, recorded), optimiser)
    return searching, actors, optimiser


# Hallucinated data (Algorithm 3) and value expansion (Algorithm 5)


def test_imagined_transitions_are_those_of_the_augmented_system():
    replay, actors, _ = replay_of(settings_of("td3", expansion_steps=1))
    states, joint = some_states(20), some_joint(20)
    replay.add(states, joint)
    batch = replay.sample(200)
    effort = LIMIT * batch.actions[:, :1]
    following = next_state(batch.observations, effort) + UNCERTAIN * batch.actions[:, 1:]
    torch.testing.assert_close(batch.next_observations, following)
    rewards = actors.task.reward(batch.observations, effort) / actors.critic.scale
    torch.testing.assert_close(batch.rewards[:, 0], rewards)
    assert torch.equal(batch.discounts, torch.full((200, 1), DISCOUNT))
    assert not batch.dones.any()
    assert {tuple(row) for row in batch.actions.tolist()} == {tuple(r) for r in joint.tolist()}


def test_expanded_targets_follow_the_present_policies():
    steps = 3
    replay, actors, step = replay_of(settings_of("td3", expansion_steps=steps))
    replay.add(some_states(20), some_joint(20))
    batch = replay.sample(100)
    states, joint = batch.observations, batch.actions
    total = torch.zeros(100)
    with torch.no_grad():
        for t in range(steps):
            effort = LIMIT * joint[:, :1]
            total += DISCOUNT**t * actors.task.reward(states, effort)
            states = step(states, effort, joint[:, 1:], torch.zeros(100, 2))
            joint = actors.joint(states)
    torch.testing.assert_close(batch.rewards[:, 0] * actors.critic.scale, total)
    torch.testing.assert_close(batch.next_observations, states)
    assert batch.discounts[0, 0] == pytest.approx(DISCOUNT**steps)


class Idle(PushedMass):
    """Only efforts cost, so every state is worth the same."""

    def reward(self, state, action):
        return -(action[..., 0] ** 2)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_expanded_targets_of_sac_are_soft_values(steps):
    """Of tanh(x) with x normal, whose cost and entropy are integrals over one number."""
    mean, std, weight = 0.4, 0.5, 0.3
    settings = settings_of("sac", expansion_steps=steps, entropy_weight=weight)
    searching, actors, _ = begun(settings, task=Idle())
    outputs = [actors.policy.network[-1], actors.hallucination.network[-1], actors.log_std[-1]]
    with torch.no_grad():
        for layer, value in zip(outputs, (mean, mean, math.log(std)), strict=True):
            layer.weight.zero_()
            layer.bias.fill_(value)
    nodes, shares = np.polynomial.hermite_e.hermegauss(60)
    action, shares = np.tanh(mean + std * nodes), shares / shares.sum()
    entropy = 0.5 * np.log(2 * np.pi * np.e * std**2) + shares @ np.log(1 - action**2)
    cost = LIMIT**2 * shares @ action**2 / float(actors.critic.scale)
    value = (3 * weight * entropy - cost) / (1 - DISCOUNT)

    torch.manual_seed(0)  # the library's draws
    searching._replay.add(some_states(20), torch.zeros(20, 3))
    batch = searching._replay.sample(20000)
    target = float(batch.rewards.mean()) + float(batch.discounts[0, 0]) * value
    assert target == pytest.approx(DISCOUNT * value, abs=0.02 * abs(value))


def test_real_transitions_get_a_hallucinated_action_from_a_standard_normal():
    recorded = recorded_transitions()
    settings = settings_of("td3", expansion_steps=1, real_share=0.25)
    replay, _, _ = replay_of(settings, recorded)
    replay.add(some_states(20), some_joint(20))
    batch = replay.sample(4000)
    real = batch.observations[:, 0] > 5.0
    assert int(real.sum()) == 1000
    eta = batch.actions[real, 1:]
    assert float(eta.mean()) == pytest.approx(0.0, abs=0.1)
    assert float(eta.std()) == pytest.approx(1.0, abs=0.1)
    # What followed is what was recorded, whatever η says.
    effort = LIMIT * batch.actions[real, :1]
    expected = next_state(batch.observations[real], effort)
    torch.testing.assert_close(batch.next_observations[real], expected)
    assert (batch.actions[~real].abs() <= 1.0).all()


def test_only_the_last_rounds_are_remembered():
    replay, _, _ = replay_of(settings_of("td3", replay_rounds=2, expansion_steps=1))
    for level in (10.0, 20.0, 30.0):
        replay.add(torch.full((5, 2), level), some_joint(5))
    assert set(replay.sample(300).observations[:, 0].tolist()) == {20.0, 30.0}


def test_an_imagined_transition_that_is_not_finite_is_not_remembered():
    replay, _, _ = replay_of(settings_of("td3", expansion_steps=1))
    states = some_states(5)
    states[2] = math.nan
    replay.add(states, some_joint(5))
    assert replay.sample(100).observations.isfinite().all()


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_nothing_is_learned_of_rounds_and_expansions_without_a_finite_step(algorithm):
    task = Breaking()
    settings = settings_of(algorithm, expansion_steps=3)
    searching, actors, optimiser = begun(settings, recorded_transitions(), task)
    # The engine and a learned model can't tell what follows on no state at all.
    step, asked = searching._replay._step, []
    searching._replay._step = lambda *given: asked.append(len(given[0])) or step(*given)
    before = [weight.clone() for weight in actors.parameters()]

    def improved():
        searching.improve_policies(some_states(), imagination_of(actors), optimiser, generator())
        after = actors.parameters()
        return any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))

    assert not improved()
    task.broken = False
    assert improved()
    task.broken = True
    assert not len(searching._replay.sample(20).observations)
    assert min(asked) > 0
    assert all(weight.isfinite().all() for weight in actors.parameters())


# The library's algorithms


def test_td3_and_sac_answer_exactly_what_the_policies_answer():
    states = some_states(30)
    searching, actors, _ = begun(settings_of("td3"))
    assert torch.equal(searching._algorithm.actor(states), actors.joint(states))
    searching, actors, _ = begun(settings_of("sac"))
    assert torch.equal(
        searching._algorithm.actor(states, deterministic=True), actors.joint(states)
    )


def test_ppo_draws_around_what_the_policies_squash():
    searching, actors, _ = begun(settings_of("ppo", candidate_noise=0.3))
    states = some_states(200)
    samples = searching._imagine(states, imagination_of(actors), generator())
    mean = torch.atanh(actors.joint(samples.observations)).detach()
    normal = torch.distributions.Normal(mean, 0.3)
    expected = normal.log_prob(samples.actions).sum(dim=-1)
    torch.testing.assert_close(samples.old_log_prob, expected, atol=1e-4, rtol=1e-4)
    assert float((samples.actions - mean).std()) == pytest.approx(0.3, rel=0.1)
    torch.testing.assert_close(
        samples.old_values + samples.advantages, samples.returns, atol=1e-6, rtol=1e-6
    )


def test_ppo_learns_nothing_in_a_round_without_a_finite_sample():
    searching, actors, optimiser = begun(settings_of("ppo"))
    before = [weight.clone() for weight in actors.parameters()]
    nowhere = math.nan * some_states(64)
    searching.improve_policies(nowhere, imagination_of(actors), optimiser, generator())
    after = list(actors.parameters())
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    searching.improve_policies(some_states(64), imagination_of(actors), optimiser, generator())
    policies = zip(before, actors.parameters(), strict=True)
    assert any(not torch.equal(old, new) for old, new in policies)


@pytest.mark.parametrize(("gentle", "averaged"), [(False, 4), (True, 4 * GENTLE_ROUNDS)])
def test_ppo_averages_the_second_half_of_a_search(gentle, averaged, monkeypatch):
    calls, update = [], AveragedModel.update_parameters
    monkeypatch.setattr(
        AveragedModel, "update_parameters", lambda *args: calls.append(1) or update(*args)
    )
    search(settings_of("ppo", iterations=8, critic_steps=1), gentle=gentle)
    assert len(calls) == averaged


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_action_values_learn_from_hallucinated_and_real_data(algorithm):
    searching, actors, optimiser = begun(
        settings_of(algorithm, policy_steps=1), recorded_transitions()
    )
    before = [weight.clone() for weight in actors.action_values.parameters()]
    for _ in range(2):  # TD3's policies learn in every second step
        searching.improve_policies(some_states(64), imagination_of(actors), optimiser, generator())
    after = list(actors.action_values.parameters())
    assert all(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert optimiser.state  # so did the policies


# Back-propagation through time (Algorithm 4)


def test_the_objective_of_bptt_is_the_discounted_return_closed_by_the_critic():
    settings = settings_of("bptt", candidate_noise=1e-9)
    actors, step, states = (
        actors_of(settings, 2),
        ExactStep(UNCERTAIN),
        some_states(10),
    )
    with torch.no_grad():
        value = imagined_value(states, imagination_of(actors), 3, settings, generator())
        total = torch.zeros(10)
        for t in range(3):
            effort = LIMIT * actors.policy(states)
            total += DISCOUNT**t * actors.task.reward(states, effort)
            states = step(states, effort, actors.eta(states), torch.zeros(10, 2))
        total += DISCOUNT**3 * actors.critic(states)
    torch.testing.assert_close(value, total)


def test_the_divergence_from_the_last_policies_restrains_bptt():
    moved = []
    for weight in (0.0, 0.1, 10.0):
        settings = settings_of("bptt", bptt_kl=weight, bptt_horizon=2, policy_steps=40)
        searching, actors, optimiser = begun(settings)
        states = some_states(64)
        before = actors.joint(states).detach()
        searching.improve_policies(states, imagination_of(actors), optimiser, generator())
        moved.append(float((actors.joint(states) - before).abs().mean()))
    assert moved[0] > 2.0 * moved[1] > 4.0 * moved[2]
    assert moved[0] > 0.05


def test_the_penalty_of_bptt_is_the_divergence_of_two_gaussians():
    std, weight = 0.2, 0.3
    settings = settings_of("bptt", bptt_kl=weight, candidate_noise=std)
    searching, actors, _ = begun(settings)
    states = some_states(10)
    with torch.no_grad():
        actors.policy.network[-1].bias.add_(0.1)
        new, old = actors.joint(states), searching._previous.joint(states)
        pair = (torch.distributions.Normal(mean, std) for mean in (new, old))
        expected = weight * torch.distributions.kl_divergence(*pair).sum(dim=-1)
        torch.testing.assert_close(searching.penalty(states, new) / actors.critic.scale, expected)
    assert expected.min() > 0.0
