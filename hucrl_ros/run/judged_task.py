"""What a run's summary needs of a task; where no torch is, told by bundles from elsewhere."""

from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import Description
from hucrl_ros.controller.bundle import Bundle, load_bundle
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run.folder import RunFolder

Array = NDArray[np.float64]
OTHER_REWARDS = ("sombrl", "opax")
"""Strategies that plan for more, or for something else, than the task's reward."""


class JudgedTask(Protocol):
    """The part of `tasks.Task` by which episodes are judged."""

    described: Description
    """Robot, reward and constraints."""
    steps: int
    """Control periods in an episode."""
    optimum: float | None
    """Best achievable return, where it is known."""

    @property
    def spec(self) -> RobotSpec:
        """The robot."""

    def rewards(self, states: Array, actions: Array) -> Array:
        """Of states `(T, p)` and actions `(T, q)`: `(T,)`."""

    def rooms(self, states: Array, actions: Array) -> Array:
        """Room that each constraint leaves there, `(T, K)` [margins]."""


class BundledTask:
    """A task whose reward is computed by a bundle, in float32."""

    def __init__(self, run: RunFolder, config: Config, described: Description) -> None:
        """Load nothing yet: the first bundle may still be on its way."""
        self._run, self.described = run, described
        self.spec: RobotSpec = described.robot.spec
        self.steps: int = described.robot.steps
        self.optimum: float | None = described.task.optima.get(config.action_penalty)

    def rewards(self, states: Array, actions: Array) -> Array:
        """As of `JudgedTask`.

        Raises:
            BundleError: a bundle isn't what it says.
            RunError: the run has none.
        """
        if not len(states):
            return np.zeros(0)
        if "reward" in self._bundle.graphs:  # What a step pays for constraints isn't in it.
            both = {"state": states.astype(np.float32), "action": actions.astype(np.float32)}
            return np.asarray(self._bundle.run("reward", **both)[0], dtype=np.float64)
        shares = np.zeros((len(states), self._bundle.manifest.width))
        shares[:, : self.spec.action_dim] = actions / np.array(self.spec.effort_limits)
        noise = np.zeros(self.spec.predicted_dim)
        given = {"state": states, "applied": shares, "noise": noise}
        rewards = self._bundle.run("step", **{k: v.astype(np.float32) for k, v in given.items()})
        return np.asarray(rewards[1], dtype=np.float64)

    def rooms(self, states: Array, actions: Array) -> Array:
        """As of `JudgedTask`; raises what `rewards` raises."""
        if "constraints" not in self._bundle.graphs or not len(states):
            return np.zeros((len(states), len(self._bundle.manifest.constraints)))
        both = {"state": states.astype(np.float32), "action": actions.astype(np.float32)}
        return np.asarray(self._bundle.run("constraints", **both)[0], dtype=np.float64)

    @cached_property
    def _bundle(self) -> Bundle:
        """The first one that the run has; all have the same reward."""
        found = sorted(self._run.bundles.glob("bundle_*"))
        if not found:
            raise RunError(f"{self._run.bundles}: no bundle that tells the reward")
        return load_bundle(found[0], self.spec)


def check_remote(config: Config) -> None:
    """Look whether a run with these settings may learn on another machine.

    Raises:
        ConfigError: its bundles don't tell the task's reward.
    """
    if config.strategy in OTHER_REWARDS:
        raise ConfigError(
            f"strategy = {config.strategy!r}: its bundles tell another reward than the task's, by "
            "which episodes are judged where torch needn't be; with --remote-learner choose one "
            "of: greedy, thompson, optimistic"
        )
