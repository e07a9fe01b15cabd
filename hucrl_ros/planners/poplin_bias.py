"""POPLIN-P, as far as a rollout graph with fixed weights can do it."""

import numpy as np

from hucrl_ros.planners.base import Array
from hucrl_ros.planners.elites import ElitesProposal
from hucrl_ros.planners.sampling import Matrix, constant
from hucrl_ros.planners.shooting import AROUND_POLICIES, Proposal, ShootingPlanner


class PoplinBias(ShootingPlanner):
    """POPLIN-P-Uni on the output's bias alone: π and η, moved by a constant (Wang & Ba 2020).

    POPLIN-P draws noise on all weights of the policy, the same at all steps ("uniform"), and
    follows the elites. Here the weights are constants of the rollout graph, and only a bias that
    is added to the policies' bounded outputs is drawn: q + h numbers, whatever the horizon.
    """

    def _covariance(self) -> Matrix:
        return constant(self.settings.horizon)

    def _proposal(self, memory: Array) -> Proposal:
        return ElitesProposal(
            self.settings,
            self._noise,
            self._rng,
            mean=np.repeat(memory[0, :1], self.settings.horizon, axis=0),
            tried=np.zeros_like(memory[:1]),
            refits=frozenset(range(1, self.settings.iterations + 1)),
            kept=self.settings.elites,
            feedback=AROUND_POLICIES,
        )
