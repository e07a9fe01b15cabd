"""A bundle's imagined system, for planners that need more of it than rollouts."""

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from hucrl_ros.controller.bundle import Bundle

Array = NDArray[np.float64]


class BundleSystem:
    """See `planners.base.System`."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._noise = np.zeros(bundle.manifest.spec.predicted_dim, np.float32)
        self._only_rewards = onnxruntime.RunOptions()
        self._only_rewards.only_execute_path_to_fetches = True
        self.steps = bundle.manifest.steps
        self.discount = bundle.manifest.discount
        self.angles = bundle.manifest.angles
        self.state_bounds = bundle.manifest.bounds

    def step(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Next states `(N, p)` and rewards `(N,)` of the strategy's step, without noise."""
        following, rewards = self._bundle.run("step", **self._inputs(states, actions))
        return following.astype(np.float64), rewards.astype(np.float64)

    def rewards(self, states: Array, actions: Array) -> Array:
        """Rewards `(N,)`; the model isn't run."""
        session = self._bundle.graphs["step"]
        inputs = self._inputs(states, actions)
        (rewards,) = session.run(["reward"], inputs, self._only_rewards)
        return np.asarray(rewards, np.float64)

    def values(self, states: Array) -> Array:
        """Values `(N,)` of the critic."""
        (values,) = self._bundle.run("critic", state=states.astype(np.float32))
        return values.astype(np.float64)

    def _inputs(self, states: Array, actions: Array) -> dict[str, NDArray[np.float32]]:
        return {
            "state": states.astype(np.float32),
            "applied": actions.astype(np.float32),
            "noise": self._noise,
        }
