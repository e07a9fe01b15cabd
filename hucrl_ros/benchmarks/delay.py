"""Return against the delay of commands, with and without latency compensation.

Each bundle is played on a robot whose physics never waits: a command acts only after the tick
that chose it and the delay. The clock is simulated and planning has no time limit, so equal seeds
give equal returns on any machine; only --real-time plays through ROS in real time, on simulator
and controller as they are.
"""

import argparse
import itertools
import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    from hucrl_ros.benchmarks.delay_report import Row
    from hucrl_ros.controller.bundle import Bundle
    from hucrl_ros.tasks import Task

MODES = ("never", "auto")
"""Of `control.latency_compensation`."""
LONGEST_MS = 1000.0
TRAINED = "pendulum"
"""The task that is learned first where no bundle is given."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `hucrl bench delay`."""
    parser.add_argument(
        "bundles",
        type=Path,
        nargs="*",
        metavar="BUNDLE",
        help="folders; default: learn the pendulum first, once with each of --train-seeds",
    )
    parser.add_argument(
        "--train-seeds", type=int, nargs="+", default=[0, 1, 2], metavar="SEED", help="[0 1 2]"
    )
    parser.add_argument(
        "--delays", type=float, nargs="+", default=[0, 20, 50], metavar="MS", help="[0 20 50]"
    )
    parser.add_argument(
        "--tick", type=float, default=2.0, metavar="MS", help="time that a tick takes [2]"
    )
    parser.add_argument("--episodes", type=int, default=3, metavar="N", help="of each [3]")
    parser.add_argument("--seed", type=int, default=0, help="of the first episode [0]")
    parser.add_argument(
        "--real-time", action="store_true", help="through ROS instead, on this machine's clock"
    )
    parser.add_argument(
        "--priority", type=int, default=0, metavar="P", help="with --real-time: SCHED_FIFO [0]"
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="for episodes.csv, a figure and README.md"
    )


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from hucrl_ros.benchmarks import delay_report as report  # torch
    from hucrl_ros.experiments.evaluation import open_bundle

    _check(args)
    with tempfile.TemporaryDirectory(prefix="hucrl-delay-") as scratch:
        paths = args.bundles or _train(args.train_seeds, Path(scratch))
        entries = [(path, *open_bundle(path)) for path in paths]
        rows = list(_play(args, entries))
    print(*report.table(rows, as_json=args.json), sep="\n")
    if args.out is not None:
        files = report.write(args.out, rows, command_line(args), entries[0][2])
        if not args.json:
            print(*files, sep="\n")
    return 0


def command_line(args: argparse.Namespace) -> str:
    """The command that gives the same table."""
    words = ["hucrl", "bench", "delay", *map(os.fspath, args.bundles)]
    if not args.bundles:
        words += ["--train-seeds", *map(str, args.train_seeds)]
    words += ["--delays", *(f"{delay:g}" for delay in args.delays)]
    if args.real_time:
        words += ["--real-time", "--priority", str(args.priority)]
    else:
        words += ["--tick", f"{args.tick:g}"]
    words += ["--episodes", str(args.episodes), "--seed", str(args.seed)]
    words += [] if args.out is None else ["--out", os.fspath(args.out)]
    return shlex.join(words)


def _check(args: argparse.Namespace) -> None:
    """Refuse what makes no sense.

    Raises:
        ConfigError: something does not.
    """
    if args.episodes < 1:
        raise ConfigError(f"--episodes = {args.episodes}: at least 1")
    for seed in (args.seed, *args.train_seeds):
        if not 0 <= seed < 2**31:
            raise ConfigError(f"--seed = {seed}: from 0 to {2**31 - 1}")
    if not 0 <= args.priority <= 99:
        raise ConfigError(f"--priority {args.priority}: from 0 to 99")
    for name, values in (("--delays", args.delays), ("--tick", [args.tick])):
        for value in values:
            if not 0 <= value <= LONGEST_MS:
                raise ConfigError(f"{name} = {value:g}: from 0 to {LONGEST_MS:g} ms")


def _train(seeds: list[int], folder: Path) -> list[Path]:
    """The last bundle of a run with each seed."""
    import torch

    from hucrl_ros.config.files import load_config, task_config_path
    from hucrl_ros.experiments.train import train
    from hucrl_ros.run.folder import RunFolder

    torch.set_num_threads(1)
    paths = []
    for seed in seeds:
        config = load_config(task_config_path(TRAINED), {"seed": seed})
        run_folder = RunFolder.create(folder / f"seed{seed}", config)
        train(config, run_folder)
        paths.append(run_folder.bundle(config.episodes))
    return paths


def _play(args: argparse.Namespace, entries: "list[tuple[Path, Bundle, Task]]") -> "Iterator[Row]":
    """A row for each episode."""
    from hucrl_ros.benchmarks.delay_report import Row
    from hucrl_ros.benchmarks.delay_trial import play_real_time
    from hucrl_ros.config.schema import ControlSettings
    from hucrl_ros.experiments.delayed import play_delayed

    seeds = range(args.seed, args.seed + args.episodes)
    for path, bundle, task in entries:
        name = f"{path.absolute().parents[1].name}/{path.name}"
        for delay, mode, seed in itertools.product(args.delays, MODES, seeds):
            control = ControlSettings(
                latency_compensation=mode,
                extra_delay=1e-3 * delay,
                realtime_priority=args.priority,
            )
            if args.real_time:
                total, share, tick_ms = play_real_time(bundle, task, seed, control)
            else:
                played = play_delayed(bundle, task, seed, 1e-3 * delay, 1e-3 * args.tick, control)
                total, share, tick_ms = played.total, played.compensated / task.steps, args.tick
            yield Row(name, delay, tick_ms, mode, seed, total, share)
