"""How long a planning tick takes, beside what the processor can do."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hucrl_ros.benchmarks import Output
from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    from hucrl_ros.benchmarks.timing import Timing
    from hucrl_ros.runtime.bundle import Bundle


class Size(NamedTuple):
    """A tick's size."""

    particles: int
    horizon: int
    iterations: int

    def __str__(self) -> str:
        return "x".join(str(number) for number in self)


class System(NamedTuple):
    """What is planned for."""

    name: str
    """Task."""
    heads: int
    layers: tuple[int, ...]


SYSTEMS = (
    System("pendulum", 5, (64, 64)),
    System("reacher", 5, (200, 200)),
    System("reacher", 5, (200, 200, 200, 200)),
)


class Row(NamedTuple):
    """A line of the table; times in ms, rates in 1e9 operations a second."""

    system: str
    heads: int
    layers: list[int]
    particles: int
    horizon: int
    iterations: int
    engine: str
    threads: int
    ticks: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    gflops: float
    yardstick_gflops: float
    share: float


def run(
    path: Path | None,
    sizes: Sequence[str],
    threads: Sequence[int],
    engines: Sequence[str],
    seconds: float,
    output: Output,
) -> None:
    """Print the table of a bundle, or of untrained ones."""
    from hucrl_ros.benchmarks import tick_report as report

    parsed = [parse_size(text) for text in sizes]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        if not output.as_json:
            print(report.HEADER, flush=True)
        for system, bundle in _bundles(path, Path(folder)):
            for row in measure(system, bundle, parsed, threads, engines, seconds):
                rows.append(row)
                if not output.as_json:
                    print(report.text_line(row), flush=True)
    if output.as_json:
        print(json.dumps([row._asdict() for row in rows], indent=1))
    if output.folder is not None:
        report.write(output.folder, rows, output.command, output.machine)


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
    bundle: "Bundle",
    sizes: Sequence[Size],
    threads: Sequence[int],
    engines: Sequence[str],
    seconds: float,
) -> Iterator[Row]:
    """Every combination, a row each; numpy with one thread alone."""
    from hucrl_ros.benchmarks import timing

    for size in sizes:
        settings = bundle.manifest.planner.model_copy(
            update={**size._asdict(), "elites": min(8, size.particles), "algorithm": "dyna_mpc"}
        )
        for engine in engines:
            for count in threads:
                if engine == "numpy" and count > 1:
                    continue
                timed = timing.time_engine(engine, bundle, settings, count, seconds)
                yield _row(system, size, engine, count, timed)


def _row(system: System, size: Size, engine: str, threads: int, timed: "Timing") -> Row:
    share = timed.gflops / timed.yardstick_gflops
    tails = (timed.percentile(percent) for percent in (50, 99, 99.9, 100))
    p50, p99, p999, longest = (round(value, 4) for value in tails)
    return Row(
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
        yardstick_gflops=round(timed.yardstick_gflops, 2),
        share=round(share, 4),
    )


def _bundles(path: Path | None, folder: Path) -> "Iterator[tuple[System, Bundle]]":
    """What to measure."""
    from hucrl_ros.benchmarks.synthetic import untrained_bundle
    from hucrl_ros.config import ModelSettings
    from hucrl_ros.errors import BundleError
    from hucrl_ros.runtime.bundle import load_bundle

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
