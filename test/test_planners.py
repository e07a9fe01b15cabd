"""What every planner does, and how good Dyna-MPC is where the optimum is known."""

import functools

import numpy as np
import pytest

from hucrl_ros.config import PlannerSettings
from hucrl_ros.planners import PLANNERS, Rollouts, make_planner
from hucrl_ros.planners.dyna_mpc import DynaMpc, correlated, shifted

HORIZON = 15
ROUNDING = 1e-9
SETTINGS = PlannerSettings(particles=64, horizon=HORIZON, iterations=3, elites=8)


class LinearQuadratic:
    """x' = A x + B u, r = −xᵀQx − ρu², closed by the exact value −xᵀPx; |u| ≤ 1."""

    a = np.array([[1.0, 0.1], [0.0, 1.0]])
    b = np.array([[0.0], [0.1]])
    q = np.diag([1.0, 0.1])
    rho = 0.01
    discount = 0.98

    @functools.cached_property
    def value(self):
        """P by value iteration of the discounted Riccati equation."""
        p = self.q
        for _ in range(2000):
            k = self.gain(p)
            closed = self.a - self.b @ k
            p = self.q + self.rho * k.T @ k + self.discount * closed.T @ p @ closed
        return p

    def gain(self, p):
        """K of the optimal u = −Kx."""
        left = self.rho * np.eye(1) + self.discount * self.b.T @ p @ self.b
        return np.linalg.solve(left, self.discount * self.b.T @ p @ self.a)

    def imagine(self, state, policy_gain=None):
        """Rolls out from `state` around u = −`policy_gain` x (none: u = 0)."""
        k = np.zeros((1, 2)) if policy_gain is None else policy_gain
        p = self.value

        def rollouts(offsets, noise, feedback):
            assert noise.shape == (HORIZON, 2)
            x = np.repeat(np.asarray(state, float)[None], len(offsets), axis=0)
            states, actions, returns = [x], [], np.zeros(len(offsets))
            for t in range(offsets.shape[1]):
                u = np.clip(feedback * -x @ k.T + offsets[:, t], -1.0, 1.0)
                cost = np.einsum("ni,ij,nj->n", x, self.q, x) + self.rho * (u**2)[:, 0]
                returns -= self.discount**t * cost
                x = x @ self.a.T + u @ self.b.T
                states.append(x)
                actions.append(u)
            returns -= self.discount ** len(actions) * np.einsum("ni,ij,nj->n", x, p, x)
            return Rollouts(returns, np.stack(states, 1), np.stack(actions, 1))

        return rollouts


SYSTEM = LinearQuadratic()
START = (0.3, -0.2)


def always():
    return True


def allow(times):
    """Go on that many times."""
    answers = iter([True] * times)
    return lambda: next(answers, False)


def planner(name="dyna_mpc", seed=0, **changes):
    made = make_planner(SETTINGS.model_copy(update=changes), 2, 1)
    made.reset(np.random.default_rng(seed))
    return made


class Recorder:
    """Keeps what a planner asked for and what it was told."""

    def __init__(self, imagine):
        self.imagine = imagine
        self.offsets, self.returns = [], []

    def __call__(self, offsets, noise, feedback):
        rollouts = self.imagine(offsets, noise, feedback)
        self.offsets.append(offsets.copy())
        self.returns.append(rollouts.returns.copy())
        return rollouts


every_planner = pytest.mark.parametrize("name", PLANNERS)


@every_planner
def test_equal_generators_give_equal_plans(name):
    plans = []
    for _ in range(2):
        made = planner(algorithm=name, seed=3)
        plans.append([made.plan(SYSTEM.imagine(START), always) for _ in range(3)])
    for one, other in zip(*plans, strict=True):
        np.testing.assert_array_equal(one.actions, other.actions)
        assert one.planned_return == other.planned_return


@every_planner
def test_the_promised_return_is_that_of_the_planned_actions(name):
    plan = planner(algorithm=name).plan(SYSTEM.imagine(START, np.array([[0.5, 0.5]])), always)
    replay = SYSTEM.imagine(START)(plan.actions[None], np.zeros((HORIZON, 2)), 0.0)
    assert plan.planned_return == pytest.approx(replay.returns[0], rel=1e-5)
    np.testing.assert_allclose(plan.states, replay.states[0], rtol=1e-5)
    assert plan.actions.shape == (HORIZON, 1)
    assert plan.states.shape == (HORIZON + 1, 2)


@every_planner
def test_a_plan_is_never_worse_than_the_policy_in_the_model(name):
    for seed in range(5):
        gain = np.random.default_rng(seed).normal(size=(1, 2))
        imagine = SYSTEM.imagine(START, gain)
        policy = imagine(np.zeros((1, HORIZON, 1)), np.zeros((HORIZON, 2)), 1.0).returns[0]
        plan = planner(algorithm=name, seed=seed, particles=4, elites=2).plan(imagine, always)
        assert plan.planned_return >= policy - ROUNDING


@every_planner
def test_without_time_there_is_no_plan_and_no_imagination(name):
    def imagine(*_):
        raise AssertionError("there was no time for this")

    assert planner(algorithm=name).plan(imagine, allow(0)) is None


@every_planner
def test_a_planner_stops_when_it_is_told_to(name):
    recorder = Recorder(SYSTEM.imagine(START))
    plan = planner(algorithm=name).plan(recorder, allow(1))
    assert plan.iterations == len(recorder.offsets) == 1


@every_planner
def test_all_particles_are_used_and_actions_stay_in_bounds(name):
    made = planner(algorithm=name, noise=5.0)
    recorder = Recorder(SYSTEM.imagine((30.0, 20.0)))
    plan = made.plan(recorder, always)
    assert all(offsets.shape == (made.particles, HORIZON, 1) for offsets in recorder.offsets)
    assert np.abs(plan.actions).max() <= 1.0


@every_planner
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_model_that_diverges_gives_no_plan(name, bad):
    def imagine(offsets, noise, feedback):
        rollouts = SYSTEM.imagine(START)(offsets, noise, feedback)
        return rollouts._replace(returns=np.full(len(offsets), bad))

    assert planner(algorithm=name).plan(imagine, always) is None


@every_planner
def test_reset_forgets_the_last_plan(name):
    made = planner(algorithm=name, seed=1)
    first = made.plan(SYSTEM.imagine(START), always)
    made.plan(SYSTEM.imagine((-5.0, 2.0)), always)
    made.reset(np.random.default_rng(1))
    np.testing.assert_array_equal(made.plan(SYSTEM.imagine(START), always).actions, first.actions)


def test_a_plan_is_never_worse_than_the_previous_one_shifted():
    made = planner(particles=8, elites=4, iterations=1, noise=0.5)
    for seed in range(10):
        made.reset(np.random.default_rng(seed))
        first = Recorder(SYSTEM.imagine(START))
        made.plan(first, always)
        previous = shifted(first.offsets[0][np.argmax(first.returns[0])])
        imagine = SYSTEM.imagine((0.25, -0.15))
        value = imagine(previous[None], np.zeros((HORIZON, 2)), 1.0).returns[0]
        assert made.plan(imagine, always).planned_return >= value - ROUNDING


def test_a_tick_without_time_still_shifts_the_previous_plan():
    made = planner()
    first = Recorder(SYSTEM.imagine(START))
    made.plan(first, allow(1))
    best = first.offsets[0][np.argmax(first.returns[0])]
    made.plan(SYSTEM.imagine(START), allow(0))
    third = Recorder(SYSTEM.imagine(START))
    made.plan(third, allow(1))
    np.testing.assert_array_equal(third.offsets[0][0], shifted(shifted(best)))


def test_one_infinite_return_does_not_win():
    def imagine(offsets, noise, feedback):
        rollouts = SYSTEM.imagine(START)(offsets, noise, feedback)
        rollouts.returns[3] = np.inf
        rollouts.returns[4] = np.nan
        return rollouts

    assert np.isfinite(planner().plan(imagine, always).planned_return)


def test_iterations_improve_the_plan():
    def mean_return(iterations):
        plans = (
            planner(seed=seed, iterations=iterations).plan(SYSTEM.imagine(START), always)
            for seed in range(20)
        )
        return np.mean([plan.planned_return for plan in plans])

    assert mean_return(1) < mean_return(2) < mean_return(4)


def test_planning_comes_close_to_the_riccati_optimum_in_closed_loop():
    """Cost over 60 steps within 3% of the optimal controller's, around a policy of zero."""
    gain = SYSTEM.gain(SYSTEM.value)

    def cost(control):
        x, total = np.array(START), 0.0
        for t in range(60):
            u = control(x)
            total += SYSTEM.discount**t * (x @ SYSTEM.q @ x + SYSTEM.rho * u @ u)
            x = SYSTEM.a @ x + SYSTEM.b @ u
        return total

    made = planner(particles=128, elites=12, iterations=3)
    optimal = cost(lambda x: -gain @ x)
    planned = cost(lambda x: made.plan(SYSTEM.imagine(x), always).actions[0])
    idle = cost(lambda x: np.zeros(1))
    assert idle > 1.3 * optimal
    assert optimal <= planned * (1 + 1e-6)
    assert planned < 1.03 * optimal


def test_the_policy_planner_does_what_the_policy_says():
    gain = np.array([[0.4, 0.3]])
    plan = planner(algorithm="policy").plan(SYSTEM.imagine(START, gain), always)
    np.testing.assert_allclose(plan.actions[0], -gain @ START, rtol=1e-6)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_offsets_have_unit_variance_and_the_correlation_asked_for(correlation):
    white = np.random.default_rng(0).normal(size=(20000, HORIZON))
    draws = white @ correlated(HORIZON, correlation)
    covariance = np.cov(draws.T)
    np.testing.assert_allclose(np.diag(covariance), 1.0, atol=0.05)
    np.testing.assert_allclose(np.diag(covariance, 1), correlation, atol=0.05)
    np.testing.assert_allclose(np.diag(covariance, 3), correlation**3, atol=0.05)


def test_shifting_drops_the_first_step_and_ends_with_none():
    np.testing.assert_array_equal(shifted(np.array([[1.0], [2.0], [3.0]])), [[2.0], [3.0], [0.0]])


def test_dyna_mpc_is_the_default():
    assert isinstance(make_planner(PlannerSettings(), 2, 1), DynaMpc)
