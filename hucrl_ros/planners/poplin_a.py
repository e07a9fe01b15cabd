"""POPLIN-A-Init: the policy proposes a sequence of actions, and the sequence is refined."""

import numpy as np

from hucrl_ros.planners.base import Array, Rollouts
from hucrl_ros.planners.elites import ElitesProposal
from hucrl_ros.planners.shooting import AROUND_POLICIES, OPEN_LOOP, Proposal, ShootingPlanner, Shot


class PoplinA(ShootingPlanner):
    """POPLIN-A-Init: π and η propose a sequence, CEM refines it open loop (Wang & Ba 2020).

    In the first iteration the particles follow the policies with noise. Their actions are then
    taken as fixed sequences, refined without feedback around those of the policies. Each tick
    starts from the policies anew. (POPLIN-A-Replan, with feedback throughout, is Dyna-MPC.)
    """

    def _proposal(self, memory: Array) -> Proposal:
        inner = ElitesProposal(
            self.settings,
            self._noise,
            self._rng,
            mean=self._nothing[0],
            tried=memory[1:1],
            refits=frozenset(range(1, self.settings.iterations + 1)),
            kept=self.settings.elites,
            feedback=AROUND_POLICIES,
        )
        return SequencesProposal(inner)


class SequencesProposal(Proposal):
    """Offsets from the policies first, from zero later."""

    def __init__(self, inner: ElitesProposal) -> None:
        self._inner = inner
        self.feedback = inner.feedback

    def sample(self) -> Array:
        """Offsets `(N, H, q + h)`, the first of which is the mean."""
        return self._inner.sample()

    def learn(self, offsets: Array, rollouts: Rollouts) -> None:
        """Follow the elites' actions, whatever they were offsets from."""
        actions = rollouts.actions.copy()
        if self.feedback == AROUND_POLICIES:
            start = 0 if np.isfinite(rollouts.returns[0]) else int(np.argmax(rollouts.returns))
            self._inner.mean = actions[start]
            self._inner.feedback = self.feedback = OPEN_LOOP
        self._inner.take(actions, rollouts.returns)

    def outcome(self, best: Shot) -> Shot:
        """The best particle; its actions are remembered, not what they were offsets from."""
        return best._replace(memory=best.plan.actions[None])
