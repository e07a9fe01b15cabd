"""Return on the true robot against planning time, planner by planner.

Each planner plays each bundle's task in the simulator, physics waiting for every command. With
--budget-ms iterations are cut when the time is up, as they are on a robot; without it, equal
seeds give equal returns.
"""

import argparse
import gc
import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hucrl_ros.errors import ConfigError
from hucrl_ros.run.prepare import parse_setting

if TYPE_CHECKING:
    from hucrl_ros.benchmarks.contest import Contest, Entry, Row

SIZES = ("64x1", "64x3", "192x1", "192x3")
"""Three iterations, and one with three times the particles, cost the same."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `hucrl bench planners`."""
    parser.add_argument(
        "bundles", type=Path, nargs="+", metavar="BUNDLE", help="folders; LABEL=FOLDER names one"
    )
    parser.add_argument(
        "--planners", nargs="+", metavar="NAME", help="which to compare; default: all"
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        default=list(SIZES),
        metavar="NxI",
        help="particles x iterations in a tick; default: " + " ".join(SIZES),
    )
    parser.add_argument(
        "--budget-ms",
        nargs="+",
        type=float,
        default=[],
        metavar="MS",
        help="time for planning in a tick; iterations are cut; default: no limit",
    )
    parser.add_argument("--episodes", type=int, default=3, metavar="N", help="of each [3]")
    parser.add_argument("--seed", type=int, default=0, help="of the first episode [0]")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a planner.* or safety.* setting of all planners; repeatable",
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="for episodes.csv, a figure and README.md"
    )
    parser.add_argument(
        "--machine", default=f"{os.cpu_count()} cores", help="what to call this one in README.md"
    )


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from hucrl_ros.benchmarks import contest_report as report  # torch
    from hucrl_ros.benchmarks.contest import scores

    contest = _contest(args)
    contest.check()
    gc.collect()
    gc.freeze()  # What is loaded by now would be searched for garbage within a tick.
    rows = _play(contest, quiet=args.json)
    if args.json:
        print(json.dumps([report.as_json(score) for score in scores(rows)], indent=1))
    elif len(contest.entries) > 1:
        print("\nall bundles", *report.text_table(scores(rows)), sep="\n")
    if args.out is not None:
        page = report.Page(contest, command_line(args), args.machine)
        print(*page.write(args.out, rows), sep="\n")
    return 0


def _contest(args: argparse.Namespace) -> "Contest":
    """What was asked for.

    Raises:
        HucrlError: it makes no sense.
    """
    from hucrl_ros.benchmarks.contest import CONTESTANTS, POLICY, Contest, parse_size

    if args.episodes < 1:
        raise ConfigError(f"--episodes = {args.episodes}: at least 1")
    if not 0 <= args.seed < 2**31:
        raise ConfigError(f"--seed = {args.seed}: from 0 to {2**31 - 1}")
    for budget in args.budget_ms:
        if budget <= 0:
            raise ConfigError(f"--budget-ms = {budget:g}: more than 0")
    planners = list(CONTESTANTS) if args.planners is None else [POLICY, *args.planners]
    for name in planners:
        if name not in CONTESTANTS:
            raise ConfigError(f"--planners {name}: unknown; known: {', '.join(CONTESTANTS)}")
    return Contest(
        entries=_open(args.bundles),
        planners=list(dict.fromkeys(planners)),
        sizes=[parse_size(size) for size in args.sizes],
        budgets_ms=args.budget_ms or [0.0],
        episodes=args.episodes,
        seed=args.seed,
        settings=dict(parse_setting(text) for text in args.set),
    )


def _open(arguments: Sequence[Path]) -> "list[Entry]":
    """Bundles of one task, with different labels.

    Raises:
        HucrlError: they aren't.
    """
    from hucrl_ros.benchmarks.contest import Entry
    from hucrl_ros.experiments.evaluation import open_bundle

    entries: list[Entry] = []
    for argument in arguments:
        label, _, folder = os.fspath(argument).partition("=")
        path = Path(folder) if folder and not argument.exists() else argument
        bundle, task = open_bundle(path)
        run = path.absolute().parents[1].name
        name = label if path != argument else f"{run}/{path.name}"
        if bundle.manifest.random:
            raise ConfigError(f"{path}: plays random efforts, whatever the planner")
        if entries and entries[0].task.name != task.name:
            raise ConfigError(f"{path}: its task is {task.name}, not {entries[0].task.name}")
        if name in [entry.name for entry in entries]:
            raise ConfigError(f"{path}: another bundle is called {name!r}; LABEL=FOLDER names one")
        entries.append(Entry(name, bundle, task))
    return entries


def _play(contest: "Contest", quiet: bool) -> "list[Row]":
    """All rows, each table line as soon as it is known."""
    from hucrl_ros.benchmarks import contest_report as report
    from hucrl_ros.benchmarks.contest import scores

    rows: list[Row] = []
    for group in contest.play():
        if not quiet:
            header = not rows or rows[-1].bundle != group[0].bundle
            same = [row for row in rows if row.bundle == group[0].bundle]
            lines = report.text_table([scores([*same, *group])[-1]])
            print(*([f"\n{group[0].bundle}", lines[0]] if header else []), lines[1], sep="\n")
        rows += group
    return rows


def command_line(args: argparse.Namespace) -> str:
    """The command that gives the same table."""
    words = ["hucrl", "bench", "planners", *map(os.fspath, args.bundles)]
    words += ["--planners", *args.planners] if args.planners else []
    words += ["--sizes", *args.sizes]
    words += ["--budget-ms", *(f"{ms:g}" for ms in args.budget_ms)] if args.budget_ms else []
    words += ["--episodes", str(args.episodes), "--seed", str(args.seed)]
    for setting in args.set:
        words += ["--set", setting]
    words += [] if args.out is None else ["--out", os.fspath(args.out)]
    return shlex.join(words)
