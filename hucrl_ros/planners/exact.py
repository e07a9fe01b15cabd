"""Dynamic programming on the learned model: the plan of a perfect optimiser."""

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.errors import ConfigError
from hucrl_ros.planners.base import Imagine, Plan, Planner, System
from hucrl_ros.planners.dynamic_programming import Axis, Grid, ValueTable, backward_induction

Array64 = NDArray[np.float64]
POINTS = 121
"""Grid points along each entry of the state."""
COARSE, FINE = 15, 41
"""Efforts to choose from when the table is made, and in a tick."""
HALLUCINATIONS = (-1.0, 0.0, 1.0)
"""Of each entry: the value is nearly linear across a step's uncertainty, so corners are best."""


class Exact(Planner):
    """Exact dynamic programming on the imagined system, for states with two entries.

    It shows how much of a result is due to the exploration strategy and how much to the
    optimiser. Making the table takes seconds, whenever a bundle is loaded; the noise of the
    imagined step is left out.
    """

    def __init__(self, settings: PlannerSettings, state_dim: int, width: int) -> None:
        super().__init__(settings, state_dim, width)
        if state_dim != 2:
            raise ConfigError(
                f"planner.algorithm = 'exact': makes a grid over two entries of the state, "
                f"and this one has {state_dim}; the others plan for any number"
            )
        self.particles = 1
        self._system: System | None = None
        self._table: ValueTable | None = None
        self._tick = 0

    def prepare(self, system: System) -> None:
        """Solve the imagined system for a whole episode."""
        self._system = system
        grid = Grid(*(_axis(i, system) for i in range(2)))
        choices = self._choices(COARSE)
        self._table = backward_induction(system.step, grid, choices, system.steps)
        self._fine = self._choices(FINE)

    def reset(self, rng: np.random.Generator) -> None:
        """Begin an episode; nothing is drawn."""
        self._tick = 0

    def plan(self, imagine: Imagine, go_on: Callable[[], bool]) -> Plan | None:
        """The best action by one step ahead and the table."""
        assert self._table is not None
        assert self._system is not None
        following = min(self._tick + 1, self._system.steps)
        self._tick += 1
        if not go_on():
            return None
        state = imagine.state.astype(np.float64)
        here = np.repeat(state[None], len(self._fine), axis=0)
        states, rewards = self._system.step(here, self._fine)
        values = rewards + self._table.at(following, states)
        best = int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))
        if not np.isfinite(values[best]):
            return None
        return Plan(
            actions=self._fine[best][None].astype(np.float32),
            states=np.stack([state, states[best]]).astype(np.float32),
            planned_return=float(values[best]),
            iterations=1,
        )

    def _choices(self, efforts: int) -> Array64:
        """Actions `(A, q + h)` to choose from: efforts by hallucinations."""
        action_dim = 1
        hallucinated = self.width - action_dim
        each = [np.linspace(-1.0, 1.0, efforts)] * action_dim + [HALLUCINATIONS] * hallucinated
        return np.array(list(itertools.product(*each)), np.float64)


def _axis(entry: int, system: System) -> Axis:
    if entry in system.angles:
        return Axis(-np.pi, np.pi, POINTS, periodic=True)
    lower, upper = system.state_bounds[:, entry]
    if not np.isfinite([lower, upper]).all():
        raise ConfigError(
            f"planner.algorithm = 'exact': entry {entry} of the state has no bound; it needs an "
            "angle or a finite `Task.state_bounds`"
        )
    return Axis(float(lower), float(upper), POINTS)
