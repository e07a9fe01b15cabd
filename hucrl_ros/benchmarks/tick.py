"""How long a planning tick takes, beside what the processor can do."""

import gc
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hucrl_ros.benchmarks import Output, Size, report
from hucrl_ros.benchmarks.results import QUANTILES, TickRow
from hucrl_ros.benchmarks.synthetic import untrained_bundle
from hucrl_ros.config.schema import ModelSettings, PlannerSettings
from hucrl_ros.controller.bundle import Bundle, load_bundle
from hucrl_ros.controller.engines.engine import make_engine
from hucrl_ros.controller.engines.networks import Networks
from hucrl_ros.controller.examiner import load_examined
from hucrl_ros.controller.safety_filter import make_safety_filter
from hucrl_ros.errors import BundleError, ConfigError
from hucrl_ros.planners import make_planner

PRODUCT_SIZE = 512
ROUNDS, PRODUCTS = 5, 8
"""Ticks are measured in rounds; so many matrix products come before each."""
PAUSE_S = 0.05
"""[s] After the products, whose threads spin for a while before they sleep."""
WARM_UP_TICKS = 5
FEWEST_TICKS, MOST_TICKS = 40, 20000


@dataclass(frozen=True)
class Timing:
    """A measurement."""

    ticks_ms: NDArray[np.float64]
    """`(n,)` in the order in which they ran."""
    gflop: float
    """Of one tick, see `tick_gflop` [1e9 operations]."""
    peak_gflops: float
    """Median rate of a square matrix product between the ticks [1e9 operations a second]."""
    filter_ms: NDArray[np.float64]
    """`(n,)` what the safety filter took for each state on top; empty without constraints."""

    def percentile(self, percent: float) -> float:
        """Of the ticks [ms]."""
        return float(np.percentile(self.ticks_ms, percent))

    @property
    def gflops(self) -> float:
        """Rate of the median tick [1e9 operations a second]."""
        return 1e3 * self.gflop / self.percentile(50)


def tick_gflop(networks: Networks, settings: PlannerSettings) -> float:
    """Operations of a tick's policies and models [1e9]; a multiplication and a sum are two.

    Critic, reward and everything elementwise are work, too, but not counted; of a whitener, half
    is 0.
    """
    layers = [*networks.policy, *networks.hallucination, *networks.model]
    step = 2.0 * sum(layer.weights.size for layer in layers) + networks.whitener.size
    if (process := networks.process) is not None:
        distances = 3 * process.points.size * len(process.weights)
        step += distances + 2 * process.weights.size + process.whitener.size
    rollouts = settings.particles * max(settings.noise_draws, 1) * settings.iterations
    return 1e-9 * rollouts * settings.horizon * step


def time_engine(
    name: str, bundle: Bundle, settings: PlannerSettings, threads: int, seconds: float
) -> Timing:
    """Plan one tick after the other, with matrix products in between.

    Args:
        name: The engine, `compiled` or `onnx`.
        bundle: What it plays.
        settings: The planner and its size.
        threads: Of the engine and of the products.
        seconds: Time to take [s].
    """
    assert bundle.networks is not None
    gflop = tick_gflop(bundle.networks, settings)
    if name == "onnx":
        bundle = load_bundle(bundle.path, threads=threads)
    engine = make_engine(bundle, settings.particles, settings.horizon, name, threads)
    spec = bundle.manifest.spec
    planner = make_planner(settings, spec.predicted_dim, bundle.manifest.width)
    rng = np.random.default_rng(0)
    planner.reset(rng)
    states = 0.5 * rng.standard_normal((64, spec.state_dim))
    on = bundle.manifest.safety.model_copy(update={"filter": True})
    safety = make_safety_filter(bundle, on, name == "compiled")
    filtered = list[float]()

    def tick(index: int) -> float:
        began = time.perf_counter()
        engine.set_state(states[index % len(states)])
        plan = planner.plan(engine, lambda: True)
        planned = time.perf_counter()
        if safety is not None and plan is not None:
            wanted = plan.actions[0, : spec.action_dim].astype(np.float64)
            safety.check(states[index % len(states)], wanted)
            filtered.append(time.perf_counter() - planned)
        return planned - began

    torch.set_num_threads(threads)
    square = torch.rand(PRODUCT_SIZE, PRODUCT_SIZE)
    typical = float(np.median([tick(index) for index in range(WARM_UP_TICKS)]))
    count = int(np.clip(seconds / typical, FEWEST_TICKS, MOST_TICKS))
    ticks, rates = list[float](), list[float]()
    filtered.clear()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            rates += [_rate(square) for _ in range(PRODUCTS)]
            time.sleep(PAUSE_S)
            tick(0)
            ticks += [tick(index) for index in range(math.ceil(count / ROUNDS))]
    finally:
        gc.unfreeze()
        gc.enable()
    peak = float(np.median(rates))
    return Timing(1e3 * np.array(ticks), gflop, peak, 1e3 * np.array(filtered))


def _rate(square: torch.Tensor) -> float:
    began = time.perf_counter()
    torch.mm(square, square)
    return 2e-9 * PRODUCT_SIZE**3 / (time.perf_counter() - began)


class System(NamedTuple):
    """Task and model whose ticks are measured."""

    name: str
    """Task."""
    heads: int
    layers: tuple[int, ...]


SYSTEMS = (
    System("pendulum", 5, (64, 64)),
    System("cartpole", 5, (64, 64)),
    System("reacher", 5, (200, 200)),
    System("reacher", 5, (200, 200, 200, 200)),
)


def run(
    path: Path | None,
    sizes: Sequence[str],
    noise_draws: Sequence[int],
    threads: Sequence[int],
    engines: Sequence[str],
    seconds: float,
    output: Output,
) -> None:
    """Print the table of a bundle, or of untrained ones."""
    parsed = [parse_size(text) for text in sizes]
    rows: list[TickRow] = []
    output.say(report.TICKS.header)
    with tempfile.TemporaryDirectory() as folder:
        for system, bundle in _bundles(path, Path(folder)):
            for row in measure(system, bundle, parsed, noise_draws, threads, engines, seconds):
                rows.append(row)
                output.say(report.TICKS.line(row))
    report.finish(output, rows, lambda folder: report.write_ticks(folder, rows, output))


def parse_size(text: str) -> Size:
    """Read `64x5x3`.

    Raises:
        ConfigError: it isn't three positive numbers.
    """
    parts = text.split("x")
    if len(parts) != 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise ConfigError(f"--sizes {text}: expected particles x horizon x iterations, as 64x5x3")
    if int(parts[0]) < 2:
        raise ConfigError(f"--sizes {text}: at least 2 particles")
    return Size(*map(int, parts))


def measure(
    system: System,
    bundle: Bundle,
    sizes: Sequence[Size],
    noise_draws: Sequence[int],
    threads: Sequence[int],
    engines: Sequence[str],
    seconds: float,
) -> Iterator[TickRow]:
    """A row for each combination."""
    for size, draws in product(sizes, noise_draws):
        changes = {**size._asdict(), "elites": min(8, size.particles), "noise_draws": draws}
        settings = bundle.manifest.planner.model_copy(update={**changes, "algorithm": "dyna_mpc"})
        for engine in engines:
            for count in threads:
                timed = time_engine(engine, bundle, settings, count, seconds)
                yield _row(system, size, draws, engine, count, timed)


def _row(
    system: System, size: Size, draws: int, engine: str, threads: int, timed: Timing
) -> TickRow:
    tails = (timed.percentile(percent) for percent in QUANTILES)
    p50, p99, p999, longest = (round(value, 4) for value in tails)
    return TickRow(
        system=system.name,
        heads=system.heads,
        layers=list(system.layers),
        particles=size.particles,
        horizon=size.horizon,
        iterations=size.iterations,
        noise_draws=draws,
        engine=engine,
        threads=threads,
        ticks=len(timed.ticks_ms),
        p50_ms=p50,
        p99_ms=p99,
        p999_ms=p999,
        max_ms=longest,
        gflops=round(timed.gflops, 2),
        peak_gflops=round(timed.peak_gflops, 2),
        share=round(timed.gflops / timed.peak_gflops, 4),
        filter_ms=round(float(np.median(timed.filter_ms)), 4) if len(timed.filter_ms) else None,
    )


def _bundles(path: Path | None, folder: Path) -> Iterator[tuple[System, Bundle]]:
    """The bundle at `path`, or untrained ones in `folder`."""
    if path is not None:
        bundle = load_examined(path)
        if bundle.networks is None:
            raise BundleError(f"{path}: has no networks.npz, whose operations could be counted")
        weights = [layer.weights for layer in bundle.networks.model]
        if (process := bundle.networks.process) is not None:
            heads, hidden = process.weights.shape[0], process.weights.shape[1:]
        else:
            heads, hidden = len(weights[0]), tuple(int(w.shape[-1]) for w in weights[:-1])
        yield System(bundle.manifest.task, heads, hidden), bundle
        return
    for index, system in enumerate(SYSTEMS):
        model = ModelSettings(
            kind="probabilistic_ensemble", heads=system.heads, layers=system.layers
        )
        yield system, untrained_bundle(folder / str(index), system.name, model)
