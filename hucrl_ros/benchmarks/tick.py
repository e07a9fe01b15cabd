"""How long a planning tick takes, beside what the processor can do.

A tick is particles x horizon x iterations of policies, every head of the model, the imagined
step, reward and critic, and the planner's sampling and selection. The peak rate is that of a
512 x 512 x 512 matrix product in float32 by torch, measured between the ticks with as many
threads. Without a bundle, untrained ones are measured: the pendulum with 5 x [64, 64], the arm
of the reacher with 5 x [200, 200] and 5 x [200, 200, 200, 200].
"""

import argparse
import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    from hucrl_ros.benchmarks.results import TickRow
    from hucrl_ros.benchmarks.timing import Timing
    from hucrl_ros.controller.bundle import Bundle

BUDGETS = ("64x5x3", "200x10x3")
ENGINES = ("compiled", "onnx")


class Size(NamedTuple):
    """A tick's size."""

    particles: int
    horizon: int
    iterations: int

    def __str__(self) -> str:
        return "x".join(str(number) for number in self)


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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `hucrl bench tick`."""
    parser.add_argument("bundle", nargs="?", type=Path, help="default: untrained ones")
    parser.add_argument(
        "--sizes",
        nargs="+",
        default=list(BUDGETS),
        metavar="NxHxI",
        help=f"particles x horizon x iterations; default: {' '.join(BUDGETS)}",
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="T")
    parser.add_argument(
        "--engines", nargs="+", choices=ENGINES, default=list(ENGINES), help="default: all"
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="for each line of the table [2]"
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument("--out", type=Path, metavar="DIR", help="for JSON, a figure and README.md")
    parser.add_argument(
        "--machine", default=f"{os.cpu_count()} cores", help="what to call this one in README.md"
    )


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from hucrl_ros.benchmarks import report

    sizes = [parse_size(text) for text in args.sizes]
    for threads in args.threads:
        if threads < 1:
            raise ConfigError(f"--threads {threads}: at least 1")
    if args.seconds <= 0:
        raise ConfigError(f"--seconds {args.seconds:g}: more than 0")
    rows: list[TickRow] = []
    with tempfile.TemporaryDirectory() as folder:
        if not args.json:
            print(report.TICKS.header, flush=True)
        for system, bundle in _bundles(args.bundle, Path(folder)):
            for row in measure(system, bundle, sizes, args.threads, args.engines, args.seconds):
                rows.append(row)
                if not args.json:
                    print(report.TICKS.line(row), flush=True)
    if args.json:
        print(report.as_json(rows))
    if args.out is not None:
        command = shlex.join(["hucrl", "bench", "tick", *_given(args)])
        report.write_ticks(args.out, rows, command, args.machine)
    return 0


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
    sizes: list[Size],
    threads: list[int],
    engines: list[str],
    seconds: float,
) -> "Iterator[TickRow]":
    """A row for each combination."""
    from hucrl_ros.benchmarks import timing

    for size in sizes:
        settings = bundle.manifest.planner.model_copy(
            update={**size._asdict(), "elites": min(8, size.particles), "algorithm": "dyna_mpc"}
        )
        for engine in engines:
            for count in threads:
                timed = timing.time_engine(engine, bundle, settings, count, seconds)
                yield _row(system, size, engine, count, timed)


def _row(system: System, size: Size, engine: str, threads: int, timed: "Timing") -> "TickRow":
    from hucrl_ros.benchmarks.results import TickRow

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


def _bundles(path: Path | None, folder: Path) -> "Iterator[tuple[System, Bundle]]":
    """The bundle at `path`, or untrained ones in `folder`."""
    from hucrl_ros.benchmarks.synthetic import untrained_bundle
    from hucrl_ros.config.schema import ModelSettings
    from hucrl_ros.controller.bundle import load_bundle
    from hucrl_ros.errors import BundleError

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


def _given(args: argparse.Namespace) -> list[str]:
    """The options that make these numbers."""
    words = [str(args.bundle)] if args.bundle else []
    words += ["--sizes", *args.sizes, "--threads", *map(str, args.threads)]
    return [*words, "--engines", *args.engines, "--seconds", f"{args.seconds:g}"]
