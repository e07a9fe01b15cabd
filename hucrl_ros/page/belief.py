"""What a bundle believes will happen from a state on: computed here, never asked of the robot."""

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.page.kinematics import Kinematics
from hucrl_ros.page.rhythm import Rhythm
from hucrl_ros.page.tube import spread
from hucrl_ros.planners import Plan

Array = NDArray[np.float64]
OUTCOMES = 16
"""Imagined outcomes of one plan."""


class Belief(NamedTuple):
    """Ways of the tip in the control periods to come [m]."""

    optimistic: Array
    """`(H + 1, 3)` what the strategy hopes for, with the η of the plan."""
    expected: Array
    """`(H + 1, 3)` of the same actions under the model's mean."""
    fan: Array
    """`(N, H + 1, 3)` of the same actions, for N of the outcomes that the data don't exclude."""
    spread: Array
    """`(H + 1,)` root mean square distance of the fan from what is expected."""
    planned_return: float


class Believer:
    """Plans with a bundle, without a robot."""

    def __init__(self, bundle: Bundle) -> None:
        self._agent = Agent(bundle, None)
        self._seed = bundle.manifest.seed

    def from_state(
        self, state: Array, untold: Array, kinematics: Kinematics, rhythm: Rhythm
    ) -> Belief | None:
        """Plan anew from a state `(p,)`; None: the bundle is random, or nothing finite came.

        `untold` positions are as of `Kinematics`.
        Takes about as long as a tick, and then as long again to see what comes of it: each
        between two ticks of the robot's.
        """
        self._agent.start_episode(self._seed)
        self._agent.act(state)
        plan = self._agent.plan
        time.sleep(rhythm.wait())
        if plan is None:
            return None
        return believed(self._agent.bundle, state, untold, plan, kinematics)


def believed(
    bundle: Bundle, state: Array, untold: Array, plan: Plan, kinematics: Kinematics
) -> Belief | None:
    """What a plan from a state `(p,)` is believed to lead to; None: nothing finite."""
    manifest = bundle.manifest
    shares = np.clip(plan.actions[:, : manifest.spec.action_dim], -1.0, 1.0)
    actions = shares * np.asarray(manifest.effort_limits)
    rng = np.random.default_rng(0)  # the same outcomes each time, so that the fan doesn't flicker
    doubts = rng.choice([-1.0, 1.0], size=(OUTCOMES, manifest.spec.predicted_dim))
    doubts[0] = 0.0
    states = imagined(bundle, state, actions, doubts * manifest.beta)
    every = np.concatenate([plan.states[None].astype(np.float64), states])
    if not np.isfinite(every).all():
        return None
    tips = kinematics.tips(every, untold)
    optimistic, expected, fan = tips[0], tips[1], tips[2:]
    return Belief(optimistic, expected, fan, spread(fan, expected), plan.planned_return)


def imagined(bundle: Bundle, state: Array, actions: Array, doubts: Array) -> Array:
    """States `(N, H + 1, p)` under the model: next = μ(s, a) + Σ(s, a) · doubt.

    Args:
        bundle: Holds the model.
        state: `(p,)` in which all begin.
        actions: `(H, q)`, the same for all.
        doubts: `(N, m)`, β η of each, the same in all periods.
    """
    spec, bounds = bundle.manifest.spec, np.asarray(bundle.manifest.bounds)
    states = [np.repeat(state[None], len(doubts), axis=0)]
    for action in actions:
        given = np.repeat(action[None], len(doubts), axis=0).astype(np.float32)
        now = states[-1].astype(np.float32)
        mean, epistemic, _ = bundle.run("dynamics", state=now, action=given)
        moved = np.clip(mean + doubts * epistemic, bounds[0], bounds[1])
        states.append(np.concatenate([moved, now[:, spec.predicted_dim :]], axis=1))
    return np.stack(states, axis=1).astype(np.float64)
