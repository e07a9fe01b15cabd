"""What `hucrl sweep`, `hucrl experiment` and `hucrl figure` share: where and how they train."""

import argparse
from typing import TYPE_CHECKING

from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    from hucrl_ros.experiments.grid import Cell
    from hucrl_ros.experiments.sweep import Sweep
    from hucrl_ros.experiments.workers import Workers
    from hucrl_ros.run.processes import Exit


def add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the choice of where to train."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--workers", type=int, default=1, metavar="N", help="trainings at a time")
    place.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="train on a Ray cluster instead, as many at a time as it has processors: HOST:PORT, "
        "auto (the one this machine belongs to), or local (one that ends with the command)",
    )


def check_worker_arguments(args: argparse.Namespace) -> None:
    """Look at them before anything is done.

    Raises:
        ConfigError: they make no sense.
    """
    if args.workers < 1:
        raise ConfigError(f"--workers = {args.workers}: at least 1")


def workers_for(sweep: "Sweep", args: argparse.Namespace) -> "Workers":
    """Where to train."""
    from hucrl_ros.experiments.workers import LocalWorkers

    if args.ray is None:
        return LocalWorkers(args.workers, sweep.logs)
    from hucrl_ros.experiments.ray_workers import RayWorkers

    return RayWorkers(args.ray, sweep.logs)


def train(sweep: "Sweep", workers: "Workers") -> list[str]:
    """Run what isn't finished, a line for each; returns a line for each that failed."""
    from hucrl_ros.run.summary import read_summary

    finished = f"{len(sweep.finished)} of {len(sweep.cells)}"
    print(f"{finished} runs are finished already", flush=True)

    def report(cell: "Cell", failure: "Exit | None") -> None:
        if failure is None:
            summary = read_summary(sweep.run_of(cell).summary)
            best = "no episode" if summary.best_return is None else f"{summary.best_return:.1f}"
            result = f"best return {best}, {summary.wall_s:.0f} s"
        else:
            result = f"failed: {failure.description}"
        done = f"{len(sweep.finished)}/{len(sweep.cells)}"
        print(f"[{done}] {cell.name}: {result}", flush=True)

    return [failure.description for failure in sweep.run(workers, report)]
