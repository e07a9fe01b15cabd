"""The largest planning tick that fits the control period of this machine."""

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.benchmarks import Size
from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.errors import HucrlError

STEP = 16
"""Step between tried numbers of particles: so many are computed together, fewer save nothing."""
FEWEST, MOST = 32, 512
"""Particles: fewer find little, and more than that many gain less than another iteration."""
SHORTEST = 4
"""Control periods: the critic judges what lies beyond."""
MOST_ITERATIONS = 5
TRIALS = 12
FEWEST_TICKS = 100
WARM_UP_TICKS = 5


class Trial(NamedTuple):
    """Measured durations of ticks of one size."""

    size: Size
    p50: float
    """[s]"""
    p99: float
    """[s]"""
    longest: float
    """[s]"""


Measure = Callable[[Size], Trial]


def tune(measure: Measure, start: Size, target: float) -> Iterator[Trial]:
    """Try sizes; the last one is the largest found whose 99th percentile is at most `target`.

    The horizon and the iterations of `start` stay, and the particles are chosen. Where even
    `FEWEST` take too long, iterations go down to one, then the horizon is halved; where `MOST`
    leave time, iterations go up.

    Args:
        measure: Measures a size.
        start: Horizon and iterations that are wished for.
        target: Time for a tick [s].

    Raises:
        HucrlError: nothing fits.
    """
    small = measure(start._replace(particles=FEWEST))
    yield small
    while small.p99 > target:
        size = small.size
        if size.iterations > 1:
            size = size._replace(iterations=1)
        elif size.horizon >= 2 * SHORTEST:
            size = size._replace(horizon=size.horizon // 2)
        else:
            raise HucrlError(
                f"nothing fits: a tick of {size} takes {1e3 * small.p99:.2f} ms, more than "
                f"{1e3 * target:.2f} ms; a longer period, less headroom, a smaller model or a "
                "faster machine would help"
            )
        small = measure(size)
        yield small
    large = measure(small.size._replace(particles=4 * FEWEST))
    yield large
    yield from _approach(measure, small, large, target)


def _approach(measure: Measure, small: Trial, large: Trial, target: float) -> Iterator[Trial]:
    """From two trials, one of them within `target`, to the largest size within it."""
    growth = large.p99 - small.p99
    if growth > 0:
        slope = growth / (large.size.particles - small.size.particles)
        wished = small.size.particles + (target - small.p99) / slope
    else:  # The smaller one was held up.
        wished = large.size.particles * target / large.p99
    size = small.size
    while wished > MOST and size.iterations < MOST_ITERATIONS:
        wished *= size.iterations / (size.iterations + 1)
        size = size._replace(iterations=size.iterations + 1)
    best = large if large.p99 <= target else small
    for _ in range(TRIALS):
        particles = int(np.clip(wished // STEP * STEP, FEWEST, MOST))
        trial = measure(size._replace(particles=particles))
        yield trial
        if trial.p99 <= target:
            return
        if particles == FEWEST and size.iterations == best.size.iterations:
            break
        wished = 0.9 * particles
        if wished < FEWEST:
            size, wished = best.size, float(MOST)
    yield best


def measure_agent(
    bundle: Bundle, control: ControlSettings, period: float, seconds: float
) -> Measure:
    """Measures whole ticks of `bundle`, as a controller runs them and at its rate.

    Args:
        bundle: What is played.
        control: Engine and threads.
        period: Time from one tick to the next, where a tick takes less [s].
        seconds: For each size [s].
    """

    def measure(size: Size) -> Trial:
        planner = bundle.manifest.planner.model_copy(
            update={**size._asdict(), "elites": min(bundle.manifest.planner.elites, size[0])}
        )
        manifest = bundle.manifest.model_copy(update={"planner": planner})
        played = replace(bundle, manifest=manifest)
        agent = Agent(played, None, engine=control.engine, threads=control.threads)
        agent.warm_up()
        states = 0.5 * np.random.default_rng(0).standard_normal((64, manifest.spec.state_dim))
        count = max(round(seconds / period), FEWEST_TICKS)
        gc.collect()
        gc.freeze()
        try:
            ticks = [_tick(agent, states[i % 64], period) for i in range(count + WARM_UP_TICKS)]
        finally:
            gc.unfreeze()
        p50, p99, longest = np.percentile(ticks[WARM_UP_TICKS:], [50, 99, 100])
        return Trial(size, float(p50), float(p99), float(longest))

    return measure


def _tick(agent: Agent, state: NDArray[np.float64], period: float) -> float:
    began = time.perf_counter()
    agent.act(state)
    took = time.perf_counter() - began
    # A core that rests between two ticks is slower than one that never does.
    time.sleep(max(period - took, 0.0))
    return took
