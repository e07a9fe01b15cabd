"""The compiled planning engine: rollouts by `engines.kernel`, rewards by ONNX Runtime."""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from hucrl_ros.controller.engines import kernel
from hucrl_ros.controller.engines.networks import Networks
from hucrl_ros.controller.engines.program import compile_program, padded, scratch_memory
from hucrl_ros.controller.engines.simd import VECTOR
from hucrl_ros.controller.timing import PLANNING_THREAD
from hucrl_ros.planners import Rollouts
from hucrl_ros.planners.base import Array


def shares(particles: int, threads: int) -> list[tuple[int, int]]:
    """First and last particles of each thread, at multiples of a vector."""
    vectors = padded(particles) // VECTOR
    bounds = {min(vectors * i // threads * VECTOR, particles) for i in range(threads + 1)}
    return list(itertools.pairwise(sorted(bounds)))


def run_shared(
    helpers: Executor, parts: Sequence[tuple[int, int]], work: Callable[[int, int, int], None]
) -> None:
    """Call `work(index, first, last)` for each of `parts`, the first in this thread."""
    others = [helpers.submit(work, i, *part) for i, part in enumerate(parts) if i]
    work(0, *parts[0])
    for other in others:
        other.result()


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
        self._starts = np.zeros((particles, state_dim), np.float32)
        self.state: Array = self._starts[0]
        """Start of the rollouts `(p,)`."""
        self._offsets = np.zeros((particles, horizon, width), np.float32)
        predicted = len(self._program.target_mean)
        self._noise = np.zeros((horizon, predicted, padded(particles)), np.float32)
        self._rollouts = Rollouts(
            returns=np.zeros(particles, np.float32),
            states=np.zeros((particles, horizon + 1, state_dim), np.float32),
            actions=np.zeros((particles, horizon, width), np.float32),
        )
        self._shares = shares(particles, threads)
        self._scratch = [scratch_memory(self._program, state_dim, width) for _ in self._shares]
        # It starts threads when it is given work, which one share alone never does.
        helpers = max(len(self._shares) - 1, 1)
        self._helpers = ThreadPoolExecutor(helpers, f"{PLANNING_THREAD}-rollout")
        self._score = score
        self._options = onnxruntime.RunOptions()
        self._bindings = [_bind(score, self._rollouts, *share) for share in self._shares]

    def set_state(self, state: NDArray[np.float64]) -> None:
        """Start of the rollouts from now on: `(p,)`."""
        self._starts[:] = state

    def __call__(self, offsets: Array, noise: Array, feedback: float) -> Rollouts:
        """Roll out; see `planners.Imagine`. The result is overwritten by the next call."""
        self._offsets[:] = offsets
        self._noise[:] = noise[:, :, None]
        share = np.float32(feedback)
        run_shared(self._helpers, self._shares, partial(self._run, share))
        return self._rollouts

    def _run(self, feedback: np.float32, index: int, first: int, last: int) -> None:
        kernel.roll_out(
            self._program,
            self._scratch[index],
            self._starts,
            self._offsets,
            self._noise,
            feedback,
            first,
            last,
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
