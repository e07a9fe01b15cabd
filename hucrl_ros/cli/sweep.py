"""`hucrl sweep`: many trainings, compared in tables and figures."""

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from hucrl_ros.cli.run_sweep import add_worker_arguments, check_worker_arguments
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run.prepare import RUNS, RunOptions, asked_run, parse_setting

if TYPE_CHECKING:
    from hucrl_ros.experiments.grid import Variation
    from hucrl_ros.experiments.sweep import Sweep

STRATEGIES = ("greedy", "thompson", "optimistic")
PENALTIES = {"pendulum": [0.0, 0.1, 0.2]}
"""Action penalties of a sweep where none are given; of other tasks that of their settings."""
GOALS = {"pendulum": 265.0}
"""Returns that count as learned where none is given."""
_SWEPT = ("strategy", "action_penalty", "seed")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to `hucrl`."""
    parser = subparsers.add_parser(
        "sweep",
        help="train with many seeds and settings, and compare",
        description="Train with every combination of strategy, action penalty and seed, each in "
        "a process of its own. Stopped at any moment, the same command goes on where it was.",
    )
    parser.add_argument("task", help="what to learn; `hucrl list tasks` prints all")
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=STRATEGIES)
    parser.add_argument(
        "--action-penalties",
        nargs="+",
        type=float,
        metavar="RHO",
        help="if not given that of the task's settings, of the pendulum 0, 0.1 and 0.2",
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4], metavar="SEED")
    parser.add_argument("--episodes", type=int, metavar="N", help="random ones included")
    parser.add_argument(
        "--vary", metavar="KEY=V1,V2,...", help="also vary one setting, e.g. search.policy_noise"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings, in YAML")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any other setting"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="for table and figures"
    )
    parser.add_argument(
        "--runs", type=Path, metavar="DIR", help="for the runs; runs/sweep-NAME if not given"
    )
    add_worker_arguments(parser)
    parser.add_argument(
        "--goal",
        type=float,
        metavar="RETURN",
        help="what counts as learned, for the table; of the pendulum 265 if not given",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from hucrl_ros.cli.run_sweep import train, workers_for
    from hucrl_ros.experiments.grid import NOTHING, make_cells
    from hucrl_ros.experiments.sweep import Sweep

    check_worker_arguments(args)
    overrides = dict(parse_setting(text) for text in args.set)
    if args.episodes is not None:
        overrides["episodes"] = args.episodes
    base, described = asked_run(RunOptions(args.task, args.config, overrides))
    if args.action_penalties is None:
        args.action_penalties = PENALTIES.get(args.task, [base.action_penalty])
    if args.goal is None:
        args.goal = GOALS.get(args.task)
    variation = NOTHING if args.vary is None else parse_variation(args.vary)
    for key in overrides:
        if key in _SWEPT or key == variation.name:
            raise ConfigError(f"--set {key}: the sweep itself gives it values")
    cells = make_cells(
        base,
        args.strategies,
        args.action_penalties,
        args.seeds,
        variation,
        described=described,
    )
    sweep = Sweep(args.runs or RUNS / f"sweep-{args.out.name}", cells)
    failures = train(sweep, workers_for(sweep, args))
    _write(sweep, args, failures)
    if failures:
        raise RunError(f"{len(failures)} of {len(cells)} runs failed: {failures[0]}")
    return 0


def parse_variation(text: str) -> "Variation":
    """A setting and its values, from `key=v1,v2,...`; values in YAML.

    Raises:
        ConfigError: it has another form.
    """
    from hucrl_ros.experiments.grid import one_setting

    key, equals, values = text.partition("=")
    try:
        parsed = yaml.safe_load(f"[{values}]")
    except yaml.YAMLError:
        parsed = None
    if not key.strip() or not equals or not parsed:
        raise ConfigError(
            f"--vary {text}: expected KEY=V1,V2,..., e.g. search.policy_noise=0,0.1,0.2"
        )
    return one_setting(key.strip(), parsed)


def _write(sweep: "Sweep", args: argparse.Namespace, failures: list[str]) -> None:
    """Table and figures of what is finished."""
    from hucrl_ros.experiments.statistics import write_rows
    from hucrl_ros.experiments.sweep_report import write_report

    rows = sweep.rows()
    if not rows:
        return
    args.out.mkdir(parents=True, exist_ok=True)
    write_rows(args.out / "returns.csv", rows)
    files = write_report(args.out, rows, args.goal, command_line(args))
    print("\n".join(os.fspath(path) for path in (args.out / "returns.csv", *files)), flush=True)
    if failures:
        print(f"{len(failures)} runs are missing in them", file=sys.stderr)


def command_line(args: argparse.Namespace) -> str:
    """The command that gives the same trainings and results."""
    words = ["hucrl", "sweep", args.task, "--strategies", *args.strategies]
    words += ["--action-penalties", *(f"{penalty:g}" for penalty in args.action_penalties)]
    words += ["--seeds", *map(str, args.seeds)]
    words += [] if args.episodes is None else ["--episodes", str(args.episodes)]
    words += [] if args.goal == GOALS.get(args.task) else [f"--goal={args.goal:g}"]
    words += [] if args.vary is None else ["--vary", args.vary]
    words += [] if args.config is None else ["--config", os.fspath(args.config)]
    for setting in args.set:
        words += ["--set", setting]
    return shlex.join([*words, "--out", os.fspath(args.out)])
