"""The plain planning engine: `rollout.onnx` with buffers that are allocated once."""

from collections.abc import Mapping

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from hucrl_ros.controller.signature import HORIZON, PARTICLES, STATES, Shape, Signature
from hucrl_ros.planners import Rollouts
from hucrl_ros.planners.base import Array


class OnnxEngine:
    """Runs a fixed number of particles without allocating or copying results."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        signature: Signature,
        particles: int,
        horizon: int,
    ) -> None:
        """Prepare `session` of `rollout.onnx` for `particles` over `horizon` steps."""
        sizes = {PARTICLES: particles, HORIZON: horizon, STATES: horizon + 1}
        self._session = session
        self._binding = self._session.io_binding()
        self._inputs = {k: _buffer(s, sizes) for k, s in signature.inputs.items()}
        outputs = {k: _buffer(s, sizes) for k, s in signature.outputs.items()}
        for name, array in self._inputs.items():
            self._binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        for name, array in outputs.items():
            self._binding.bind_output(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        self._rollouts = Rollouts(**outputs)
        self._options = onnxruntime.RunOptions()

    @property
    def state(self) -> Array:
        """Start of the rollouts `(p,)`."""
        return self._inputs["state"]

    def set_state(self, state: NDArray[np.float64]) -> None:
        """Start of the rollouts from now on: `(p,)`."""
        self._inputs["state"][:] = state

    def __call__(self, offsets: Array, noise: Array, feedback: float) -> Rollouts:
        """Roll out; see `planners.Imagine`. The result is overwritten by the next call."""
        self._inputs["offsets"][:] = offsets
        self._inputs["noise"][:] = noise
        self._inputs["feedback"][...] = feedback
        self._session.run_with_iobinding(self._binding, self._options)
        return self._rollouts


def _buffer(shape: Shape, sizes: Mapping[str, int]) -> Array:
    return np.zeros([sizes[x] if isinstance(x, str) else x for x in shape], np.float32)
