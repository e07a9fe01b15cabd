"""Planners that ask the imagined system for more than rollouts: iLQR and exact programming."""

import numpy as np
import pytest
from planning_system import HORIZON, NO_NOISE, OPTIMAL_GAIN, START, SYSTEM, allow, always
from scipy.optimize import minimize

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.errors import ConfigError
from hucrl_ros.planners import exact as exact_module
from hucrl_ros.planners.exact import Exact
from hucrl_ros.planners.ilqr import Ilqr, _bounded, expand, scalar_derivatives

SETTINGS = PlannerSettings(particles=64, horizon=HORIZON, iterations=3, elites=8)
NEAR = (0.1, -0.1)


class Asked:
    """The linear-quadratic system, as a planner may ask for it."""

    steps = 30
    discount = SYSTEM.discount
    angles = ()
    state_bounds = np.array([[-2.0, -3.0], [2.0, 3.0]], np.float32)

    deviation = 0.0

    def step(self, states, actions, noise=0.0):
        following = states @ SYSTEM.a.T + actions @ SYSTEM.b.T + self.deviation * noise
        return following, self.rewards(states, actions)

    def rewards(self, states, actions):
        cost = np.einsum("ni,ij,nj->n", states, SYSTEM.q, states)
        return -cost - SYSTEM.rho * (actions**2).sum(axis=1)

    def values(self, states):
        return -np.einsum("ni,ij,nj->n", states, SYSTEM.value, states)


class Imagine:
    """Rollouts from a state."""

    def __init__(self, state, gain=None):
        self.state = np.asarray(state, np.float32)
        self._roll_out = SYSTEM.imagine(state, gain)

    def __call__(self, offsets, noise, feedback):
        return self._roll_out(offsets, noise, feedback)


def ilqr(system=None, **changes):
    made = Ilqr(SETTINGS.model_copy(update=changes), 2, 1)
    made.prepare(system or Asked())
    made.reset(np.random.default_rng(0))
    return made


def value_of(plan, state):
    return SYSTEM.imagine(state)(plan.actions[None], NO_NOISE, 0.0).returns[0]


def test_ilqr_solves_a_linear_quadratic_problem():
    optimum = -(np.array(NEAR) @ SYSTEM.value @ np.array(NEAR))
    plan = ilqr(iterations=6).plan(Imagine(NEAR), always)
    assert value_of(plan, NEAR) == pytest.approx(optimum, rel=1e-4)
    assert plan.actions[0, 0] == pytest.approx(-(OPTIMAL_GAIN @ NEAR)[0], abs=2e-3)


def test_ilqr_finds_the_best_bounded_efforts():
    """Far away the first efforts are at their limit; thousands of other plans are no better."""
    far = (5.0, 3.0)
    plan = ilqr(iterations=10).plan(Imagine(far), always)
    assert np.abs(plan.actions).max() <= 1.0
    rng = np.random.default_rng(0)
    others = np.clip(plan.actions + 0.3 * rng.standard_normal((4000, HORIZON, 1)), -1.0, 1.0)
    assert SYSTEM.imagine(far)(others, NO_NOISE, 0.0).returns.max() <= value_of(plan, far) + 1e-6


def test_ilqr_predicts_what_its_actions_bring():
    plan = ilqr().plan(Imagine(START), always)
    assert plan.planned_return == pytest.approx(value_of(plan, START), rel=1e-6)
    np.testing.assert_allclose(
        plan.states, SYSTEM.imagine(START)(plan.actions[None], NO_NOISE, 0.0).states[0], atol=1e-6
    )


def test_ilqr_is_never_worse_than_the_policy_nor_without_its_last_plan():
    gain = np.array([[0.5, 1.0]])
    policy = SYSTEM.imagine(START, gain)(np.zeros((1, HORIZON, 1)), NO_NOISE, 1.0).returns[0]
    made = ilqr(iterations=1)
    cold = made.plan(Imagine(START, gain), always)
    assert cold.planned_return >= policy
    warm = made.plan(Imagine(START, gain), always)
    assert warm.planned_return >= cold.planned_return - 0.05 * abs(cold.planned_return)


@pytest.mark.parametrize("periods", [(1, 1), (2,)])
def test_ilqr_goes_on_from_where_its_last_plan_is_now(periods, monkeypatch):
    made, starts = ilqr(iterations=0), []
    play = made._play
    monkeypatch.setattr(made, "_play", lambda x, u: starts.append(u) or play(x, u))
    last = made.plan(Imagine(START), always).actions
    for passed in periods[:-1]:
        assert made.plan(Imagine(START), allow(0), passed) is None
    made.plan(Imagine(START), always, periods[-1])
    np.testing.assert_allclose(starts[-1][:-2], last[2:], atol=1e-6)


def test_ilqr_stops_when_it_is_told_to():
    assert ilqr().plan(Imagine(START), allow(0)) is None
    assert ilqr(iterations=5).plan(Imagine(START), allow(2)).iterations == 2


def test_ilqr_gives_the_same_plan_again():
    plans = [ilqr().plan(Imagine(START), always) for _ in range(2)]
    np.testing.assert_array_equal(plans[0].actions, plans[1].actions)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_system_that_diverges_gives_no_plan(bad):
    class Diverging(Asked):
        def rewards(self, states, actions):
            return np.full(len(states), bad)

    assert ilqr(Diverging()).plan(Imagine(START), always) is None


class Undiscounted(Asked):
    """What dynamic programming over an episode solves."""

    discount = 1.0

    def values(self, states):
        return np.zeros(len(states))


def exact(system):
    made = Exact(SETTINGS, 2, 1)
    made.prepare(system)
    made.reset(np.random.default_rng(0))
    return made


def riccati_gains(steps):
    """Gains of the optimal efforts of an episode, first step first."""
    p, gains = np.zeros((2, 2)), []
    for _ in range(steps):
        left = SYSTEM.rho * np.eye(1) + SYSTEM.b.T @ p @ SYSTEM.b
        k = np.linalg.solve(left, SYSTEM.b.T @ p @ SYSTEM.a)
        closed = SYSTEM.a - SYSTEM.b @ k
        p = SYSTEM.q + SYSTEM.rho * k.T @ k + closed.T @ p @ closed
        gains.append(k)
    return gains[::-1]


def played(control, state, steps):
    """Return of `control(step, state)` over an episode."""
    state, total = np.array(state), 0.0
    for step in range(steps):
        action = control(step, state)
        total -= state @ SYSTEM.q @ state + SYSTEM.rho * float(action @ action)
        state = SYSTEM.a @ state + SYSTEM.b @ action
    return total


def test_exact_programming_is_nearly_riccatis_optimum():
    gains = riccati_gains(Undiscounted.steps)
    state = (0.5, -0.4)
    best = played(lambda step, x: -gains[step] @ x, state, Undiscounted.steps)
    planner = exact(Undiscounted())
    found = played(
        lambda _, x: planner.plan(Imagine(x), always).actions[0], state, Undiscounted.steps
    )
    assert best * 1.02 <= found <= best + 1e-9


def test_exact_programming_knows_how_many_periods_are_left():
    """Efforts cost, so those of the last steps are small: a missed tick brings these nearer."""
    end, planner = (2.0, 0.0), exact(Undiscounted())

    def effort(calls):
        planner.reset(np.random.default_rng(0))
        return [planner.plan(Imagine(end), always, n).actions[0, 0] for n in calls][-1]

    late = effort([1] * Undiscounted.steps)
    assert effort([1, Undiscounted.steps - 1]) == late
    assert effort([1, 1]) != late


def test_exact_programming_hallucinates_where_that_pays():
    """η moves the second state entry; what it is worth is known at once: as much as it can."""

    class Uncertain(Undiscounted):
        def step(self, states, actions, noise=0.0):
            following, rewards = super().step(states, actions[:, :1])
            return following + 0.3 * actions[:, 1:] * [0.0, 1.0], rewards

    made = Exact(SETTINGS, 2, 3)
    made.prepare(Uncertain())
    made.reset(np.random.default_rng(0))
    plan = made.plan(Imagine((1.5, 1.5)), always)
    assert plan.actions[0, 0] == -1.0
    assert plan.actions[0, 2] == -1.0


def test_exact_programming_counts_the_noise_of_each_step():
    """Noise costs Σ tr(P_k) σ² over the steps to come, as V_k(x) = -x'P_k x."""

    class Noisy(Undiscounted):
        deviation = 0.05

    plans = [exact(kind()).plan(Imagine(NEAR), always) for kind in (Undiscounted, Noisy)]
    trace, p = 0.0, np.zeros((2, 2))
    for k in riccati_gains(Noisy.steps)[::-1]:
        trace += np.trace(p)
        closed = SYSTEM.a - SYSTEM.b @ k
        p = SYSTEM.q + SYSTEM.rho * k.T @ k + closed.T @ p @ closed
    lost = plans[0].planned_return - plans[1].planned_return
    assert lost == pytest.approx(trace * Noisy.deviation**2, rel=0.1)


@pytest.mark.parametrize(("deviation", "best"), [(0.0, 0.5), (0.0005, 0.5), (0.1, 0.3)])
def test_exact_programming_keeps_away_from_a_cliff_that_noise_may_cross(deviation, best):
    """A place is worth its x up to 0.5, beyond it -1; efforts are 0.05 apart.

    At 0.35 and beyond a node of the quadrature, 0.17 further on, falls: a sixth of 1.5 or more.
    """

    class Cliff(Undiscounted):
        steps = 2
        state_bounds = np.array([[-1.0, -1.0], [1.0, 1.0]], np.float32)

        def step(self, states, actions, noise=0.0):
            following = np.concatenate([actions, states[:, 1:]], axis=1) + deviation * noise
            return following, np.where(states[:, 0] <= 0.5, states[:, 0], -1.0)

    plan = exact(Cliff()).plan(Imagine((0.0, 0.0)), always)
    assert plan.actions[0, 0] == pytest.approx(best)
    assert plan.planned_return == pytest.approx(best, abs=1e-6)
    np.testing.assert_allclose(plan.states[1], [best, 0.0], atol=1e-6)


def test_exact_programming_is_for_two_entries_with_bounds():
    with pytest.raises(ConfigError, match="this one has 14"):
        Exact(SETTINGS, 14, 7)

    class Unbounded(Undiscounted):
        state_bounds = np.array([[-np.inf, -3.0], [np.inf, 3.0]], np.float32)

    with pytest.raises(ConfigError, match="entry 0 of the state has no bound"):
        exact(Unbounded())


RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((3, 3)), RNG.standard_normal((3, 2))
Q = RNG.standard_normal((5, 5))
Q = -Q @ Q.T
LINEAR = RNG.standard_normal(5)


class Quadratic:
    """s' = As + Ba, r = b z + z'Qz / 2 with z = (s, a)."""

    def step(self, states, actions):
        return states @ A.T + actions @ B.T, self.rewards(states, actions)

    def rewards(self, states, actions):
        z = np.concatenate([states, actions], axis=1)
        return z @ LINEAR + 0.5 * (z @ Q * z).sum(axis=1)


def test_a_linear_quadratic_system_is_expanded_exactly():
    states, actions = RNG.standard_normal((4, 3)), RNG.standard_normal((4, 2))
    found = expand(Quadratic(), states, actions, np.array([1.0, 0.1, 10.0]))
    z = np.concatenate([states, actions], axis=1)
    np.testing.assert_allclose(found.jacobian, np.tile(np.hstack([A, B]), (4, 1, 1)), atol=1e-8)
    np.testing.assert_allclose(found.gradient, LINEAR + z @ Q, atol=1e-7)
    np.testing.assert_allclose(found.hessian, np.tile(Q, (4, 1, 1)), atol=1e-5)


def test_curved_functions_up_to_the_square_of_the_difference():
    points = RNG.uniform(-1, 1, (6, 2))
    gradient, hessian = scalar_derivatives(
        lambda z: np.sin(z[:, 0]) * np.exp(z[:, 1]), points, np.full(2, 1e-3)
    )
    s, c, e = np.sin(points[:, 0]), np.cos(points[:, 0]), np.exp(points[:, 1])
    np.testing.assert_allclose(gradient, np.stack([c * e, s * e], axis=1), atol=1e-5)
    expected = np.stack([[-s * e, c * e], [c * e, s * e]]).transpose(2, 0, 1)
    np.testing.assert_allclose(hessian, expected, atol=1e-4)


def test_functions_of_one_number_have_no_pairs():
    gradient, hessian = scalar_derivatives(lambda z: z[:, 0] ** 2, np.ones((2, 1)), np.ones(1))
    np.testing.assert_allclose(gradient, [[2.0], [2.0]])
    np.testing.assert_allclose(hessian, [[[2.0]], [[2.0]]])


def test_a_step_within_bounds_is_the_best_one():
    """What a bound holds is let go where that pays."""
    rng = np.random.default_rng(0)
    cases = [(np.array([[-1.0, 0.95], [0.95, -1.0]]), np.array([1.0, 0.5]), np.array([0.9, -0.9]))]
    for _ in range(100):
        size = int(rng.integers(2, 5))
        factor = rng.normal(size=(size, size))
        curvature = -factor @ factor.T - 0.1 * np.eye(size)
        cases.append((curvature, 2.0 * rng.normal(size=size), rng.uniform(-1, 1, size)))
    for curvature, slope, present in cases:

        def gain(k, curvature=curvature, slope=slope):
            return slope @ k + 0.5 * k @ curvature @ k

        step, _ = _bounded(curvature, slope, present)
        bounds = list(zip(-1.0 - present, 1.0 - present, strict=True))
        best = minimize(lambda k, gain=gain: -gain(k), np.zeros(len(slope)), bounds=bounds).x
        assert np.abs(present + step).max() <= 1.0 + 1e-9
        assert gain(step) >= gain(best) - 1e-2 * max(gain(best), 1.0)


def test_a_corner_that_is_no_number_spoils_no_other_place(monkeypatch):
    monkeypatch.setattr(exact_module, "POINTS", 21)

    class Bad(Undiscounted):
        def step(self, states, actions, noise=0.0):
            following, rewards = super().step(states, actions, noise)
            return np.where(states[:, :1] > 1.5, np.nan, following), rewards

    assert exact(Bad()).plan(Imagine((0.3, -0.2)), always) is not None
    assert exact(Bad()).plan(Imagine((1.9, 0.0)), always) is None
