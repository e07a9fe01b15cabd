"""How long a planning tick takes, beside what the processor can do."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hucrl_ros.benchmarks import Output, Size, report
from hucrl_ros.benchmarks.results import TickRow
from hucrl_ros.benchmarks.synthetic import untrained_bundle
from hucrl_ros.benchmarks.timing import Timing, time_engine
from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.controller.bundle import Bundle, load_bundle
from hucrl_ros.errors import BundleError, ConfigError


class System(NamedTuple):
    """Task and model whose ticks are measured."""

    name: str
    """Task."""
    heads: int
    layers: tuple[int, ...]


SYSTEMS = (
    System("pendulum", 5, (64, 64)),
    System("reacher", 5, (200, 200)),
    System("reacher", 5, (200, 200, 200, 200)),
)


def run(
    path: Path | None,
    sizes: Sequence[str],
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
            for row in measure(system, bundle, parsed, threads, engines, seconds):
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
    threads: Sequence[int],
    engines: Sequence[str],
    seconds: float,
) -> Iterator[TickRow]:
    """A row for each combination."""
    for size in sizes:
        settings = bundle.manifest.planner.model_copy(
            update={**size._asdict(), "elites": min(8, size.particles), "algorithm": "dyna_mpc"}
        )
        for engine in engines:
            for count in threads:
                timed = time_engine(engine, bundle, settings, count, seconds)
                yield _row(system, size, engine, count, timed)


def _row(system: System, size: Size, engine: str, threads: int, timed: Timing) -> TickRow:
    tails = (timed.percentile(percent) for percent in (50, 99, 99.9, 100))
    p50, p99, p999, longest = (round(value, 4) for value in tails)
    return TickRow(
        system=system.name,
        heads=system.heads,
        layers=list(system.layers),
        particles=size.particles,
        horizon=size.horizon,
        iterations=size.iterations,
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
    )


def _bundles(path: Path | None, folder: Path) -> Iterator[tuple[System, Bundle]]:
    """The bundle at `path`, or untrained ones in `folder`."""
    if path is not None:
        bundle = load_bundle(path)
        if bundle.networks is None:
            raise BundleError(f"{path}: has no networks.npz, whose operations could be counted")
        weights = [layer.weights for layer in bundle.networks.model]
        hidden = tuple(int(weight.shape[-1]) for weight in weights[:-1])
        yield System(bundle.manifest.task, len(weights[0]), hidden), bundle
        return
    for index, system in enumerate(SYSTEMS):
        model = ModelSettings(heads=system.heads, layers=system.layers)
        yield system, untrained_bundle(folder / str(index), system.name, model)
