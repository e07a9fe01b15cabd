"""Iterative LQR on the imagined system (Li & Todorov 2004; Tassa et al. 2014 for the bounds)."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.planners.base import Imagine, Plan, Planner, System

Array = NDArray[np.float64]
STEP_SIZES = np.power(0.5, np.arange(8, dtype=np.float64))
"""Shares of the newly found step that are tried side by side."""
LEAST, MOST = 1e-4, 1e4
"""Regularisation: added to the curvature in the actions."""
HELD, LEAST_GAIN = 1e-9, 1e-12
"""An action that near to a bound is at it, and a step that gains less is the last one."""
STEP = 3e-2
"""Difference for derivatives, in units of the entry: `scales` of the state, 1 for an action.

Central differences of many points are one run of a graph, whatever model and reward it holds. In
float32 this one leaves errors of about 1e-5 in first and 1e-3 in second derivatives of functions
of order one.
"""


class Expansion(NamedTuple):
    """Taylor expansion of dynamics (first order) and reward (second order) at H points.

    d = p + q + h entries of state and action together.
    """

    jacobian: Array
    """`(H, p, d)` of the next state."""
    gradient: Array
    """`(H, d)` of the reward."""
    hessian: Array
    """`(H, d, d)` of the reward."""


def expand(system: System, states: Array, actions: Array, scales: Array) -> Expansion:
    """Derivatives at `states` `(H, p)` and `actions` `(H, q + h)`.

    Args:
        system: The imagined system.
        states: `(H, p)`.
        actions: `(H, q + h)` in [-1, 1].
        scales: `(p,)` how much a change of each state entry means.
    """
    horizon, state_dim = states.shape
    points = np.concatenate([states, actions], axis=1)
    steps = STEP * np.concatenate([scales, np.ones(actions.shape[1])])
    shifts = np.diag(steps)
    around = (points[:, None] + np.concatenate([shifts, -shifts])).reshape(-1, len(steps))
    following, _ = system.step(around[:, :state_dim], around[:, state_dim:])
    above, below = following.reshape(horizon, 2, len(steps), state_dim).transpose(1, 0, 3, 2)
    gradient, hessian = scalar_derivatives(
        lambda z: system.rewards(z[:, :state_dim], z[:, state_dim:]), points, steps
    )
    return Expansion((above - below) / (2.0 * steps), gradient, hessian)


def scalar_derivatives(
    function: Callable[[Array], Array], points: Array, steps: Array
) -> tuple[Array, Array]:
    """Gradients `(H, d)` and Hessians `(H, d, d)` of a function of one point.

    Args:
        function: Values `(N,)` of points `(N, d)`.
        points: `(H, d)`.
        steps: Size of the differences `(d,)`.
    """
    size = len(steps)
    shifts = np.diag(steps)
    pairs = list(itertools.combinations(range(size), 2))
    both = np.array([shifts[i] + shifts[j] for i, j in pairs]).reshape(-1, size)
    offsets = np.concatenate([np.zeros((1, size)), shifts, -shifts, both, -both])
    values = function((points[:, None] + offsets).reshape(-1, size)).reshape(len(points), -1)
    centre, above, below = (
        values[:, :1],
        values[:, 1 : 1 + size],
        values[:, 1 + size : 1 + 2 * size],
    )
    hessian = np.zeros((len(points), size, size))
    sides = above + below - 2.0 * centre
    hessian[:, range(size), range(size)] = sides / steps**2
    if pairs:
        i, j = np.array(pairs).T
        corners = values[:, 1 + 2 * size :].reshape(len(points), 2, -1).sum(axis=1)
        cross = (corners - 2.0 * centre - sides[:, i] - sides[:, j]) / (2.0 * steps[i] * steps[j])
        hessian[:, i, j] = hessian[:, j, i] = cross
    return (above - below) / (2.0 * steps), hessian


class _Trajectory(NamedTuple):
    states: Array
    """`(H + 1, p)`."""
    actions: Array
    """`(H, q + h)`."""
    total: float
    """Discounted rewards, then the discounted critic of the last state."""


class _Feedback(NamedTuple):
    """Change of the action: `step + gain · (state − nominal state)`."""

    step: Array
    """`(H, q + h)`."""
    gain: Array
    """`(H, q + h, p)`."""


class Ilqr(Planner):
    """iLQR: Gauss-Newton on efforts and hallucinated actions of the whole horizon at once.

    Each iteration expands the imagined system along the present trajectory (derivatives in one
    batch), solves the quadratic problem backward, and tries the result in eight step sizes. It
    starts from the better of the previous tick's plan, shifted, and the policies. The noise of
    the imagined step is left out. Rewards must have derivatives: where they are flat, as a
    sparse one is far from its goal, it follows the critic alone.
    """

    needs_gradients = True

    def __init__(self, settings: PlannerSettings, state_dim: int, width: int) -> None:
        super().__init__(settings, state_dim, width)
        self.particles = 1
        self._system: System | None = None
        self._previous: Array | None = None
        self._passed = 0
        self._regularisation = 1.0

    def prepare(self, system: System) -> None:
        """Plan on this system."""
        self._system = system

    def reset(self, rng: np.random.Generator) -> None:
        """Forget the last plan; nothing is drawn."""
        self._previous = None
        self._regularisation = 1.0

    def plan(self, imagine: Imagine, go_on: Callable[[], bool], periods: int = 1) -> Plan | None:
        """Improve the better of two trajectories."""
        self._passed += periods
        if not go_on():
            return None
        horizon = self.settings.horizon
        nothing = np.zeros((1, horizon, self.width), np.float32)
        calm = np.zeros((horizon, self.state_dim), np.float32)
        policies = imagine(nothing, calm, 1.0).actions[0].astype(np.float64)
        starts = [policies]
        if self._previous is not None:
            ahead = self._previous[self._passed :]
            starts.append(np.concatenate([ahead, policies[len(ahead) :]]))
        state = imagine.state.astype(np.float64)
        best = max((self._play(state, start) for start in starts), key=lambda found: found.total)
        done = 0
        while done < self.settings.iterations and (done == 0 or go_on()):
            better = self._improve(best)
            best = better if better.total > best.total else best
            done += 1
        if not np.isfinite(best.total):
            return None
        self._previous, self._passed = best.actions, 0
        return Plan(
            best.actions.astype(np.float32), best.states.astype(np.float32), best.total, done
        )

    def _play(self, state: Array, actions: Array) -> _Trajectory:
        """Open loop."""
        gain = np.zeros((*actions.shape, len(state)))
        nominal = _Trajectory(np.zeros((len(actions) + 1, len(state))), actions, 0.0)
        nominal.states[0] = state
        return self._follow(nominal, _Feedback(np.zeros_like(actions), gain), np.ones(1))

    def _follow(self, nominal: _Trajectory, feedback: _Feedback, sizes: Array) -> _Trajectory:
        """Play the feedback in every step size; returns the best."""
        assert self._system is not None
        states = [np.repeat(nominal.states[:1], len(sizes), axis=0)]
        actions, weight = list[Array](), 1.0
        total: Array = np.zeros(len(sizes))
        for t, planned in enumerate(nominal.actions):
            away = states[-1] - nominal.states[t]
            change = sizes[:, None] * feedback.step[t] + away @ feedback.gain[t].T
            actions.append(np.clip(planned + change, -1.0, 1.0))
            following, rewards = self._system.step(states[-1], actions[-1])
            total += weight * rewards
            weight *= self._system.discount
            states.append(following)
        total += weight * self._system.values(states[-1])
        total = np.where(np.isfinite(total), total, -np.inf)
        best = int(np.argmax(total))
        return _Trajectory(
            np.stack(states)[:, best], np.stack(actions)[:, best], float(total[best])
        )

    def _improve(self, nominal: _Trajectory) -> _Trajectory:
        """One iteration; where nothing gets better, the next one takes smaller steps."""
        assert self._system is not None
        scales = 1.0 + np.abs(nominal.states).max(axis=0) / 10.0
        expansion = expand(self._system, nominal.states[:-1], nominal.actions, scales)
        last = nominal.states[-1:]
        slope, curvature = scalar_derivatives(self._system.values, last, STEP * scales)
        value = slope[0], curvature[0]
        if not all(np.isfinite(part).all() for part in (*expansion, *value)):
            return nominal
        feedback = self._backward(expansion, value, nominal.actions)
        found = self._follow(nominal, feedback, STEP_SIZES)
        factor = 0.2 if found.total > nominal.total else 10.0
        self._regularisation = float(np.clip(factor * self._regularisation, LEAST, MOST))
        return found

    def _backward(
        self, expansion: Expansion, value: tuple[Array, Array], actions: Array
    ) -> _Feedback:
        """Maximise the quadratic model of the return, last step first."""
        assert self._system is not None
        discount, state_dim = self._system.discount, expansion.jacobian.shape[1]
        slope, curvature = value[0], _concave(value[1])
        step = np.zeros_like(actions)
        gain = np.zeros((*actions.shape, state_dim))
        for t in reversed(range(len(actions))):
            jacobian = expansion.jacobian[t]
            q_slope = expansion.gradient[t] + discount * jacobian.T @ slope
            q_curvature = expansion.hessian[t] + discount * jacobian.T @ curvature @ jacobian
            q_curvature = _concave(q_curvature)
            inner = q_curvature[state_dim:, state_dim:] - self._regularisation * np.eye(self.width)
            mixed = q_curvature[state_dim:, :state_dim]
            step[t], free = _bounded(inner, q_slope[state_dim:], actions[t])
            if free.any():
                gain[t, free] = -np.linalg.solve(inner[np.ix_(free, free)], mixed[free])
            k, gains = step[t], gain[t]
            slope = q_slope[:state_dim] + mixed.T @ k + gains.T @ (q_slope[state_dim:] + inner @ k)
            curvature = (
                q_curvature[:state_dim, :state_dim]
                + gains.T @ inner @ gains
                + mixed.T @ gains
                + gains.T @ mixed
            )
            curvature = 0.5 * (curvature + curvature.T)
        return _Feedback(step, gain)


def _concave(matrix: Array) -> Array:
    """The nearest matrix that has no positive curvature, which would predict infinite returns."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.minimum(values, 0.0)) @ vectors.T)


def _bounded(curvature: Array, slope: Array, present: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Maximise `slope · k + ½ k · curvature k` so that `present + k` stays in [-1, 1].

    By projected Newton steps: what a bound holds is let go where that pays.

    Returns:
        k, and which of its entries are not held by a bound.
    """

    def gain(k: Array) -> float:
        return float(slope @ k + 0.5 * k @ curvature @ k)

    change = np.zeros_like(slope)
    free: NDArray[np.bool_] = np.ones(len(slope), np.bool_)
    for _ in range(4 * len(slope)):
        pull, place = slope + curvature @ change, present + change
        free = ~(((place >= 1.0 - HELD) & (pull > 0.0)) | ((place <= HELD - 1.0) & (pull < 0.0)))
        if not free.any():
            break
        newton = np.zeros_like(slope)
        newton[free] = -np.linalg.solve(curvature[np.ix_(free, free)], pull[free])
        tried = np.clip(place + STEP_SIZES[:, None] * newton, -1.0, 1.0) - present
        best = max(tried, key=gain)
        if gain(best) <= gain(change) + LEAST_GAIN:
            break
        change = best
    return change, free
