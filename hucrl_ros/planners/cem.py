"""The cross-entropy method: a normal distribution that follows its best samples."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.planners.base import Array, Rollouts
from hucrl_ros.planners.shooting import OPEN_LOOP, Proposal, ShootingPlanner, Shot

MAX_OFFSET = 2.0
"""An offset this large turns any policy's action, in [-1, 1], into any other."""


class Elites(NamedTuple):
    """The best samples found, best first."""

    samples: Array
    """`(E, H, q + h)`."""
    returns: Array
    """`(E,)`."""

    def joined(self, samples: Array, returns: Array, count: int) -> "Elites":
        """The best `count` of these and new ones, without those of return −inf."""
        samples = np.concatenate([self.samples, samples])
        returns = np.concatenate([self.returns, returns])
        finite = min(count, int(np.isfinite(returns).sum()))
        order = np.argsort(-returns, kind="stable")[:finite]
        return Elites(samples[order], returns[order])

    def first(self, count: int) -> "Elites":
        """The best `count` of them."""
        return Elites(self.samples[:count], self.returns[:count])


@dataclass
class ElitesProposal(Proposal):
    """A normal distribution, refitted to the elites of each population.

    Among a population's particles is the distribution's mean, once, so that it counts once among
    the elites, and in the first iteration `tried`. Kept elites compete in the next population by
    the return that they have: all particles of a tick share their noise, so imagining them again
    would give the same.
    """

    settings: PlannerSettings
    draw: Callable[[], Array]
    """Standard normal sequences `(N, H, q + h)`."""
    mean: Array
    """`(H, q + h)`."""
    tried: Array | None = None
    """`(S, H, q + h)` to be among the first particles; those beyond N − 1 are left out."""
    refits: frozenset[int] | None = None
    """Iterations, counted from 1, that complete a population; None: each one does."""
    kept: int = 0
    """Elites that stay in the next population."""
    feedback: float = OPEN_LOOP

    def __post_init__(self) -> None:
        self._std = np.full_like(self.mean, self.settings.noise)
        self._elites = Elites(np.zeros((0, *self.mean.shape), np.float32), np.zeros(0, np.float32))
        self._iteration = 0

    def sample(self) -> Array:
        """Offsets `(N, H, q + h)` from the present distribution."""
        limit = 1.0 if self.feedback == OPEN_LOOP else MAX_OFFSET
        draws = self.mean + self._std * self.draw()
        offsets: Array = np.clip(draws, -limit, limit)
        if self._iteration == 0 or self._completes(self._iteration):
            offsets[0] = self.mean
        if self._iteration == 0 and self.tried is not None:
            tried = self.tried[: len(offsets) - 1]
            offsets[1 : 1 + len(tried)] = tried
        return offsets

    def learn(self, offsets: Array, rollouts: Rollouts) -> None:
        """Take in a part of a population; after its last part, follow the elites."""
        settings = self.settings
        self._elites = self._elites.joined(offsets, rollouts.returns, settings.elites)
        self._iteration += 1
        if self._completes(self._iteration):
            chosen, keep = self._elites.samples, settings.smoothing
            self.mean = keep * self.mean + (1.0 - keep) * chosen.mean(axis=0)
            self._std = keep * self._std + (1.0 - keep) * chosen.std(axis=0)
            self._elites = self._elites.first(self.kept)

    def _completes(self, iteration: int) -> bool:
        return self.refits is None or iteration in self.refits

    def forget(self) -> None:
        """Let no elite of this population compete with the next."""
        self._elites = self._elites.first(0)

    def outcome(self, best: Shot) -> Shot:
        """The best particle; other elites that were kept are remembered behind it."""
        kept = self._elites.first(self.kept).samples
        kept = kept[(kept != best.memory[0]).any(axis=(1, 2))]
        return best._replace(memory=np.concatenate([best.memory, kept]))


class Cem(ShootingPlanner):
    """CEM: samples efforts without policies, follows the elites (Botev et al. 2013).

    Each iteration's population is new, as in PETS (Chua et al. 2018). Warm, the distribution
    starts around the previous tick's plan, shifted by one step and with zero effort at its end;
    cold, around zero effort.
    """

    def _proposal(self, memory: Array) -> Proposal:
        return ElitesProposal(self.settings, self._draw, mean=memory[0])
