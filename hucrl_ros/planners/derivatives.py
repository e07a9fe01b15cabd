"""First and second derivatives along a trajectory of the imagined system, by differences.

Central differences of many points are one run of a graph, whatever model and reward it holds. In
float32 a difference of `STEP` leaves errors of about 1e-5 in first and 1e-3 in second derivatives
of functions of order one.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.planners.base import System

Array = NDArray[np.float64]
STEP = 3e-2
"""In units of the entry: `scales` of the state, and 1 for an action, which is in [-1, 1]."""


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
