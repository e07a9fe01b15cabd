"""Dynamic programming on the learned model: the plan of a perfect optimiser.

The grid, its interpolation and the backward induction work for any system with two states.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.errors import ConfigError
from hucrl_ros.planners.base import Imagine, Plan, Planner, System

Array = NDArray[np.float64]
POINTS = 121
"""Grid points along each entry of the state."""
COARSE, FINE = 15, 41
"""Efforts to choose from when the table is made, and in a tick."""
HALLUCINATIONS = (-1.0, 0.0, 1.0)
"""Values of each entry of η: values are nearly linear in η, so corners suffice."""
NOISES: Array = np.array(list(itertools.product((-np.sqrt(3.0), 0.0, np.sqrt(3.0)), repeat=2)))
"""Nodes `(K, 2)` of Gauss-Hermite quadrature over standard normal noise, three for each entry;"""
SHARES: Array = np.array([1, 4, 1, 4, 16, 4, 1, 4, 1], np.float64) / 36.0
"""their probabilities `(K,)`. Exact for polynomials up to the fifth degree in each entry."""
NEGLIGIBLE = 0.1
"""Noise counts if a node moves a state further than this [grid cells]: linear interpolation alone
spreads a state by 0.4 on average."""
UNKNOWN = -1e30
"""Reward of a step whose outcome is no number: nobody goes there who can go elsewhere."""
Step = Callable[[Array, Array], tuple[Array, Array]]
"""Next states `(N, 2)`, or `(N, K, 2)` under K noises, of states `(N, 2)` under actions `(N, a)`,
and rewards `(N,)`."""


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
        """Neighbours below and above `x` of any shape, and the share of the one above.

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
        """Indices and weights `(..., 4)` of the bilinear interpolation at `states` `(..., 2)`.

        Linear, because a cubic overshoots at the kinks of the value function, and the maximum
        over actions feeds each overshoot into the next stage.
        """
        i0, i1, a = self.first.locate(states[..., 0])
        j0, j1, b = self.second.locate(states[..., 1])
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
        """Interpolated values `(...)` of `states` `(..., 2)` at a step of the episode."""
        indices, weights = self.grid.stencil(states)
        return np.asarray((self.values[step][indices] * weights).sum(axis=-1))


def backward_induction(
    step: Step, grid: Grid, actions: Array, steps: int, shares: Array | float = 1.0
) -> ValueTable:
    """V_k(s) = max_a r(s, a) + E[V_{k+1}(f(s, a))], V_T = 0, on a grid, without discount.

    Args:
        step: Equation of motion f over one control period, and reward r.
        grid: Grid over the states.
        actions: Actions to choose from `(A, a)`.
        steps: Length T of an episode [control periods].
        shares: Probabilities `(K,)` of the noises under which `step` gives next states.
    """
    from scipy.sparse import (
        csr_matrix,
    )  # Every node imports the planners, and few of them plan so.

    states = grid.states
    count = len(states)
    transitions, gains = [], []
    for action in actions:
        repeated = np.repeat(action[None], count, axis=0)
        following, rewards = step(states, repeated)
        indices, weights = grid.stencil(following)
        weights = weights * np.asarray(shares)[..., None]
        rows = np.arange(0, weights.size + 1, weights.size // count, dtype=np.int32)
        entries = (weights.ravel().astype(np.float32), indices.ravel().astype(np.int32), rows)
        transitions.append(csr_matrix(entries, shape=(count, count)))
        gains.append(rewards.astype(np.float32))
    values = np.zeros((steps + 1, count), dtype=np.float32)
    for k in reversed(range(steps)):
        best = np.full(count, -np.inf, dtype=np.float32)
        for transition, gain in zip(transitions, gains, strict=True):
            np.maximum(best, gain + transition @ values[k + 1], out=best)
        values[k] = best
    return ValueTable(grid, values)


class Exact(Planner):
    """Exact dynamic programming on the imagined system, for states with two entries.

    It shows how much of a result is due to the exploration strategy and how much to the
    optimiser. It maximises the expected return under the noise of the imagined step, which for
    `greedy` holds the model's uncertainty (PE-DS). Making the table takes seconds to minutes,
    whenever a bundle is loaded.
    """

    def __init__(self, settings: PlannerSettings, state_dim: int, width: int) -> None:
        super().__init__(settings, state_dim, width)
        if state_dim != 2:
            raise ConfigError(
                f"planner.algorithm = 'exact': makes a grid over two entries of the state, "
                f"and this one has {state_dim}; the others plan for any number"
            )
        self.particles = 1
        self._noises, self._shares = NOISES, SHARES
        self._system: System | None = None
        self._table: ValueTable | None = None
        self._tick = 0

    def prepare(self, system: System) -> None:
        """Solve the imagined system for a whole episode."""
        self._system = system
        if (entries := system.state_bounds.shape[1]) != 2:
            raise ConfigError(
                "planner.algorithm = 'exact': makes a grid over two entries of the state, and "
                f"this one has {entries}"
            )
        grid = Grid(*(_axis(i, system) for i in range(2)))
        choices = self._choices(COARSE)
        # Each grid point under another action: enough to see how large the noise is.
        states, some = grid.states, np.resize(choices, (len(grid.states), self.width))
        moved = system.step(states, some, NOISES[-1])[0] - system.step(states, some)[0]
        cells = np.abs(moved) / (states[-1] - states[0]) * (POINTS - 1)
        if cells.max() < NEGLIGIBLE:
            self._noises, self._shares = np.zeros((1, 2)), np.array([1.0])
        self._table = backward_induction(self._step, grid, choices, system.steps, self._shares)
        self._fine = self._choices(FINE)

    def reset(self, rng: np.random.Generator) -> None:
        """Begin an episode; nothing is drawn."""
        self._tick = 0

    def plan(self, imagine: Imagine, go_on: Callable[[], bool], periods: int = 1) -> Plan | None:
        """The best action by one step ahead and the table."""
        assert self._table is not None
        assert self._system is not None
        self._tick += periods
        following = min(self._tick, self._system.steps)
        if not go_on():
            return None
        state = imagine.state.astype(np.float64)
        here = np.repeat(state[None], len(self._fine), axis=0)
        states, rewards = self._step(here, self._fine)
        values = rewards + self._table.at(following, states) @ self._shares
        best = int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))
        if not values[best] > 0.5 * UNKNOWN:
            return None
        return Plan(
            actions=self._fine[best][None].astype(np.float32),
            states=np.stack([state, self._shares @ states[best]]).astype(np.float32),
            planned_return=float(values[best]),
            iterations=1,
        )

    def _step(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Next states `(N, K, 2)` under the noises of the quadrature, and rewards `(N,)`."""
        assert self._system is not None
        outcomes = [self._system.step(states, actions, noise) for noise in self._noises]
        following, rewards = np.stack([each for each, _ in outcomes], axis=1), outcomes[0][1]
        lost = ~(np.isfinite(following).all(axis=(1, 2)) & np.isfinite(rewards))
        following = np.where(lost[:, None, None], states[:, None], following)
        return following, np.where(lost, UNKNOWN, rewards)

    def _choices(self, efforts: int) -> Array:
        """Actions `(A, 1 + h)` to choose from: efforts by hallucinations."""
        each = [np.linspace(-1.0, 1.0, efforts)] + [HALLUCINATIONS] * (self.width - 1)
        return np.array(list(itertools.product(*each)), np.float64)


def _axis(entry: int, system: System) -> Axis:
    if entry in system.angles:
        return Axis(-np.pi, np.pi, POINTS, periodic=True)
    lower, upper = system.state_bounds[:, entry]
    if not np.isfinite([lower, upper]).all():
        raise ConfigError(
            f"planner.algorithm = 'exact': entry {entry} of the state has no bound; it needs an "
            "angle or a finite `Task.state_bounds`"
        )
    return Axis(float(lower), float(upper), POINTS)
