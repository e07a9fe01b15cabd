"""iCEM: the cross-entropy method with coloured noise, kept elites and shrinking populations."""

import itertools
import math

from hucrl_ros.planners.base import Array
from hucrl_ros.planners.cem import ElitesProposal
from hucrl_ros.planners.shooting import Matrix, Proposal, ShootingPlanner, power_law


class Icem(ShootingPlanner):
    """iCEM: CEM with coloured noise, kept elites, shrinking populations (Pinneri et al. 2020).

    A share of the elites competes in the next population and, shifted by one step, in the next
    tick's first one; the mean of the distribution is always among the particles. Populations
    consist of whole iterations: with `decay` d each one takes d times as many as the next, so
    that a tick costs the same with any decay.
    """

    def _covariance(self) -> Matrix:
        return power_law(self.settings.horizon, self.settings.colour)

    def _proposal(self, memory: Array) -> Proposal:
        settings = self.settings
        return ElitesProposal(
            settings,
            self._draw,
            mean=memory[0],
            tried=memory[1:],
            refits=refits(settings.iterations, settings.decay),
            kept=math.ceil(settings.kept_elites * settings.elites),
        )


def refits(iterations: int, decay: float) -> frozenset[int]:
    """Iterations, counted from 1, that complete a population.

    From the last population, of one iteration, backwards each is `decay` times as large as its
    successor, rounded; what is left over goes to the first.
    """
    sizes = [1]
    for power in itertools.count(1):
        size = round(decay**power)
        if sum(sizes) + size > iterations:
            break
        sizes.append(size)
    sizes[-1] += iterations - sum(sizes)
    return frozenset(itertools.accumulate(reversed(sizes)))
