"""The hallucinated shooting method (App. Online Planning), whatever the sampling distribution."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.planners.base import Array, Imagine, Plan, Planner, Rollouts, draw_noise
from hucrl_ros.planners.sampling import Matrix, Noise, geometric, shifted

OPEN_LOOP, AROUND_POLICIES = 0.0, 1.0
"""Feedback: actions are the offsets themselves, or are added to (π, η)."""


class Shot(NamedTuple):
    """The best particle of a tick, or what a proposal makes of all of them."""

    plan: Plan
    memory: Array
    """`(M, H, q + h)` offsets that help the next tick, those of the plan first."""


class Proposal(ABC):
    """Where the particles of one tick come from: the sampling distribution d of the paper."""

    feedback: float
    """What the next particles are offsets from."""

    @abstractmethod
    def sample(self) -> Array:
        """The next particles' offsets `(N, H, q + h)`."""

    @abstractmethod
    def learn(self, offsets: Array, rollouts: Rollouts) -> None:
        """Update the distribution by what the last sample led to.

        Args:
            offsets: `(N, H, q + h)` as sampled.
            rollouts: Their outcome; a return that isn't finite has become −inf, and some is
                finite. The arrays are overwritten by the next iteration.
        """

    @abstractmethod
    def outcome(self, best: Shot) -> Shot:
        """What to send and to remember at the end of the tick.

        Args:
            best: The best particle, its offsets being all of the memory.
        """


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

    def plan(self, imagine: Imagine, go_on: Callable[[], bool]) -> Plan | None:
        """Plan one tick, from the last one's plan shifted by a step."""
        settings = self.settings
        self._memory = shifted(self._memory)
        noise = draw_noise(self._rng, settings.horizon, self.state_dim)
        proposal = self._proposal(self._memory if settings.warm_start else self._nothing)
        shot = shoot(proposal, imagine, noise, settings.iterations, go_on)
        if shot is None:
            return None
        self._memory = shot.memory
        return shot.plan

    @abstractmethod
    def _proposal(self, memory: Array) -> Proposal:
        """Of a tick that starts from `memory` `(M, H, q + h)`, shifted; zeros where none is."""

    def _covariance(self) -> Matrix:
        """Of the sampled steps, `(H, H)`."""
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
        noise: `(H, p)`, the same for all particles of a tick.
        iterations: Calls of `imagine`, at most.
        go_on: Asked before each iteration; False means that the time is up.

    Returns:
        The proposal's outcome; None where no particle was finite.
    """
    best: Shot | None = None
    done = 0
    while done < iterations and go_on():
        offsets = proposal.sample()
        rollouts = imagine(offsets, noise, proposal.feedback)
        done += 1
        returns = np.where(np.isfinite(rollouts.returns), rollouts.returns, -np.inf)
        index = int(np.argmax(returns))
        if returns[index] == -np.inf:
            continue
        if best is None or returns[index] > best.plan.planned_return:
            best = _shot(index, offsets, rollouts)
        proposal.learn(offsets, rollouts._replace(returns=returns))
    if best is None:
        return None
    shot = proposal.outcome(best)
    return shot._replace(plan=shot.plan._replace(iterations=done))


def _shot(index: int, offsets: Array, rollouts: Rollouts) -> Shot:
    """One particle, copied from arrays that will be overwritten."""
    plan = Plan(
        rollouts.actions[index].copy(),
        rollouts.states[index].copy(),
        float(rollouts.returns[index]),
        0,
    )
    return Shot(plan, offsets[index : index + 1].copy())
