"""POPLIN (Wang & Ba 2020): refines a policy's sequence of actions, or the policy's bias."""

from collections.abc import Callable

import numpy as np

from hucrl_ros.planners.base import Array, Imagine, Plan, Rollouts
from hucrl_ros.planners.cem import ElitesProposal
from hucrl_ros.planners.shooting import (
    AROUND_POLICIES,
    OPEN_LOOP,
    Matrix,
    Proposal,
    ShootingPlanner,
    Shot,
    constant,
)


class PoplinA(ShootingPlanner):
    """POPLIN-A-Init: π and η propose a sequence, CEM refines it open loop.

    In the first iteration the particles follow the policies with noise. Their actions are then
    taken as fixed sequences, refined without feedback around those of the policies. Each tick
    starts from the policies anew. (POPLIN-A-Replan, with feedback throughout, is Dyna-MPC.)
    """

    def _proposal(self, memory: Array) -> Proposal:
        return SequencesProposal(
            self.settings,
            self._draw,
            mean=self._nothing[0],
            kept=self.settings.elites,
            feedback=AROUND_POLICIES,
        )


class SequencesProposal(ElitesProposal):
    """Offsets from the policies first, from zero later."""

    def learn(self, offsets: Array, rollouts: Rollouts) -> None:
        """Follow the elites' actions, whatever they were offsets from."""
        followed = self.feedback == AROUND_POLICIES
        if followed:
            start = 0 if np.isfinite(rollouts.returns[0]) else int(np.argmax(rollouts.returns))
            self.mean = rollouts.actions[start]
            self.feedback = OPEN_LOOP
        super().learn(rollouts.actions, rollouts)
        if followed:  # Without the policies' answers their actions don't earn as much.
            self.forget()

    def outcome(self, best: Shot) -> Shot:
        """The best particle; its actions are remembered, not what they were offsets from."""
        return best._replace(memory=best.plan.actions[None])


class PoplinBias(ShootingPlanner):
    """POPLIN-P-Uni on the output's bias alone: π and η, moved by a constant.

    POPLIN-P draws noise on all weights of the policy, the same at all steps ("uniform"), and
    follows the elites. Here the weights are constants of the rollout graph, and only a bias that
    is added to the policies' bounded outputs is drawn: q + h numbers, whatever the horizon.
    """

    def plan(self, imagine: Imagine, go_on: Callable[[], bool], periods: int = 1) -> Plan | None:
        """Plan one tick, from the last one's bias, which holds at any time."""
        return super().plan(imagine, go_on, periods=0)

    def _covariance(self) -> Matrix:
        return constant(self.settings.horizon)

    def _proposal(self, memory: Array) -> Proposal:
        return ElitesProposal(
            self.settings,
            self._draw,
            mean=np.repeat(memory[0, :1], self.settings.horizon, axis=0),
            tried=self._nothing,
            kept=self.settings.elites,
            feedback=AROUND_POLICIES,
        )
