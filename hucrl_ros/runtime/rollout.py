"""`rollout.onnx` with buffers that are allocated once."""

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from hucrl_ros.planners import Rollouts
from hucrl_ros.planners.base import Array
from hucrl_ros.runtime.bundle import Bundle
from hucrl_ros.runtime.signature import Shape, signatures


class RolloutEngine:
    """Runs a fixed number of particles without allocating or copying results."""

    def __init__(self, bundle: Bundle, particles: int) -> None:
        signature = signatures(bundle.manifest)["rollout"]
        self._session = bundle.graphs["rollout"]
        self._binding = self._session.io_binding()
        self._inputs = {k: _buffer(s, particles) for k, s in signature.inputs.items()}
        outputs = {k: _buffer(s, particles) for k, s in signature.outputs.items()}
        for name, array in self._inputs.items():
            self._binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        for name, array in outputs.items():
            self._binding.bind_output(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        self._rollouts = Rollouts(**outputs)
        self._options = onnxruntime.RunOptions()

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


def _buffer(shape: Shape, particles: int) -> Array:
    return np.zeros([particles if size is None else size for size in shape], np.float32)
