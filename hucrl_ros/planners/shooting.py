"""The hallucinated shooting method (App. Online Planning), whatever the sampling distribution."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.planners.base import Array, Imagine, Plan, Planner, Rollouts, draw_noise, expect

Matrix = NDArray[np.float64]
"""`(H, H)`."""
EXTRA_PERIODS = 2
"""Coloured sequences are cut from periodic ones this many times longer, so that their end isn't
tied to their start."""
OPEN_LOOP, AROUND_POLICIES = 0.0, 1.0
"""Feedback: actions are the offsets themselves, or are added to (π, η)."""


class Shot(NamedTuple):
    """The plan of a tick, and the offsets that the next tick starts from."""

    plan: Plan
    memory: Array
    """`(M, H, q + h)` offsets that help the next tick, those of the plan first."""


class Proposal(ABC):
    """Where the particles of one tick come from: the sampling distribution d of the paper."""

    feedback: float
    """`OPEN_LOOP` or `AROUND_POLICIES`, for the next particles."""

    @abstractmethod
    def sample(self) -> Array:
        """The next particles' offsets `(N, H, q + h)`."""

    @abstractmethod
    def learn(self, offsets: Array, rollouts: Rollouts) -> None:
        """Update the distribution by what the last sample led to.

        Args:
            offsets: `(N, H, q + h)` as sampled.
            rollouts: Their expected outcome; a return that isn't finite has become −inf, and
                some is finite.
        """

    @abstractmethod
    def outcome(self, best: Shot) -> Shot:
        """What to send and to remember at the end of the tick.

        Args:
            best: The best particle, its offsets being all of the memory.
        """


class Noise:
    """Draws standard normal sequences `(N, H, d)` whose steps are correlated."""

    def __init__(self, covariance: Matrix, width: int, particles: int) -> None:
        """Draw N = `particles` of `width` d, with `covariance` `(H, H)` over the steps."""
        self._colour = root(covariance)
        self._shape = (particles, width, len(covariance))

    def draw(self, rng: np.random.Generator) -> Array:
        """Sequences `(N, H, d)`; their d entries are independent."""
        white: Array = rng.standard_normal(self._shape, dtype=np.float32)
        return (white @ self._colour).transpose(0, 2, 1)


class ShootingPlanner(Planner):
    """Samples, imagines and learns, `iterations` times a tick; leaves give the proposal."""

    def __init__(self, settings: PlannerSettings, state_dim: int, width: int) -> None:
        super().__init__(settings, state_dim, width)
        self._nothing: Array = np.zeros((1, settings.horizon, width), np.float32)
        self._noise = Noise(self._covariance(), width, settings.particles)
        self.reset(np.random.default_rng(0))

    def reset(self, rng: np.random.Generator) -> None:
        """Forget the last plan; draw from `rng` from now on."""
        self._rng = rng
        self._memory = self._nothing

    def plan(self, imagine: Imagine, go_on: Callable[[], bool], periods: int = 1) -> Plan | None:
        """Plan one tick, from the last one's plan shifted to now."""
        settings = self.settings
        self._memory = shifted(self._memory, periods)
        noise = draw_noise(self._rng, settings, self.state_dim)
        proposal = self._proposal(self._memory if settings.warm_start else self._nothing)
        shot = shoot(proposal, imagine, noise, settings.iterations, go_on)
        if shot is None:
            return None
        self._memory = shot.memory
        return shot.plan

    def _draw(self) -> Array:
        """Correlated standard normal sequences `(N, H, q + h)`."""
        return self._noise.draw(self._rng)

    @abstractmethod
    def _proposal(self, memory: Array) -> Proposal:
        """The proposal of a tick, given the shifted `memory` `(M, H, q + h)` or zeros."""

    def _covariance(self) -> Matrix:
        """Covariance `(H, H)` of the sampled steps."""
        return geometric(self.settings.horizon, self.settings.correlation)


def shoot(
    proposal: Proposal,
    imagine: Imagine,
    noise: Array,
    iterations: int,
    go_on: Callable[[], bool],
) -> Shot | None:
    """The hallucinated shooting method.

    Args:
        proposal: Where particles come from.
        imagine: Rolls them out.
        noise: `(K, H, m)`, the same for all particles of a tick.
        iterations: Populations, at most; each one is K calls of `imagine`.
        go_on: Asked before each iteration; False means that the time is up.

    Returns:
        The proposal's outcome; None where no particle was finite.
    """
    best: Shot | None = None
    done = 0
    while done < iterations and go_on():
        offsets = proposal.sample()
        rollouts = expect(imagine, offsets, noise, proposal.feedback)
        done += 1
        returns = np.where(np.isfinite(rollouts.returns), rollouts.returns, -np.inf)
        index = int(np.argmax(returns))
        if returns[index] == -np.inf:
            continue
        if best is None or returns[index] > best.plan.planned_return:
            plan = Plan(rollouts.actions[index], rollouts.states[index], float(returns[index]), 0)
            best = Shot(plan, offsets[index : index + 1].copy())
        proposal.learn(offsets, rollouts._replace(returns=returns))
    if best is None:
        return None
    shot = proposal.outcome(best)
    return shot._replace(plan=shot.plan._replace(iterations=done))


def root(covariance: Matrix) -> Array:
    """Matrix `(H, H)` by which white rows get that `covariance` `(H, H)`."""
    values, vectors = np.linalg.eigh(covariance)
    if values[0] > 1e-9 * values[-1]:
        factor = np.linalg.cholesky(covariance).T
    else:  # It has no Cholesky factor where a step follows from the others.
        factor = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return np.asarray(factor, np.float32)


def geometric(horizon: int, correlation: float) -> Matrix:
    """Covariance `(H, H)` of steps of which neighbours have that `correlation`."""
    return np.power(correlation, _lags(horizon))


def power_law(horizon: int, colour: float) -> Matrix:
    """Covariance `(H, H)` of noise whose power falls with frequency as 1/f^`colour`.

    0 is white noise. The constant part has the power of the lowest frequency (iCEM, Sec. 3.1).
    """
    period = EXTRA_PERIODS * horizon
    frequencies = np.minimum(np.arange(period), period - np.arange(period))
    power = np.maximum(frequencies, 1.0) ** -colour
    waves = np.cos(2.0 * np.pi * np.outer(np.arange(horizon), np.arange(period)) / period)
    by_lag: Matrix = waves @ power / power.sum()
    return by_lag[_lags(horizon)]


def constant(horizon: int) -> Matrix:
    """Covariance `(H, H)` of sequences that don't change."""
    return np.ones((horizon, horizon))


def shifted(sequences: Array, steps: int = 1) -> Array:
    """Sequences `(..., H, d)` so many steps later; the new last ones are zero."""
    new = np.zeros_like(sequences[..., :steps, :])
    return np.concatenate([sequences[..., steps:, :], new], axis=-2)


def _lags(horizon: int) -> NDArray[np.int64]:
    steps = np.arange(horizon)
    lags: NDArray[np.int64] = np.abs(np.subtract.outer(steps, steps))
    return lags
