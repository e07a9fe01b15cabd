"""Policy searches against the linear-quadratic optimum, and the parts they share."""

import math

import numpy as np
import pytest
import torch
from linear_system import (
    DISCOUNT,
    LIMIT,
    ExactStep,
    PushedMass,
    next_state,
    optimal_gain,
    optimal_value_matrix,
)
from torch import nn

from hucrl_ros.config import SearchSettings
from hucrl_ros.errors import LearningError
from hucrl_ros.search import SEARCHES, Actors, Mpo, Starts, imagine, make_search
from hucrl_ros.search.base import descend
from hucrl_ros.search.imagination import Pool, trace_targets
from hucrl_ros.search.mpo import e_step_temperature
from hucrl_ros.tasks import make_task
from hucrl_ros.tasks.tolerance import tolerance

pytestmark = pytest.mark.timeout(300)
SKIPPED = pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler")
"""For searches whose gradients are skipped or replaced."""
EACH_SEARCH = pytest.mark.parametrize("algorithm", SEARCHES)
EXACT = {
    "lookahead": {},
    "pathwise": {"candidate_noise": 0.01},
    "mpo": {"mpo_epsilon": 0.5, "mpo_epsilon_mean": 1.0},
}
"""Settings of each search for a smooth problem."""


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def settings_of(algorithm="lookahead", **changes):
    values = {
        "discount": DISCOUNT,
        "iterations": 120,
        "pool": 64,
        "rollout_steps": 4,
        "restart": 0.2,
        "policy_layers": (16,),
        "critic_layers": (32, 32),
        "batch_size": 128,
        "policy_noise": 0.0,
        "learning_rate": 1e-2,
        "trial_interval": 40,
    }
    return SearchSettings(algorithm=algorithm, **{**values, **changes})


def actors_of(settings, hallucination_dim=0, task=None, seed=0):
    return Actors(task or PushedMass(0.0), hallucination_dim, settings, generator(seed))


def search(settings, step=None, task=None, seed=0):
    """Search from fresh actors; returns the newest actors and the result."""
    step, task = step or ExactStep(), task or PushedMass(0.0)
    actors = actors_of(settings, step.hallucination_dim, task, seed)
    first = task.imagined_states(8, generator(5))
    starts = Starts(task, torch.zeros(0, 2), 0.0)
    draws = generator(seed + 100)
    result = make_search(settings).improve(actors, step, starts, first, draws, lambda share: None)
    return actors, result


def some_states(count=200):
    return PushedMass(0.0).imagined_states(count, generator(9))


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
    imagined = imagine(states, actors, step, 3)
    assert imagined.states.shape == (4, 5, 2)
    for t in range(3):
        here = imagined.states[t]
        effort = LIMIT * actors.policy(here)
        torch.testing.assert_close(imagined.actions[t], effort)
        torch.testing.assert_close(imagined.rewards[t], actors.task.reward(here, effort))
        following = next_state(here, effort) + 0.1 * actors.eta(here)
        torch.testing.assert_close(imagined.states[t + 1], following)


def test_noisy_efforts_stay_within_their_limits():
    imagined = imagine(
        some_states(50), actors_of(settings_of()), ExactStep(), 4, generator(), policy_noise=2.0
    )
    assert imagined.actions.abs().max() == LIMIT
    assert (imagined.actions.abs() < LIMIT).any()


def test_starts_mix_visited_states_and_those_of_the_task():
    visited = torch.tensor([[7.0, 7.0], [8.0, 8.0]])
    for share, expected in ((0.0, 0.0), (0.3, 0.3), (1.0, 1.0)):
        states = Starts(PushedMass(0.0), visited, share).draw(2000, generator())
        recorded = (states[:, 0] > 5.0).float().mean()
        assert float(recorded) == pytest.approx(expected, abs=0.05)
    assert len(Starts(PushedMass(0.0), torch.zeros(0, 2), 1.0).draw(9, generator())) == 9


def test_a_pool_goes_on_where_it_was_and_some_start_anew():
    settings = settings_of(pool=500, restart=0.2)
    starts = Starts(PushedMass(0.0), torch.zeros(0, 2), 0.0)
    pool, actors = Pool(starts, settings, generator()), actors_of(settings)
    before, after = pool.advance(actors, ExactStep()), pool.advance(actors, ExactStep())
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


def test_descending_skips_a_gradient_that_is_not_finite():
    weight = nn.Parameter(torch.ones(2))
    optimiser = torch.optim.SGD([weight], lr=0.1)
    descend((weight * torch.tensor([math.nan, 1.0])).sum(), optimiser)
    assert torch.equal(weight, torch.ones(2))
    descend((weight * torch.tensor([30.0, 40.0])).sum(), optimiser)  # clipped to length 1
    torch.testing.assert_close(weight.detach(), torch.tensor([0.94, 0.92]))


@EACH_SEARCH
def test_a_search_finds_the_linear_quadratic_optimum(algorithm):
    settings = settings_of(algorithm, **EXACT[algorithm])
    actors, _ = search(settings)
    states = some_states()
    p = torch.tensor(optimal_value_matrix(), dtype=torch.float32)
    optimum = -(states @ p * states).sum(dim=-1)
    with torch.no_grad():
        critic, effort = actors.critic(states), actors.effort(actors.policy(states))
    assert (critic - optimum).abs().mean() < 0.1 * optimum.abs().mean()
    rewards = imagine(states, actors, ExactStep(), 80).rewards
    achieved = (DISCOUNT ** torch.arange(80.0)[:, None] * rewards).sum(dim=0)
    assert (optimum - achieved).mean() < 0.02 * optimum.abs().mean()
    gain = -np.linalg.lstsq(states.numpy(), effort.numpy(), rcond=None)[0].T
    np.testing.assert_allclose(gain, optimal_gain(), rtol=0.12)


class Climb(PushedMass):
    """The further up the better: whatever moves upward is best."""

    def reward(self, state, action):
        return state[..., 0]


@EACH_SEARCH
def test_optimism_pushes_towards_reward(algorithm):
    settings = settings_of(algorithm, candidates=32, restart=0.5, **EXACT[algorithm])
    actors, result = search(settings, ExactStep(0.3), Climb(0.0), seed=2)
    with torch.no_grad():
        joint = actors.joint(some_states())
    assert (joint.mean(dim=0) > 0.8).all()  # the push, and η of position and speed
    honest = imagine(result.episode.states[0], actors, ExactStep(), Climb.steps)
    assert result.episode.rewards.sum(dim=0).mean() > honest.rewards.sum(dim=0).mean()


class Wall(PushedMass):
    """Weak efforts are free, medium ones cost, one strong effort pays."""

    steps = 5

    def reward(self, state, action):
        share = action[..., 0] / LIMIT
        cost = 0.2 * (tolerance(share, -0.1, 0.1, 0.1) - 1.0)
        return cost + tolerance(share, 0.85, 0.95, 0.1)


@pytest.mark.parametrize(("algorithm", "escapes"), [("lookahead", True), ("pathwise", False)])
def test_looking_ahead_crosses_the_wall_around_doing_nothing(algorithm, escapes):
    _, result = search(settings_of(algorithm), task=Wall(0.0))
    shares = result.episode.actions / LIMIT
    found = (shares > 0.7) if escapes else (shares.abs() < 0.2)
    assert found.float().mean() > 0.9
    assert (float(result.episode.rewards.mean()) > 0.3) == escapes  # 0.8 at best


@EACH_SEARCH
def test_a_search_depends_on_its_generator_alone(algorithm):
    settings = settings_of(algorithm, iterations=3)
    weights = []
    for seed in (1, 1, 2):
        torch.rand(seed)  # nobody draws from the global generator
        _, result = search(settings, ExactStep(0.1), seed=seed)
        weights.append(torch.cat([w.flatten() for w in result.weights.values()]))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@SKIPPED
def test_the_best_trial_is_what_is_returned():
    settings = settings_of(iterations=4, trial_interval=1, critic_steps=1)

    class Staged(SEARCHES["lookahead"]):
        biases = iter([0.0, 2.0, 1.0, -1.0])

        def improve_policies(self, states, actors, step, optimiser, generator):
            with torch.no_grad():
                actors.policy.network[-1].weight.zero_()
                actors.policy.network[-1].bias.fill_(next(self.biases))

    task = Climb(0.0)
    actors, starts = actors_of(settings, task=task), Starts(task, torch.zeros(0, 2), 0.0)
    first, shares = task.imagined_states(3, generator(5)), []
    result = Staged(settings).improve(
        actors, ExactStep(), starts, first, generator(), shares.append
    )
    assert float(result.weights["policy.network.2.bias"]) == 2.0
    assert actors.policy.network[-1].bias.item() == -1.0  # the next search goes on from here
    assert shares == [0.25, 0.5, 0.75, 1.0]
    actors.load_state_dict(result.weights)
    again = imagine(first, actors, ExactStep(), task.steps)
    torch.testing.assert_close(again.rewards, result.episode.rewards)
    assert result.episode.rewards.shape == (task.steps, 3)


class Broken(ExactStep):
    """Imagines no number."""

    def forward(self, state, action, eta, noise):
        return super().forward(state, action, eta, noise) * math.nan


@SKIPPED
@EACH_SEARCH
def test_an_imagination_without_numbers_is_an_error_and_spoils_no_weights(algorithm):
    settings = settings_of(algorithm, iterations=2)
    task, step = PushedMass(0.0), Broken(0.1)
    actors = actors_of(settings, 2)
    with pytest.raises(LearningError, match="not finite"):
        make_search(settings).improve(
            actors,
            step,
            Starts(task, torch.zeros(0, 2), 0.0),
            task.imagined_states(2, generator()),
            generator(),
            lambda share: None,
        )
    assert all(parameter.isfinite().all() for parameter in actors.parameters())


def test_a_stopped_search_leaves_nothing_frozen():
    task, settings = PushedMass(0.0), settings_of("pathwise")
    actors, step = actors_of(settings), ExactStep()
    step.gain = nn.Parameter(torch.ones(()))
    step.fixed = nn.Parameter(torch.ones(()), requires_grad=False)

    def stop(*arguments):
        assert not step.gain.requires_grad
        assert not any(p.requires_grad for p in actors.critic.parameters())
        raise KeyboardInterrupt

    search = make_search(settings)
    search.improve_policies = stop
    starts = Starts(task, torch.zeros(0, 2), 0.0)
    first = task.imagined_states(2, generator())
    with pytest.raises(KeyboardInterrupt):
        search.improve(actors, step, starts, first, generator(), lambda share: None)
    assert all(parameter.requires_grad for parameter in (step.gain, *actors.parameters()))
    assert not step.fixed.requires_grad


@EACH_SEARCH
def test_improving_policies_leaves_the_critic_and_the_model_alone(algorithm):
    settings = settings_of(algorithm)
    actors = actors_of(settings, 2)
    before = {name: value.clone() for name, value in actors.state_dict().items()}
    optimiser = torch.optim.Adam(actors.policy_parameters(), lr=1e-2)
    make_search(settings).improve_policies(
        some_states(64), actors, ExactStep(0.1), optimiser, generator()
    )
    changed = {
        name for name, value in actors.state_dict().items() if (value != before[name]).any()
    }
    assert changed
    assert all(name.startswith(("policy.", "hallucination.")) for name in changed)


# Networks


def test_policies_and_critic_see_angles_as_turns():
    task = make_task("pendulum", 0.2)
    settings = SearchSettings(policy_layers=(8,), critic_layers=(8,))
    actors = Actors(task, 2, settings, generator())
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


def test_weights_of_the_samples_sum_to_one_and_prefer_better_ones():
    settings = settings_of("mpo")
    actors, states = actors_of(settings, task=Climb(0.0)), some_states(6)
    samples = torch.linspace(-1.0, 1.0, 9)[:, None, None].expand(9, 6, 1)
    with torch.no_grad():
        for layer in actors.critic.network:
            if isinstance(layer, nn.Linear):
                layer.weight.abs_()  # values grow with the speed that the effort gives
        weights = Mpo(settings)._weights(states, samples, actors, ExactStep(), generator())
    assert weights.shape == (9, 6)
    torch.testing.assert_close(weights.sum(dim=0), torch.ones(6, dtype=weights.dtype))
    assert (weights.diff(dim=0) > 0).all()
