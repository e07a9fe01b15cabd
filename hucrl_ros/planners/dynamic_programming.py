"""Dynamic programming over a finite horizon, on a grid over states with two entries."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Array = NDArray[np.float64]

Step = Callable[[Array, Array], tuple[Array, Array]]
"""Next states `(N, 2)` of states `(N, 2)` under actions `(N, a)`, and rewards `(N,)`."""


@dataclass(frozen=True)
class Axis:
    """Evenly spaced values of one entry of the state."""

    lower: float
    upper: float
    count: int
    """Number of values; of a periodic axis `upper` is not one of them."""
    periodic: bool = False

    @property
    def values(self) -> Array:
        """The values `(count,)`."""
        ends = not self.periodic
        return np.linspace(self.lower, self.upper, self.count, endpoint=ends, dtype=np.float64)

    def locate(self, x: Array) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
        """Neighbours below and above `x` `(N,)`, and the share of the one above.

        Values beyond the ends of an axis that isn't periodic count as the end.
        """
        cells = self.count if self.periodic else self.count - 1
        position = (x - self.lower) / (self.upper - self.lower) * cells
        if not self.periodic:
            position = np.clip(position, 0.0, cells)
        below = np.floor(position).astype(np.intp)
        share = position - below
        if self.periodic:
            return below % self.count, (below + 1) % self.count, share
        return below, np.minimum(below + 1, cells), share


@dataclass(frozen=True)
class Grid:
    """A grid over states with two entries, the second running fastest."""

    first: Axis
    second: Axis

    @property
    def states(self) -> Array:
        """All grid points `(G, 2)`."""
        mesh = np.meshgrid(self.first.values, self.second.values, indexing="ij")
        return np.stack([part.ravel() for part in mesh], axis=-1)

    def stencil(self, states: Array) -> tuple[NDArray[np.intp], Array]:
        """Indices and weights `(N, 4)` of the bilinear interpolation at `states` `(N, 2)`.

        Linear, because a cubic overshoots at the kinks of the value function, and the maximum
        over actions feeds each overshoot into the next stage.
        """
        i0, i1, a = self.first.locate(states[:, 0])
        j0, j1, b = self.second.locate(states[:, 1])
        width = self.second.count
        corners = (i0 * width + j0, i0 * width + j1, i1 * width + j0, i1 * width + j1)
        weights = ((1 - a) * (1 - b), (1 - a) * b, a * (1 - b), a * b)
        return np.stack(corners, axis=-1), np.stack(weights, axis=-1)


@dataclass(frozen=True)
class ValueTable:
    """Return still achievable from each grid point at each step of an episode."""

    grid: Grid
    values: NDArray[np.float32]
    """`(T + 1, G)`; the last row is zero."""

    def at(self, step: int, states: Array) -> Array:
        """Interpolated values `(N,)` of `states` `(N, 2)` at a step of the episode."""
        indices, weights = self.grid.stencil(states)
        return np.asarray((self.values[step][indices] * weights).sum(axis=-1))


def backward_induction(step: Step, grid: Grid, actions: Array, steps: int) -> ValueTable:
    """V_k(s) = max_a r(s, a) + V_{k+1}(f(s, a)), V_T = 0, on a grid, without discount.

    Args:
        step: Equation of motion f over one control period, and reward r.
        grid: Grid over the states.
        actions: Actions to choose from `(A, a)`.
        steps: Length T of an episode [control periods].
    """
    states = grid.states
    count = len(states)
    transitions, gains = [], []
    for action in actions:
        repeated = np.repeat(action[None], count, axis=0)
        following, rewards = step(states, repeated)
        indices, weights = grid.stencil(following)
        rows = np.arange(0, 4 * count + 1, 4, dtype=np.int32)
        entries = (weights.ravel().astype(np.float32), indices.ravel().astype(np.int32), rows)
        transitions.append(scipy.sparse.csr_matrix(entries, shape=(count, count)))
        gains.append(rewards.astype(np.float32))
    values = np.zeros((steps + 1, count), dtype=np.float32)
    for k in reversed(range(steps)):
        best = np.full(count, -np.inf, dtype=np.float32)
        for transition, gain in zip(transitions, gains, strict=True):
            np.maximum(best, gain + transition @ values[k + 1], out=best)
        values[k] = best
    return ValueTable(grid, values)
