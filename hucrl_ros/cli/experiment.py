"""`hucrl experiment`: a grid of trainings from a file, one table of all of them."""

import argparse
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from hucrl_ros.cli.run_sweep import add_worker_arguments, check_worker_arguments
from hucrl_ros.config.task_file import task_name
from hucrl_ros.errors import RunError
from hucrl_ros.run.prepare import RUNS

if TYPE_CHECKING:
    from hucrl_ros.experiments.grid import Grid
    from hucrl_ros.experiments.sweep import Sweep


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to `hucrl`."""
    parser = subparsers.add_parser(
        "experiment",
        help="train a grid from a file",
        description="Train every combination that a YAML file names, each in a process of its "
        "own. Stopped at any moment, the same command goes on where it was.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="e.g. config/experiments/*.yaml")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="for table and figures"
    )
    parser.add_argument(
        "--runs", type=Path, metavar="DIR", help="for the runs; runs/experiment-NAME if not given"
    )
    add_worker_arguments(parser)
    parser.add_argument(
        "--report", action="store_true", help="train nothing; table and figures of what is there"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from hucrl_ros.cli.run_sweep import train, workers_for
    from hucrl_ros.experiments.grid import read_grid
    from hucrl_ros.experiments.sweep import Sweep

    check_worker_arguments(args)
    grid = read_grid(args.file)
    sweep = Sweep(args.runs or RUNS / f"experiment-{args.file.stem}", grid.cells())
    failures = [] if args.report else train(sweep, workers_for(sweep, args))
    _write(args, grid, sweep)
    if failures:
        raise RunError(f"{len(failures)} of {len(sweep.cells)} runs failed: {failures[0]}")
    return 0


def _write(args: argparse.Namespace, grid: "Grid", sweep: "Sweep") -> None:
    """One table of all episodes; figures and a page of each task."""
    from hucrl_ros.experiments.statistics import write_rows
    from hucrl_ros.experiments.sweep_report import write_report

    rows = sweep.rows()
    if not rows:
        return
    args.out.mkdir(parents=True, exist_ok=True)
    files = [args.out / "returns.csv"]
    write_rows(files[0], rows)
    command = shlex.join(["hucrl", "experiment", str(args.file), "--out", str(args.out)])
    for name, task in grid.tasks.items():
        of_task = [row for row in rows if row.task == task_name(name)]
        folder = args.out / task_name(name) if len(grid.tasks) > 1 else args.out
        if of_task:
            files += write_report(folder, of_task, task.goal, command)
    missing = len(sweep.cells) - len(sweep.finished)
    print("\n".join(os.fspath(path) for path in files), flush=True)
    if missing:
        print(f"{missing} of {len(sweep.cells)} runs are missing in them", flush=True)
