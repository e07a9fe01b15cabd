"""Step functions against their formulas, β's schedule, Thompson's head."""

import math

import pytest
import torch
from linear_system import PushedMass
from searching import generator

from hucrl_ros.config.schema import ExplorationSettings, ModelSettings, SearchSettings
from hucrl_ros.models import Ensemble, make_model
from hucrl_ros.models.exploration import (
    STRATEGIES,
    GreedyDynamics,
    HallucinatedDynamics,
    ThompsonDynamics,
    beta_of,
    cholesky,
    make_imagined_dynamics,
)
from hucrl_ros.search import ActorCritic, InitialStates, ModelRollout, make_search
from hucrl_ros.tasks import make_task

HEADS = 4
EACH_STRATEGY = pytest.mark.parametrize("strategy", STRATEGIES)


class FarMass(PushedMass):
    """Its reach is never met."""

    state_bounds = (math.inf, math.inf)


class ShortRail(FarMass):
    """Two constraints: it stays below 1, and its effort below a half."""

    constraint_names = ("place", "effort")
    reward_range = 5.0

    def room(self, state, action):
        return torch.stack([(1.0 - state[..., 0]) / 0.1, (0.5 - action[..., 0]) / 0.2], dim=-1)


def model_of(task):
    model = Ensemble(task, ModelSettings(heads=HEADS, layers=(8,)), generator())
    model.targets.fit(torch.randn(30, 2, generator=generator(1)) * torch.tensor([0.3, 2.0]) + 0.1)
    return model


def drawn(count=20):
    draws = generator(2)
    state, noise = (torch.randn(count, 2, generator=draws) for _ in range(2))
    action, eta = (2 * torch.rand(count, n, generator=draws) - 1 for n in (1, 2))
    return state, action, eta, noise


def step_of(strategy, task=None, **settings):
    return make_imagined_dynamics(
        strategy, model_of(task or FarMass(0.0)), ExplorationSettings(**settings)
    )


@EACH_STRATEGY
def test_a_strategy_is_made_by_its_name(strategy):
    step = step_of(strategy)
    assert type(step) is STRATEGIES[strategy]
    assert step.hallucination_dim == (2 if strategy in ("optimistic", "opax") else 0)


def test_greedy_samples_mean_and_total_deviation():
    step = step_of("greedy")
    state, action, eta, noise = drawn()
    belief = step.model.predict(state, action)
    total = (belief.epistemic**2 + belief.aleatoric**2).sqrt()
    torch.testing.assert_close(step(state, action, eta[:, :0], noise), belief.mean + total * noise)


def test_optimistic_moves_the_mean_by_beta_epistemic_deviations():
    step = step_of("optimistic", beta=1.7, beta_floor=0.0)
    state, action, eta, noise = drawn()
    belief = step.model.predict(state, action)
    expected = belief.mean + 1.7 * belief.epistemic * eta + belief.aleatoric * noise
    torch.testing.assert_close(step(state, action, eta, noise), expected)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_optimism_about_all_deviations_leaves_nothing_to_noise(covariance):
    step = step_of("optimistic", hallucinate="total", beta=1.7, covariance=covariance)
    state, action, eta, noise = drawn()
    imagined = step(state, action, eta, noise)
    assert torch.equal(imagined, step(state, action, eta, 0.0 * noise))
    belief = step.model.predict(state, action)
    matrix = torch.diag_embed(belief.epistemic**2)
    if covariance == "full":
        heads = belief.deviations.permute(1, 2, 0)
        matrix = heads @ heads.transpose(1, 2)
    factor = torch.linalg.cholesky(matrix + torch.diag_embed(belief.aleatoric**2))
    expected = belief.mean + 1.7 * (factor @ eta.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(imagined, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize("beta", [0.0, 0.6, 1.0, 1.7])
def test_what_eta_can_not_choose_is_left_to_noise_where_that_is_shared(beta, covariance):
    settings = {"beta": beta, "beta_floor": 0.0, "covariance": covariance}
    step = step_of("optimistic", hallucinate="shared", **settings)
    state, action, eta, noise = drawn()
    moved = step(state, action, eta, noise) - step(state, action, 0.0 * eta, noise)
    known = step_of("optimistic", **settings)
    usual = known(state, action, eta, noise) - known(state, action, 0.0 * eta, noise)
    torch.testing.assert_close(moved, usual)  # η does what it does without.
    imagined = step(state, action, 0.0 * eta, noise)
    if beta >= 1.0:  # H-UCRL as in the paper
        expected = known(state, action, 0.0 * eta, noise)
    elif beta == 0.0:
        greedy = step_of("greedy", covariance=covariance)
        expected = greedy(state, action, eta[:, :0], noise)
    else:
        belief = step.model.predict(state, action)
        left = (1.0 - beta**2) * torch.diag_embed(belief.epistemic**2)
        if covariance == "full":
            heads = belief.deviations.permute(1, 2, 0)
            left = (1.0 - beta**2) * heads @ heads.transpose(1, 2)
        factor = torch.linalg.cholesky(left + torch.diag_embed(belief.aleatoric**2))
        expected = belief.mean + (factor @ noise.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(imagined, expected, atol=1e-4, rtol=1e-4)


def test_sombrl_follows_the_mean_and_adds_the_norm_of_the_deviations_to_the_reward():
    step = step_of("sombrl", bonus=0.7, beta=2.0, beta_decay=0.5, beta_floor=0.0)
    step.start_episode(2, generator())
    state, action, eta, noise = drawn()
    belief, task = step.model.predict(state, action), step.model.task
    moved = step(state, action, eta[:, :0], noise)
    torch.testing.assert_close(moved, belief.mean + belief.aleatoric * noise)
    norm = ((belief.epistemic / step.model.targets.std) ** 2).sum(dim=-1).sqrt()
    expected = task.reward(state, action) + 0.7 * 1.0 * norm
    torch.testing.assert_close(step.reward(step.model.task, state, action), expected)


def test_opax_hallucinates_and_is_rewarded_for_information_alone():
    step, optimistic = step_of("opax"), step_of("optimistic")
    state, action, eta, noise = drawn()
    assert torch.equal(step(state, action, eta, noise), optimistic(state, action, eta, noise))
    belief = step.model.predict(state, action)
    expected = (1.0 + (belief.epistemic / belief.aleatoric) ** 2).log().sum(dim=-1)
    torch.testing.assert_close(step.reward(step.model.task, state, action), expected)


def certain(strategy):
    """A known model: all heads say the same, and there is no noise."""
    task = FarMass(0.0)
    model = make_model(task, ModelSettings(kind="deterministic_ensemble", heads=2), generator())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter[:1].expand_as(parameter))
    return make_imagined_dynamics(strategy, model, ExplorationSettings())


@EACH_STRATEGY
def test_nothing_but_the_task_is_rewarded_where_the_model_is_certain(strategy):
    step, (state, action, *_) = certain(strategy), drawn()
    task = step.model.task.reward(state, action)
    expected = 0.0 * task if strategy == "opax" else task
    torch.testing.assert_close(
        step.reward(step.model.task, state, action), expected, atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("strategy", ["greedy", "thompson", "optimistic"])
def test_the_papers_strategies_add_nothing_to_the_reward(strategy):
    step, (state, action, *_) = step_of(strategy), drawn()
    task = step.model.task
    assert torch.equal(step.reward(task, state, action), task.reward(state, action))


def test_thompson_follows_one_head_and_its_own_noise():
    step = step_of("thompson")
    state, action, eta, noise = drawn()
    model = step.model
    means, stds = model.gaussians(model.network_inputs(state, action))
    for episode in range(6):
        step.start_episode(episode, generator(episode))
        head = int(model.heads.choice.argmax())
        expected = model.without_change(state) + model.targets.inverse(means[head])
        expected = expected + model.targets.std * stds[head] * noise
        torch.testing.assert_close(step(state, action, eta[:, :0], noise), expected)


def test_thompsons_head_stays_until_the_next_episode_and_each_one_comes_up():
    step, draws = step_of("thompson"), generator()
    state, action, eta, noise = drawn()
    heads = []
    for episode in range(200):
        step.start_episode(episode, draws)
        heads.append(int(step.model.heads.choice.argmax()))
        assert float(step.model.heads.choice.sum()) == 1.0
    first, again = (step(state, action, eta[:, :0], noise) for _ in range(2))
    assert torch.equal(first, again)
    counts = [heads.count(head) for head in range(HEADS)]
    assert min(counts) > 25  # 50 expected each


def test_thompsons_head_depends_on_the_generator_alone():
    one, other = step_of("thompson"), step_of("thompson")
    for episode in range(5):
        one.start_episode(episode, generator(episode))
        other.start_episode(episode + 1, generator(episode))
        assert torch.equal(one.model.heads.choice, other.model.heads.choice)


@pytest.mark.parametrize("strategy", ["greedy", "optimistic"])
def test_without_hallucination_and_noise_the_next_state_is_the_mean(strategy):
    step = step_of(strategy)
    state, action, eta, noise = drawn()
    imagined = step(state, action, 0.0 * eta[:, : step.hallucination_dim], 0.0 * noise)
    torch.testing.assert_close(imagined, step.model.predict(state, action).mean)


def test_beta_decays_to_its_floor():
    settings = ExplorationSettings(beta=3.0, beta_decay=0.8, beta_floor=1.0)
    expected = [3.0, 2.4, 1.92, 1.536, 1.2288, 1.0, 1.0]
    assert [settings.beta_at(k) for k in range(1, 8)] == pytest.approx(expected)
    assert settings.beta_at(0) == 3.0
    step = HallucinatedDynamics(model_of(FarMass(0.0)), settings)
    assert float(step.beta) == pytest.approx(3.0)
    for episode, beta in enumerate(expected, start=1):
        step.start_episode(episode, generator())
        assert float(step.beta) == pytest.approx(beta)


@EACH_STRATEGY
def test_imagined_states_stay_within_the_robots_reach(strategy):
    step = step_of(strategy, PushedMass(0.0))
    state, action, eta, _ = drawn()
    eta = eta[:, : step.hallucination_dim]
    for sign in (1.0, -1.0):
        far = step(state, action, eta, sign * torch.full_like(state, 1e4))
        assert torch.equal(far, sign * torch.tensor(PushedMass.state_bounds).expand_as(far))
    step.bounds[0, 0] = -0.5  # least and largest value need not be opposite
    far = step(state, action, eta, torch.full_like(state, -1e4))
    assert torch.equal(far[:, 0], torch.full_like(far[:, 0], -0.5))
    near = 0.01 * state
    inside = step(near, action, eta, torch.zeros_like(near)).abs() < torch.tensor(
        PushedMass.state_bounds
    )
    assert inside.any()


def test_an_angle_may_wind():
    task = make_task("pendulum", 0.2)
    model = Ensemble(task, ModelSettings(heads=2, layers=(8,)), generator())
    step = GreedyDynamics(model, ExplorationSettings())
    wound = torch.tensor([[100.0, 0.0], [-100.0, 0.0]])
    imagined = step(wound, torch.zeros(2, 1), torch.zeros(2, 0), torch.zeros(2, 2))
    assert ((imagined[:, 0] - wound[:, 0]).abs() < 5.0).all()


@EACH_STRATEGY
def test_any_leading_dimensions_are_imagined_alike(strategy):
    step = step_of(strategy)
    tensors = drawn(12)
    state, action, eta, noise = (
        t[:, : step.hallucination_dim] if i == 2 else t for i, t in enumerate(tensors)
    )
    whole = step(state, action, eta, noise)
    grid = step(*(t.reshape(3, 4, t.shape[-1]) for t in (state, action, eta, noise)))
    torch.testing.assert_close(grid.reshape(12, 2), whole)
    one = step(state[3], action[3], eta[3], noise[3])
    torch.testing.assert_close(one, whole[3])


def test_what_an_episode_changes_is_saved_with_the_weights():
    for make in (ThompsonDynamics, HallucinatedDynamics):
        step, fresh = (make(model_of(FarMass(0.0)), ExplorationSettings()) for _ in range(2))
        step.start_episode(4, generator(9))
        fresh.load_state_dict(step.state_dict())
        state, action, eta, noise = drawn()
        eta = eta[:, : step.hallucination_dim]
        assert torch.equal(step(state, action, eta, noise), fresh(state, action, eta, noise))


# Schedules of β


def test_a_constant_beta_stays():
    settings = ExplorationSettings(beta=2.5, schedule="constant", beta_floor=4.0)
    step = HallucinatedDynamics(model_of(FarMass(0.0)), settings)
    for episode in (1, 2, 50):
        step.start_episode(episode, generator())
        assert float(step.beta) == 2.5


def test_the_confidence_interval_is_that_of_the_lemma():
    task, settings = (
        FarMass(0.0),
        ModelSettings(kind="gp", hyperparameters="fixed", noise_ratio=0.05),
    )
    model = make_model(task, settings, generator())
    schedule = ExplorationSettings(schedule="confidence", norm_bound=1.5, failure_probability=0.05)
    step = HallucinatedDynamics(model, schedule)
    prior = 1.5 + 4 * 0.05 * math.sqrt(1 + math.log(20))
    assert float(step.beta) == pytest.approx(prior)
    inputs = torch.rand(30, 3, generator=generator(1))
    model.learn(inputs, inputs[:, :2], generator(), lambda share: None)
    assert model.information_gain > 10.0
    expected = 1.5 + 4 * 0.05 * math.sqrt(model.information_gain + 1 + math.log(20))
    assert beta_of(schedule, 7, model) == pytest.approx(expected)
    step.start_episode(7, generator())
    assert float(step.beta) == pytest.approx(expected)
    assert expected > prior


# Full covariance


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_the_factor_is_choleskys_also_of_singular_covariances(rank):
    columns = torch.randn(7, 4, rank, generator=generator(3))
    columns = columns * torch.tensor([1.0, 1e-3, 30.0, 0.1]).reshape(4, 1)
    covariance = columns @ columns.transpose(1, 2)
    factor = cholesky(covariance)
    assert torch.equal(factor, factor.tril())
    scale = covariance.diagonal(dim1=1, dim2=2).sqrt()
    product = (factor @ factor.transpose(1, 2)) / (scale.unsqueeze(1) * scale.unsqueeze(2))
    correlation = covariance / (scale.unsqueeze(1) * scale.unsqueeze(2))
    assert (product - correlation).abs().max() < 1e-3
    if rank == 6:
        torch.testing.assert_close(factor, torch.linalg.cholesky(covariance), rtol=1e-3, atol=1e-3)


def test_full_optimism_moves_entries_together():
    full = step_of("optimistic", covariance="full", beta=1.7, beta_floor=0.0)
    state, action, eta, noise = drawn()
    belief = full.model.predict(state, action)
    heads = belief.deviations.permute(1, 2, 0)
    factor = torch.linalg.cholesky((heads @ heads.transpose(1, 2)).double()).float()
    shift = (factor @ eta.unsqueeze(-1)).squeeze(-1)
    expected = belief.mean + 1.7 * shift + belief.aleatoric * noise
    torch.testing.assert_close(full(state, action, eta, noise), expected, atol=1e-4, rtol=1e-3)


def test_a_full_and_a_diagonal_covariance_agree_on_the_first_entry():
    full, diagonal = (step_of("optimistic", covariance=c) for c in ("full", "diagonal"))
    found, expected = (step(*drawn())[:, 0] for step in (full, diagonal))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_full_greedy_samples_have_the_covariance_of_the_belief():
    step = step_of("greedy", covariance="full")
    state, action = torch.tensor([[0.7, -0.4]]), torch.tensor([[2.0]])
    belief = step.model.predict(state, action)
    noise = torch.randn(40_000, 2, generator=generator(5))
    samples = step(state, action, torch.zeros(1, 0), noise)
    heads = belief.deviations[:, 0]
    expected = heads.T @ heads + torch.diag(belief.aleatoric[0] ** 2)
    assert ((torch.cov(samples.T) - expected).abs() < 0.03 * expected.diagonal().max()).all()


def missing(state, action):
    """What `ShortRail` lacks of two margins, three at most of each."""
    rooms = ShortRail(0.0).room(state, action)
    return sum(min(max(2.0 - float(room), 0.0), 3.0) for room in rooms)


@pytest.mark.parametrize("strategy", ["greedy", "thompson", "optimistic"])
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_a_margin_less_of_room_costs_the_range_of_the_rewards(strategy, scale):
    step, (state, action, *_) = (
        step_of(strategy, ShortRail(0.0), constraint_penalty=scale),
        drawn(),
    )
    task = step.model.task
    earned = task.reward(state, action)
    paid = torch.tensor([missing(*pair) for pair in zip(state, action, strict=True)])
    assert 0 < (paid > 0).sum() < len(paid)
    assert torch.equal(step.earned(task, state, action), earned)
    torch.testing.assert_close(step.reward(task, state, action), earned - scale * 5.0 * paid)
    with step.counting(task, 0.25):
        quarter = step.reward(task, state, action)
    torch.testing.assert_close(quarter, task.reward(state, action) - 0.25 * scale * 5.0 * paid)
    torch.testing.assert_close(step.reward(task, state, action), earned - scale * 5.0 * paid)


def test_what_is_outside_costs_more_and_in_every_search():
    step, (state, action, *_) = (
        step_of("greedy", ShortRail(0.0), constraint_penalty=0.0, outside_penalty=3.0),
        drawn(),
    )
    task = step.model.task
    assert step.pays(task)
    rooms = ShortRail(0.0).room(state, action)
    outside = torch.tensor([sum(min(max(-float(r), 0.0), 1.0) for r in row) for row in rooms])
    assert 0 < (outside > 0).sum() < len(outside)
    expected = task.reward(state, action) - 3.0 * 5.0 * outside
    torch.testing.assert_close(step.reward(task, state, action), expected)
    with step.counting(task, 0.0):  # as a gentle search begins
        torch.testing.assert_close(step.reward(task, state, action), expected)


@pytest.mark.parametrize("strategy", ["sombrl", "opax"])
def test_nothing_is_to_be_learned_beyond_a_constraint(strategy):
    step, (state, action, *_) = step_of(strategy, ShortRail(0.0)), drawn()
    task, bonus = step.model.task, step_of(strategy).bonus(state, action)
    earned = step.earned(task, state, action)
    reward = 0.0 * bonus if strategy == "opax" else task.reward(state, action)
    torch.testing.assert_close(earned, reward + bonus)
    paid = torch.tensor([missing(*pair) for pair in zip(state, action, strict=True)])
    expected = reward + bonus - (0.2 * 5.0 + bonus) * paid
    torch.testing.assert_close(step.reward(task, state, action), expected)


@EACH_STRATEGY
def test_without_constraints_or_a_price_nothing_is_paid(strategy):
    state, action, *_ = drawn()
    for step in (step_of(strategy), step_of(strategy, ShortRail(0.0), constraint_penalty=0.0)):
        task = step.model.task
        assert not step.pays(task)
        assert torch.equal(step.reward(task, state, action), step.earned(task, state, action))


def test_the_price_is_the_range_of_rewards_and_the_same_each_time():
    first, again = (make_task("cartpole", 0.2) for _ in range(2))
    states = first.imagined_states(4096, generator(1))
    rewards = first.reward(states, torch.zeros(4096, 1))
    assert first.reward_range == again.reward_range
    assert float(rewards.max() - rewards.min()) < first.reward_range < 1.0 + 0.2 * 3.0**2 + 1e-5


@pytest.mark.parametrize(
    ("strategy", "heads", "how"),
    [
        ("optimistic", 5, {"hallucinate": "shared"}),  # beta = 3 by default
        ("greedy", 1, {}),
        ("optimistic", 1, {"hallucinate": "total"}),
    ],
)
@pytest.mark.parametrize("algorithm", ["pathwise", "bptt"])
def test_gradients_of_a_model_without_noise_are_finite(algorithm, strategy, heads, how):
    task, draws = make_task("pendulum", 0.1), torch.Generator().manual_seed(0)
    settings = ModelSettings(kind="deterministic_ensemble", heads=heads, layers=(8,))
    model = make_model(task, settings, draws)
    step = make_imagined_dynamics(strategy, model, ExplorationSettings(**how))
    step.start_episode(1, draws)
    small = {"pool": 4, "batch_size": 8, "rollout_steps": 3, "iterations": 3}
    layers = {"policy_layers": (8,), "critic_layers": (8,)}
    searching = SearchSettings(algorithm=algorithm, **small, **layers)
    actors = ActorCritic(task, step.hallucination_dim, searching, draws)
    task.steps = 5
    states = task.imagined_states(4, draws)
    starts = InitialStates(task, states, 0.3)
    rollout = ModelRollout(actors, step)
    found = make_search(searching).improve(rollout, starts, states, draws, lambda _: None)
    assert found.refused == 0
