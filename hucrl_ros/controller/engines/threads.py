"""Particles shared among threads; the kernel lets them run side by side."""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from hucrl_ros.controller.engines.program import padded
from hucrl_ros.controller.engines.simd import VECTOR


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
