"""What sets the planners apart, and the random sequences they share."""

import numpy as np
import pytest
from planning_system import (
    HORIZON,
    NO_NOISE,
    OPTIMAL_GAIN,
    START,
    SYSTEM,
    Recorder,
    allow,
    always,
    closed_loop_cost,
    planner,
)

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.planners import DynaMpc, make_planner
from hucrl_ros.planners.base import Rollouts, expect
from hucrl_ros.planners.icem import refits
from hucrl_ros.planners.mppi import softmax
from hucrl_ros.planners.poplin import SequencesProposal
from hucrl_ros.planners.shooting import (
    AROUND_POLICIES,
    Noise,
    constant,
    geometric,
    power_law,
    root,
    shifted,
)


def spread(offsets):
    """Mean standard deviation over the particles `(N, H, d)`."""
    return offsets.std(axis=0).mean()


def test_dyna_mpc_is_the_default():
    assert isinstance(make_planner(PlannerSettings(), 2, 1), DynaMpc)


def test_dyna_mpc_comes_close_to_the_riccati_optimum_in_closed_loop():
    """Cost over 60 steps within 3% of the optimal controller's, around a policy of zero."""
    made = planner(particles=128, elites=12, iterations=3)
    optimal = closed_loop_cost(lambda x: -OPTIMAL_GAIN @ x)
    planned = closed_loop_cost(lambda x: made.plan(SYSTEM.imagine(x), always).actions[0])
    idle = closed_loop_cost(lambda x: np.zeros(1))
    assert idle > 1.3 * optimal
    assert optimal <= planned * (1 + 1e-6)
    assert planned < 1.03 * optimal


def test_a_tick_without_time_still_shifts_the_previous_plan():
    made = planner()
    first = Recorder(SYSTEM.imagine(START))
    made.plan(first, allow(1))
    best = first.offsets[0][np.argmax(first.returns[0])]
    made.plan(SYSTEM.imagine(START), allow(0))
    third = Recorder(SYSTEM.imagine(START))
    made.plan(third, allow(1))
    np.testing.assert_array_equal(third.offsets[0][0], shifted(shifted(best)))


@pytest.mark.parametrize("periods", [2, HORIZON + 3])
def test_periods_without_a_tick_shift_the_previous_plan_as_well(periods):
    made = planner()
    first, second = (Recorder(SYSTEM.imagine(START)) for _ in range(2))
    made.plan(first, allow(1))
    best = first.offsets[0][np.argmax(first.returns[0])]
    made.plan(second, allow(1), periods)
    expected = np.concatenate([best, np.zeros((periods, 1))])[periods : periods + HORIZON]
    np.testing.assert_array_equal(second.offsets[0][0], expected)


@pytest.mark.parametrize("name", ["dyna_mpc", "cem", "icem", "poplin_a", "poplin_bias"])
def test_iterations_improve_the_plan(name):
    def mean_return(iterations):
        plans = (
            planner(seed=seed, algorithm=name, iterations=iterations, decay=1.0).plan(
                SYSTEM.imagine(START, 0.5 * OPTIMAL_GAIN), always
            )
            for seed in range(20)
        )
        return np.mean([plan.planned_return for plan in plans])

    assert mean_return(1) < mean_return(2) < mean_return(4)


def test_the_policy_planner_does_what_the_policy_says():
    gain = np.array([[0.4, 0.3]])
    plan = planner(algorithm="policy").plan(SYSTEM.imagine(START, gain), always)
    np.testing.assert_allclose(plan.actions[0], -gain @ START, rtol=1e-6)


def test_half_of_the_draws_are_the_others_with_the_sign_changed():
    noises = []

    def imagine(offsets, noise, feedback):
        noises.append(noise.copy())
        return SYSTEM.imagine(START)(offsets, noise, feedback)

    made = planner(noise_draws=4, iterations=2)
    for _ in range(2):
        made.plan(imagine, always)
    one, again, other, _ = np.reshape(noises, (4, 4, HORIZON, 2))
    np.testing.assert_array_equal(one, again)  # in all iterations of a tick
    assert not np.isin(other, one).any()
    np.testing.assert_array_equal(one[:2], -one[2:])
    assert not np.isin(one[0], one[1]).any()


def test_a_particle_is_worth_the_mean_over_the_draws():
    noise = np.array([0.5, 2.0])[:, None, None]

    def imagine(offsets, noise, feedback):
        returns, states, actions = (factor * offsets * noise for factor in (1.0, 2.0, 3.0))
        overwritten[:] = returns  # As engines do it.
        return Rollouts(overwritten, states, actions)

    offsets, overwritten = np.ones((3, 1, 1)), np.zeros((3, 1, 1))
    for factor, mean in enumerate(expect(imagine, offsets, noise, 1.0), start=1):
        np.testing.assert_allclose(mean, 1.25 * factor)


def test_random_shooting_never_narrows_and_cem_does():
    spreads = {}
    for name in ("random_shooting", "cem"):
        recorder = Recorder(SYSTEM.imagine(START))
        planner(algorithm=name).plan(recorder, always)
        spreads[name] = [spread(offsets) for offsets in recorder.offsets]
    assert spreads["random_shooting"][2] == pytest.approx(spreads["random_shooting"][0], rel=0.2)
    assert spreads["cem"][0] > 1.3 * spreads["cem"][1] > 1.3 * 1.3 * spreads["cem"][2]


@pytest.mark.parametrize(("name", "kept"), [("dyna_mpc", True), ("cem", False)])
def test_elites_of_dyna_mpc_compete_in_the_next_iteration(name, kept):
    recorder = Recorder(SYSTEM.imagine(START))

    def imagine(offsets, noise, feedback):
        rollouts = recorder(offsets, noise, feedback)
        return rollouts._replace(returns=rollouts.returns - 10.0 * (len(recorder.returns) == 2))

    planner(algorithm=name, elites=8, smoothing=0.0).plan(imagine, always)
    first, second, third = recorder.offsets
    source = 0 if kept else 1
    best = np.argsort(-recorder.returns[source])[:8]
    expected = (first, second)[source][best].mean(axis=0)
    np.testing.assert_allclose(third[0], expected, atol=1e-6)


def test_icem_waits_for_a_whole_population_before_it_narrows():
    made = planner(algorithm="icem", iterations=3, decay=2.0)
    recorder = Recorder(SYSTEM.imagine(START))
    made.plan(recorder, always)
    first, second, third = (spread(offsets) for offsets in recorder.offsets)
    assert second == pytest.approx(first, rel=0.2)
    assert third < 0.8 * second


def test_a_population_of_icem_tries_its_mean_once():
    made = planner(algorithm="icem", iterations=3, decay=2.0)
    recorder = Recorder(SYSTEM.imagine(START))
    made.plan(recorder, always)
    population = np.concatenate(recorder.offsets[:2])
    assert len(np.unique(population, axis=0)) == len(population)


@pytest.mark.parametrize(
    ("iterations", "decay", "ends"),
    [
        (1, 1.0, {1}),
        (4, 1.0, {1, 2, 3, 4}),
        (3, 2.0, {2, 3}),
        (7, 2.0, {4, 6, 7}),
        (5, 1.25, {3, 4, 5}),
        (2, 9.0, {2}),
    ],
)
def test_populations_of_icem_shrink_to_one_iteration(iterations, decay, ends):
    assert refits(iterations, decay) == ends


def test_icem_tries_the_shifted_elites_of_the_last_tick():
    made = planner(algorithm="icem", iterations=1, elites=8, kept_elites=0.5)
    recorder = Recorder(SYSTEM.imagine(START))
    made.plan(recorder, always)
    order = np.argsort(-recorder.returns[0])
    made.plan(recorder, always)
    expected = shifted(recorder.offsets[0][order[:4]])
    np.testing.assert_array_equal(recorder.offsets[1][:4], expected)
    assert len(np.unique(recorder.offsets[1], axis=0)) == len(recorder.offsets[1])
    made.plan(SYSTEM.imagine(START), allow(0))
    made.reset(np.random.default_rng(0))
    made.plan(recorder, always)
    np.testing.assert_array_equal(recorder.offsets[2], recorder.offsets[0])


def test_mppi_sends_the_weighted_mean():
    made = planner(algorithm="mppi", iterations=1, temperature=0.5)
    recorder = Recorder(SYSTEM.imagine(START))
    plan = made.plan(recorder, always)
    returns = recorder.returns[0]
    weights = np.exp((returns - returns.max()) / (0.5 * returns.std()))
    weights /= weights.sum()
    expected = np.einsum("n,nhd->hd", weights, recorder.offsets[0])
    np.testing.assert_allclose(plan.actions, expected, rtol=1e-4, atol=1e-6)
    replay = SYSTEM.imagine(START)(plan.actions[None], NO_NOISE, 0.0).returns[0]
    assert plan.planned_return == pytest.approx(weights @ returns, rel=1e-5)
    assert plan.planned_return < replay  # The return is concave.


def test_weights_don_t_depend_on_the_size_of_returns():
    returns = np.array([1.0, 2.0, 4.0, -np.inf])
    weights, finite = softmax(returns, 0.7)
    other, _ = softmax(1e3 * returns - 5.0, 0.7)
    np.testing.assert_allclose(weights, other, rtol=1e-5)
    assert finite.tolist() == [True, True, True, False]
    assert weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(softmax(np.full(3, -2.0), 0.7)[0], 1 / 3)


def test_no_return_with_feedback_competes_with_those_without():
    draws = np.random.default_rng(0)
    proposal = SequencesProposal(
        PlannerSettings(particles=4, horizon=3, elites=1, smoothing=0.0),
        lambda: draws.standard_normal((4, 3, 1)),
        mean=np.zeros((3, 1)),
        kept=1,
        feedback=AROUND_POLICIES,
    )
    for returns in ([9.0, 8.0, 7.0, 6.0], [-3.0, -2.0, -1.0, -4.0]):
        offsets = proposal.sample()
        proposal.learn(offsets, Rollouts(np.array(returns), np.zeros((4, 4, 2)), offsets))
    np.testing.assert_array_equal(proposal.mean, offsets[2])


def test_poplin_refines_the_actions_of_the_policy_without_feedback():
    gain = np.array([[0.4, 0.3]])
    imagine = SYSTEM.imagine(START, gain)
    policy = imagine(np.zeros((1, HORIZON, 1)), NO_NOISE, 1.0).actions[0]
    recorder = Recorder(imagine)
    planner(algorithm="poplin_a", iterations=2, elites=1, noise=0.0).plan(recorder, always)
    np.testing.assert_allclose(recorder.offsets[0], 0.0)
    np.testing.assert_allclose(recorder.offsets[1], np.repeat(policy[None], 64, 0), rtol=1e-5)


def test_a_bias_is_constant_over_the_horizon():
    made = planner(algorithm="poplin_bias")
    recorder = Recorder(SYSTEM.imagine(START, 0.5 * OPTIMAL_GAIN))
    for _ in range(2):
        made.plan(recorder, always)
    for offsets in recorder.offsets:
        np.testing.assert_allclose(offsets, offsets[:, :1].repeat(HORIZON, 1), atol=1e-5)
    assert np.ptp(recorder.offsets[0][:, 0]) > 0.3


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_steps_have_unit_variance_and_the_correlation_asked_for(correlation):
    draws = Noise(geometric(HORIZON, correlation), 2, 20000).draw(np.random.default_rng(0))
    assert draws.shape == (20000, HORIZON, 2)
    covariance = np.cov(draws[..., 0].T)
    np.testing.assert_allclose(np.diag(covariance), 1.0, atol=0.05)
    np.testing.assert_allclose(np.diag(covariance, 1), correlation, atol=0.05)
    np.testing.assert_allclose(np.diag(covariance, 3), correlation**3, atol=0.05)
    between = np.mean(draws[..., 0] * draws[..., 1])
    assert abs(between) < 0.02


def test_coloured_noise_has_a_power_that_falls_with_frequency():
    for colour in (0.0, 1.0, 2.0):
        covariance = power_law(200, colour)
        np.testing.assert_allclose(np.diag(covariance), 1.0)
        wave = np.exp(-2j * np.pi * np.outer([5, 50], np.arange(200)) / 200)
        low, high = np.real(np.einsum("fi,ij,fj->f", wave, covariance, wave.conj()))
        assert low / high == pytest.approx(10**colour, rel=0.3)
    np.testing.assert_allclose(power_law(HORIZON, 0.0), np.eye(HORIZON), atol=1e-12)


def test_the_end_of_coloured_noise_isn_t_tied_to_its_start():
    correlations = power_law(HORIZON, 2.0)[0]
    assert (np.diff(correlations) < 0).all()


@pytest.mark.parametrize("covariance", [constant(6), power_law(6, 5.0), geometric(6, 0.99)])
def test_the_root_gives_back_the_covariance(covariance):
    colour = root(covariance)
    np.testing.assert_allclose(colour.T @ colour, covariance, atol=1e-5)


def test_shifting_drops_the_first_step_and_ends_with_none():
    np.testing.assert_array_equal(shifted(np.array([[1.0], [2.0], [3.0]])), [[2.0], [3.0], [0.0]])
    stack = np.arange(12.0).reshape(2, 3, 2)
    np.testing.assert_array_equal(shifted(stack)[1], shifted(stack[1]))
