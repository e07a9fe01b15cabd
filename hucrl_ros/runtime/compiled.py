"""The compiled planning engine: rollouts by `runtime.kernel`, rewards by ONNX Runtime."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from hucrl_ros.planners import Rollouts
from hucrl_ros.planners.base import Array
from hucrl_ros.runtime import kernel
from hucrl_ros.runtime.kernel import ACTIVATIONS, NONE, SILU, TANH, Layer, Program, Scratch
from hucrl_ros.runtime.networks import Dense, Networks
from hucrl_ros.runtime.simd import LANES, VECTOR


class CompiledEngine:
    """Rolls out a fixed number of particles, split over threads; allocates nothing large.

    The result doesn't depend on the number of threads. Rewards and critic are any graph that a
    task may bring, so they are left to ONNX Runtime: all steps of all particles in one run.
    """

    def __init__(
        self,
        networks: Networks,
        score: onnxruntime.InferenceSession,
        particles: int,
        horizon: int,
        threads: int,
    ) -> None:
        """Prepare for `particles` over `horizon` steps.

        Args:
            networks: The bundle's weights.
            score: `score.onnx`.
            particles: N.
            horizon: H.
            threads: Threads that share the particles.
        """
        self._program = compile_program(networks)
        state_dim = len(networks.angles) + len(networks.constants["scales"])
        width = len(self._program.limits)
        if networks.hallucination:
            width += len(self._program.target_mean)
        self.state: Array = np.zeros(state_dim, np.float32)
        """Start of the rollouts `(p,)`."""
        self._offsets = np.zeros((particles, horizon, width), np.float32)
        self._noise = np.zeros((horizon, len(self._program.target_mean)), np.float32)
        self._rollouts = Rollouts(
            returns=np.zeros(particles, np.float32),
            states=np.zeros((particles, horizon + 1, state_dim), np.float32),
            actions=np.zeros((particles, horizon, width), np.float32),
        )
        bounds = _shares(particles, threads)
        self._shares = list(itertools.pairwise(bounds))
        self._scratch = [_scratch(self._program, state_dim, width) for _ in self._shares]
        helpers = len(self._shares) - 1
        self._pool = ThreadPoolExecutor(helpers, "rollout") if helpers else None
        self._score = score
        self._options = onnxruntime.RunOptions()
        self._bindings = [_bind(score, self._rollouts, *share) for share in self._shares]

    def set_state(self, state: NDArray[np.float64]) -> None:
        """Start of the rollouts from now on: `(p,)`."""
        self.state[:] = state

    def __call__(self, offsets: Array, noise: Array, feedback: float) -> Rollouts:
        """Roll out; see `planners.Imagine`. The result is overwritten by the next call."""
        self._offsets[:] = offsets
        self._noise[:] = noise
        share = np.float32(feedback)
        others = [
            self._pool.submit(self._run, index, share)
            for index in range(1, len(self._shares))
            if self._pool is not None
        ]
        self._run(0, share)
        for other in others:
            other.result()
        return self._rollouts

    def _run(self, index: int, feedback: np.float32) -> None:
        kernel.roll_out(
            self._program,
            self._scratch[index],
            self.state,
            self._offsets,
            self._noise,
            feedback,
            *self._shares[index],
            self._rollouts.states,
            self._rollouts.actions,
        )
        self._score.run_with_iobinding(self._bindings[index], self._options)


def _bind(
    score: onnxruntime.InferenceSession, rollouts: Rollouts, first: int, last: int
) -> onnxruntime.IOBinding:
    """Let `score` read and write the particles `first` to `last` where they lie."""
    binding = score.io_binding()
    for name, bind in (
        ("states", binding.bind_input),
        ("actions", binding.bind_input),
        ("returns", binding.bind_output),
    ):
        array = getattr(rollouts, name)[first:last]
        bind(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    return binding


def compile_program(networks: Networks) -> Program:
    """Lay the weights out as the kernel reads them."""
    chains = _chain(networks.policy, SILU, TANH) + _chain(networks.hallucination, SILU, TANH)
    inner = ACTIVATIONS[networks.activation]
    for head in range(len(networks.constants["choice"])):
        layers = [Dense(layer.weights[head], layer.biases[head]) for layer in networks.model]
        chains += _chain(layers, inner, NONE)
    table, parts, used = [], list[Array](), 0
    for (weights, biases), activation in chains:
        packed = kernel.pack(weights)
        padded = np.zeros(-(-len(biases) // VECTOR) * VECTOR, np.float32)
        padded[: len(biases)] = biases
        inputs, outputs = weights.shape
        table.append(Layer(used, used + packed.size, inputs, outputs, activation))
        parts += [packed, padded]
        used += packed.size + padded.size
    constants = networks.constants
    angles = np.array(networks.angles, np.int64)
    state_dim = len(angles) + len(constants["scales"])
    return Program(
        layers=np.array(table, np.int64),
        weights=np.concatenate(parts),
        policy_layers=len(networks.policy),
        hallucination_layers=len(networks.hallucination),
        head_layers=len(networks.model),
        angles=angles,
        others=np.setdiff1d(np.arange(state_dim), angles).astype(np.int64),
        scales=constants["scales"],
        limits=constants["limits"],
        input_mean=constants["input_mean"],
        input_std=constants["input_std"],
        target_mean=constants["target_mean"],
        target_std=constants["target_std"],
        reach=constants["reach"],
        choice=constants["choice"],
        epistemic_scale=constants["epistemic_scale"],
        min_aleatoric=np.float32(constants["min_aleatoric"]),
        beta=np.float32(constants["beta"]),
        total=bool(constants["total"]),
    )


def _chain(layers: list[Dense], inner: int, outer: int) -> list[tuple[Dense, int]]:
    """Layers with the activation that follows each."""
    last = len(layers) - 1
    return [(layer, outer if i == last else inner) for i, layer in enumerate(layers)]


def _shares(particles: int, threads: int) -> list[int]:
    """Bounds between the threads' particles, at multiples of a vector."""
    vectors = -(-particles // VECTOR)
    bounds = [min(vectors * i // threads * VECTOR, particles) for i in range(threads + 1)]
    return sorted(set(bounds))


def _scratch(program: Program, state_dim: int, width: int) -> Scratch:
    rows = int(program.layers[:, 3].max()) + kernel.OUTPUT_ROWS
    features = len(program.angles) + state_dim

    def lanes(*shape: int) -> Array:
        return np.zeros((*shape, LANES), np.float32)

    return Scratch(
        state=lanes(state_dim),
        features=lanes(features),
        inputs=lanes(len(program.input_mean)),
        applied=lanes(width),
        hidden=lanes(2, rows),
        heads=lanes(len(program.choice), 2 * len(program.target_mean)),
    )
