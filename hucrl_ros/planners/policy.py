"""No planning: the learned policies as they are."""

from collections.abc import Callable

import numpy as np

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.planners.base import Imagine, Plan, Planner, draw_noise, expect


class PolicyPlanner(Planner):
    """Follows π and η, imagined once to predict their return."""

    def __init__(self, settings: PlannerSettings, state_dim: int, width: int) -> None:
        super().__init__(settings, state_dim, width)
        self.particles = 1
        self._offsets = np.zeros((1, settings.horizon, width), np.float32)
        self._rng = np.random.default_rng(0)

    def reset(self, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on."""
        self._rng = rng

    def plan(self, imagine: Imagine, go_on: Callable[[], bool], periods: int = 1) -> Plan | None:
        """One particle without offsets."""
        if not go_on():
            return None
        noise = draw_noise(self._rng, self.settings, self.state_dim)
        rollouts = expect(imagine, self._offsets, noise, 1.0)
        value = float(rollouts.returns[0])
        if not np.isfinite(value):
            return None
        return Plan(rollouts.actions[0], rollouts.states[0], value, 1)
