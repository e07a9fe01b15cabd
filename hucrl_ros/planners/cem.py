"""The cross-entropy method, open loop."""

from hucrl_ros.planners.base import Array
from hucrl_ros.planners.elites import ElitesProposal
from hucrl_ros.planners.shooting import Proposal, ShootingPlanner


class Cem(ShootingPlanner):
    """CEM: samples efforts without policies, follows the elites (Botev et al. 2013).

    Each iteration's population is new, as in PETS (Chua et al. 2018). Warm, the distribution
    starts around the previous tick's plan, shifted by one step and with zero effort at its end;
    cold, around zero effort.
    """

    def _proposal(self, memory: Array) -> Proposal:
        return ElitesProposal(
            self.settings,
            self._noise,
            self._rng,
            mean=memory[0],
            tried=memory[1:1],
            refits=frozenset(range(1, self.settings.iterations + 1)),
            kept=0,
        )
