"""A mass pushed along a rail, as planners see it, and what the tests of planners share."""

import functools

import numpy as np

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.planners import Rollouts, make_planner

HORIZON = 15
SETTINGS = PlannerSettings(particles=64, horizon=HORIZON, iterations=3, elites=8, noise_draws=0)
NO_NOISE = np.zeros((HORIZON, 2))


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


class Walk:
    """x' = x + u + 0.3 ε from 0, r = −x'², five steps: no plan brings more than −1.35 on average.

    Efforts that are fixed at the start can do no better than none: x_t has the variance 0.09 t.
    With the policy u = −x it is 0.09 throughout, which brings −0.45.
    """

    best_open_loop = -1.35
    best = -0.45

    def __init__(self, gain=0.0):
        """u = −`gain` x is the policy."""
        self.gain = gain

    def __call__(self, offsets, noise, feedback):
        states, actions = np.zeros((len(offsets), 6, 1)), np.zeros((len(offsets), 5, 1))
        for t in range(5):
            action = offsets[:, t] - feedback * self.gain * states[:, t]
            actions[:, t] = np.clip(action, -1.0, 1.0)
            states[:, t + 1] = states[:, t] + actions[:, t] + 0.3 * noise[t]
        return Rollouts(-(states[:, 1:, 0] ** 2).sum(axis=1), states, actions)


def plans_of_walks(name, draws, gain=0.0, seeds=100):
    """A plan from each seed."""
    settings = PlannerSettings(
        algorithm=name,
        noise_draws=draws,
        particles=64,
        horizon=5,
        iterations=5,
        noise=0.5,
        correlation=0.0,
    )
    made = make_planner(settings, 1, 1)
    plans = []
    for seed in range(seeds):
        made.reset(np.random.default_rng(seed))
        plans.append(made.plan(Walk(gain), always))
    return plans


OPTIMAL_GAIN = SYSTEM.gain(SYSTEM.value)
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
        self.offsets, self.returns, self.feedback = [], [], []

    def __call__(self, offsets, noise, feedback):
        rollouts = self.imagine(offsets, noise, feedback)
        self.offsets.append(offsets.copy())
        self.feedback.append(feedback)
        self.returns.append(rollouts.returns.copy())
        return rollouts


def closed_loop_cost(control, start=START, steps=60):
    """Discounted cost of `control(state)`."""
    x, total = np.array(start), 0.0
    for t in range(steps):
        u = control(x)
        total += SYSTEM.discount**t * (x @ SYSTEM.q @ x + SYSTEM.rho * u @ u)
        x = SYSTEM.a @ x + SYSTEM.b @ u
    return total
