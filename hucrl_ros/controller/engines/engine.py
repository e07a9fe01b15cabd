"""Which engine rolls out particles and fans in a tick, and the plain one: `rollout.onnx`."""

import contextlib
import logging
import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from hucrl_ros.controller.backup import Joints
from hucrl_ros.controller.bundle import (
    HORIZON,
    PARTICLES,
    STATES,
    Bundle,
    Shape,
    Signature,
    check_outputs,
    signatures,
)
from hucrl_ros.controller.engines.fan import FanEngine, GraphFans
from hucrl_ros.errors import BundleError
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


logger = logging.getLogger(__name__)


class Engine(Protocol):
    """Rolls out a fixed number of particles over a fixed horizon; is a `planners.Imagine`."""

    @property
    def state(self) -> Array:
        """Start of the rollouts `(p,)`."""

    def set_state(self, state: NDArray[np.float64]) -> None:
        """Start of the rollouts from now on: `(p,)`."""

    def __call__(self, offsets: Array, noise: Array, feedback: float) -> Rollouts:
        """Roll out. The result is overwritten by the next call."""


def warm_up() -> None:
    """Do what the first bundle of a process needs once: imports, and numba's setup, for 0.5 s."""
    import onnx.shape_inference  # noqa: F401

    with contextlib.suppress(ImportError, RuntimeError):  # `_compiled` says why, where it matters
        from numba import njit

        import hucrl_ros.controller.engines.compiled  # noqa: F401

        njit(lambda: None)()


def make_engine(
    bundle: Bundle, particles: int, horizon: int, engine: str = "auto", threads: int = 1
) -> Engine:
    """Build the engine that a setting asks for.

    Args:
        bundle: What it plays.
        particles: N.
        horizon: H.
        engine: `compiled`, `onnx`, or `auto`: compiled where that is possible.
        threads: Threads of the compiled engine; those of ONNX Runtime belong to the bundle.

    Raises:
        BundleError: the bundle's networks don't compute what torch computed, or the compiled
            engine is asked for and impossible.
    """
    if engine != "onnx":
        compiled = _compiled(bundle, particles, horizon, threads)
        if not isinstance(compiled, str):
            return compiled
        if engine == "compiled":
            raise BundleError(f"{bundle.path}: control.engine = 'compiled': {compiled}")
        logger.info("planning with ONNX Runtime: %s", compiled)
    signature = signatures(bundle.manifest)["rollout"]
    return OnnxEngine(bundle.graphs["rollout"], signature, particles, horizon)


def _compiled(bundle: Bundle, particles: int, horizon: int, threads: int) -> Engine | str:
    """The compiled engine, checked against torch; or why there is none."""
    if bundle.networks is None:
        return (
            "the bundle has no networks.npz, because its model, strategy or features are special"
        )
    try:
        from hucrl_ros.controller.engines.compiled import CompiledEngine
    except (ImportError, RuntimeError) as error:  # RuntimeError: no place for numba's cache
        return f"numba can't be used: {error}"
    parity, score = bundle.parity, bundle.graphs["score"]
    offsets = parity["rollout.in.offsets"].astype(np.float32)
    count, steps = offsets.shape[:2]
    trial = CompiledEngine(bundle.networks, score, count, steps, threads)
    trial.set_state(parity["rollout.in.state"].astype(np.float64))
    noise, feedback = (parity[f"rollout.in.{name}"] for name in ("noise", "feedback"))
    found = trial(offsets, noise.astype(np.float32), float(feedback))
    check_outputs(bundle, "networks.npz", "rollout", found._asdict())
    return CompiledEngine(bundle.networks, score, particles, horizon, threads)


def make_fans(
    bundle: Bundle,
    horizon: int,
    joints: Joints,
    limits: NDArray[np.float64],
    compiled: bool,
    rate: float = math.inf,
) -> FanEngine:
    """Fans, by the kernel where it plays the bundle and may be used.

    Args:
        bundle: Has the model.
        horizon: Periods that they look ahead.
        joints: The robot's actuated joints.
        limits: `(q,)` largest actions.
        compiled: Whether the kernel may be used.
        rate: Largest change of an action [shares of the limits a period].
    """
    networks = bundle.networks
    # A function that was drawn from the model tells nothing of what else is possible.
    if not compiled or networks is None or bundle.manifest.strategy == "thompson":
        return GraphFans(bundle, horizon, joints, limits, rate)
    from hucrl_ros.controller.engines.compiled_fan import CompiledFans

    return CompiledFans(networks, horizon, joints, limits, rate)
