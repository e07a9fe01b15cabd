"""Model-predictive path integral control."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.planners.base import Array, Plan, Rollouts
from hucrl_ros.planners.shooting import OPEN_LOOP, Proposal, ShootingPlanner, Shot


class Mppi(ShootingPlanner):
    """MPPI: samples efforts without policies, sends their weighted mean (Williams et al. 2017).

    A particle weighs exp(return / λ), where λ is `temperature` standard deviations of the
    returns, so that it needs no tuning to the size of rewards. The distribution's width stays
    as it is. The plan's trajectory and return are the weighted means of the particles': those
    of the weighted mean itself, as long as the system is linear in between and the return, too.
    """

    def _proposal(self, memory: Array) -> Proposal:
        return WeightsProposal(self.settings, self._draw, mean=memory[0])


@dataclass
class WeightsProposal(Proposal):
    """A normal distribution whose mean follows all samples, by weight."""

    settings: PlannerSettings
    draw: Callable[[], Array]
    """Standard normal sequences `(N, H, q + h)`."""
    mean: Array
    """`(H, q + h)`."""
    feedback: float = OPEN_LOOP

    def __post_init__(self) -> None:
        self._states: Array | None = None
        self._value = -np.inf

    def sample(self) -> Array:
        """Offsets `(N, H, q + h)` around the mean, which is one of them."""
        draws = self.mean + self.settings.noise * self.draw()
        offsets: Array = np.clip(draws, -1.0, 1.0)
        offsets[0] = self.mean
        return offsets

    def learn(self, offsets: Array, rollouts: Rollouts) -> None:
        """Move the mean."""
        weights, finite = softmax(rollouts.returns, self.settings.temperature)
        self.mean = _mean(weights, offsets[finite])
        self._states = _mean(weights, rollouts.states[finite])
        self._value = float(weights @ rollouts.returns[finite])

    def outcome(self, best: Shot) -> Shot:
        """The weighted mean, in place of the best particle."""
        assert self._states is not None
        plan = Plan(self.mean, self._states, self._value, best.plan.iterations)
        return Shot(plan, self.mean[None])


def softmax(returns: Array, temperature: float) -> tuple[Array, Array]:
    """Weights of the finite returns, and which of `returns` `(N,)` these are, `(N,)` of bool.

    Args:
        returns: Some of them finite, the others −inf.
        temperature: Difference that makes a factor of e [standard deviations of the returns].
    """
    finite = np.isfinite(returns)
    known = returns[finite].astype(np.float64)
    scale = temperature * known.std()
    differences = known - known.max()
    # Where all returns are equal, so are the weights.
    weights = np.exp(differences / scale) if scale > 0 else np.ones_like(known)
    return (weights / weights.sum()).astype(np.float32), finite


def _mean(weights: Array, arrays: Array) -> Array:
    """Weighted mean over the first of several dimensions."""
    return np.asarray(np.tensordot(weights, arrays, axes=1), np.float32)
