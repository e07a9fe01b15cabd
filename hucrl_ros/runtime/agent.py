"""Plays a bundle: one state in, one action out."""

import math
import time
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.planners import Plan, make_planner
from hucrl_ros.runtime.budget import Budget
from hucrl_ros.runtime.bundle import Bundle
from hucrl_ros.runtime.rollout import RolloutEngine

WARM_UP_TICKS = 3


class Source(IntEnum):
    """Where an action came from."""

    PLANNED = 0
    PREVIOUS = 1
    """The previous tick's plan, shifted."""
    POLICY = 2
    RANDOM = 3
    SAFE = 4
    """No effort."""


class Tick(NamedTuple):
    """An action and what is known of it. A number that doesn't exist is NaN."""

    action: NDArray[np.float64]
    """`(q,)` efforts [N m or N], within the limits."""
    source: Source
    iterations: int
    """Planner iterations done in this tick."""
    planned_return: float
    """Discounted return the plan promises from here, closed by the critic."""
    epistemic_std: float
    """Mean over state entries, in standard deviations of the normalised targets."""
    aleatoric_std: float
    """Mean over state entries, in standard deviations of the normalised targets."""
    hallucination: float
    """Mean |η| of the first step; 0 for a strategy without it."""
    optimistic: NDArray[np.float32] | None
    """`(H + 1, p)` trajectory that the plan imagines."""


class Agent:
    """Plans each tick within a budget.

    Out of budget it sends the next action of the previous plan, and when that is used up π(s).
    """

    def __init__(
        self,
        bundle: Bundle,
        budget_s: float | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Play `bundle`.

        Args:
            bundle: What to play.
            budget_s: Time for planning in a tick [s]; None: no limit, so that equal states and
                seeds give equal actions.
            clock: Seconds from any start.
        """
        self.bundle = bundle
        self.fallbacks = 0
        """Ticks of this episode that had no time to plan, or no finite plan."""
        manifest = bundle.manifest
        self._limits = np.asarray(manifest.effort_limits)
        self._target_std = np.asarray(manifest.target_std, np.float32)
        self._planner = make_planner(manifest.planner, manifest.spec.state_dim, manifest.width)
        self._engine = RolloutEngine(bundle, self._planner.particles)
        self._budget = Budget(budget_s, clock)
        self._plan: Plan | None = None
        self._plan_state: NDArray[np.float64] = np.zeros(manifest.spec.state_dim)
        self._plan_age = 0
        self.start_episode(manifest.seed)

    def start_episode(self, seed: int) -> None:
        """Forget the last plan and draw from a generator of this seed and the bundle's episode."""
        self._rng = np.random.default_rng((seed, self.bundle.manifest.episode))
        self._planner.reset(self._rng)
        self._plan, self._plan_age = None, 0
        self.fallbacks = 0

    def warm_up(self) -> None:
        """Run some ticks, so that the first one of an episode isn't slow; then forget them.

        `start_episode` has to follow.
        """
        for _ in range(WARM_UP_TICKS):
            self._budget.forget()  # The first iterations take longer than the later ones will.
            self.act(np.zeros_like(self._plan_state))
            self.expected_plan()
        self.start_episode(self.bundle.manifest.seed)

    def act(self, state: NDArray[np.float64], spent_s: float = 0.0) -> Tick:
        """Choose the effort for the next control period.

        Args:
            state: `(p,)`, finite.
            spent_s: Part of the budget that is gone already [s].
        """
        if self.bundle.manifest.random:
            action = self._rng.uniform(-self._limits, self._limits)
            return Tick(action, Source.RANDOM, 0, math.nan, math.nan, math.nan, 0.0, None)
        self._budget.start(spent_s)
        self._engine.set_state(state)
        plan = self._planner.plan(self._engine, self._budget.go_on)
        self._budget.stop()
        if plan is None:
            self.fallbacks += 1
            return self._fall_back(state)
        self._plan, self._plan_age, self._plan_state = plan, 0, np.array(state)
        planned = self.bundle.manifest.planner.algorithm != "policy"
        source = Source.PLANNED if planned else Source.POLICY
        return self._tick(state, plan.actions[0], source, plan)

    @property
    def optimistic_plan(self) -> NDArray[np.float32] | None:
        """`(H + 1, p)` that the strategy imagines of the last plan."""
        return self._plan.states if self._plan else None

    def expected_plan(self) -> NDArray[np.float32] | None:
        """`(H + 1, p)` that the ensemble's mean expects of the last plan's efforts (η = 0).

        It takes one run of the model a step, so ask for it outside the tick.
        """
        if self._plan is None:
            return None
        states = [self._plan_state.astype(np.float32)[None]]
        shares = self._plan.actions[:, None, : len(self._limits)]
        for action in (shares * self._limits).astype(np.float32):
            states.append(self.bundle.run("dynamics", state=states[-1], action=action)[0])
        return np.concatenate(states)

    def _fall_back(self, state: NDArray[np.float64]) -> Tick:
        self._plan_age += 1
        if self._plan is not None and self._plan_age < len(self._plan.actions):
            return self._tick(state, self._plan.actions[self._plan_age], Source.PREVIOUS)
        (pi,) = self.bundle.run("policy", state=state[None].astype(np.float32))
        if np.isfinite(pi).all():
            return self._tick(state, pi[0], Source.POLICY)
        return self._tick(state, np.zeros(len(self._limits), np.float32), Source.SAFE)

    def _tick(
        self,
        state: NDArray[np.float64],
        share: NDArray[np.float32],
        source: Source,
        plan: Plan | None = None,
    ) -> Tick:
        """The tick that applies `share` `(q,)` or `(q + h,)`, in [-1, 1]."""
        action_dim = len(self._limits)
        action = np.clip(share[:action_dim].astype(np.float64), -1.0, 1.0) * self._limits
        eta = share[action_dim:]
        _, epistemic, aleatoric = self.bundle.run(
            "dynamics",
            state=state[None].astype(np.float32),
            action=action[None].astype(np.float32),
        )
        return Tick(
            action=action,
            source=source,
            iterations=plan.iterations if plan else 0,
            planned_return=plan.planned_return if plan else math.nan,
            epistemic_std=float(np.mean(epistemic / self._target_std)),
            aleatoric_std=float(np.mean(aleatoric / self._target_std)),
            hallucination=float(np.abs(eta).mean()) if eta.size else 0.0,
            optimistic=plan.states if plan else None,
        )
