"""Return on the true robot against planning time, planner by planner.

Each planner plays each bundle's task in the simulator, physics waiting for every command. With
--budget-ms iterations are cut when the time is up, as they are on a robot; without it, equal
seeds give equal returns.
"""

import argparse
import gc
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hucrl_ros.errors import ConfigError
from hucrl_ros.run.prepare import parse_setting

if TYPE_CHECKING:
    from hucrl_ros.benchmarks.results import PlannerRow, Size
    from hucrl_ros.controller.bundle import Bundle
    from hucrl_ros.experiments.evaluation import Played
    from hucrl_ros.tasks import Task

SIZES = ("64x1", "64x3", "192x1", "192x3")
"""Three iterations, and one with three times the particles, cost the same."""
COMPARED: dict[str, Mapping[str, Any]] = {
    "policy": {"planner.algorithm": "policy"},
    "dyna_mpc": {"planner.algorithm": "dyna_mpc"},
    "poplin_a": {"planner.algorithm": "poplin_a"},
    "poplin_bias": {"planner.algorithm": "poplin_bias"},
    "cem warm": {"planner.algorithm": "cem", "planner.warm_start": True},
    "cem cold": {"planner.algorithm": "cem", "planner.warm_start": False},
    "icem": {"planner.algorithm": "icem"},
    "mppi": {"planner.algorithm": "mppi"},
    "random_shooting": {"planner.algorithm": "random_shooting"},
    "ilqr": {"planner.algorithm": "ilqr"},
}
"""Planners and their settings. Exact programming isn't one: it plans between the episodes."""


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
    from hucrl_ros.benchmarks import report  # torch
    from hucrl_ros.benchmarks.results import planner_scores

    comparison = _comparison(args)
    comparison.check()
    gc.collect()
    gc.freeze()  # What is loaded by now would be searched for garbage within a tick.
    rows = _play(comparison, quiet=args.json)
    entries = comparison.entries
    if args.json:
        print(report.as_json(planner_scores(rows)))
    elif len(entries) > 1:
        print("\nall bundles", *report.PLANNERS.text(planner_scores(rows)), sep="\n")
    if args.out is not None:
        manifests = {entry.name: entry.bundle.manifest for entry in entries}
        words = command_line(args), args.machine
        files = report.write_planners(args.out, rows, *words, entries[0].task, manifests)
        print(*files, sep="\n")
    return 0


def _comparison(args: argparse.Namespace) -> "Comparison":
    """What was asked for.

    Raises:
        HucrlError: it makes no sense.
    """
    if args.episodes < 1:
        raise ConfigError(f"--episodes = {args.episodes}: at least 1")
    if not 0 <= args.seed < 2**31:
        raise ConfigError(f"--seed = {args.seed}: from 0 to {2**31 - 1}")
    for budget in args.budget_ms:
        if budget <= 0:
            raise ConfigError(f"--budget-ms = {budget:g}: more than 0")
    planners = list(COMPARED) if args.planners is None else ["policy", *args.planners]
    for name in planners:
        if name not in COMPARED:
            raise ConfigError(f"--planners {name}: unknown; known: {', '.join(COMPARED)}")
    return Comparison(
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


def _play(comparison: "Comparison", quiet: bool) -> "list[PlannerRow]":
    """All rows, each table line as soon as it is known."""
    from hucrl_ros.benchmarks.report import PLANNERS
    from hucrl_ros.benchmarks.results import planner_scores

    rows: list[PlannerRow] = []
    for group in comparison.play():
        same = [row for row in rows if row.bundle == group[0].bundle]
        if not quiet:
            if not same:
                print(f"\n{group[0].bundle}\n{PLANNERS.header}")
            print(PLANNERS.line(planner_scores([*same, *group])[-1]))
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


def parse_size(text: str) -> "Size":
    """Particles and iterations from `64x3`.

    Raises:
        ConfigError: it has another form.
    """
    from hucrl_ros.benchmarks.results import Size

    particles, cross, iterations = text.partition("x")
    if not (cross and particles.isdecimal() and iterations.isdecimal()):
        raise ConfigError(f"--sizes {text}: expected PARTICLESxITERATIONS, e.g. 64x3")
    return Size(int(particles), int(iterations))


class Entry(NamedTuple):
    """A bundle that is played."""

    name: str
    bundle: "Bundle"
    task: "Task"


class Comparison(NamedTuple):
    """Which planners play which bundles, how long and how often."""

    entries: Sequence[Entry]
    planners: Sequence[str]
    """Keys of `COMPARED`."""
    sizes: "Sequence[Size]"
    budgets_ms: Sequence[float]
    """Times for planning in a tick [ms]; 0: no limit."""
    episodes: int
    seed: int
    settings: Mapping[str, Any]
    """Settings of all planners, with dotted keys."""

    def play(self) -> "Iterator[list[PlannerRow]]":
        """Rows of one bundle, planner, size and budget after another."""
        from hucrl_ros.benchmarks.results import Size

        for entry in self.entries:
            for planner in self.planners:
                plans = planner != "policy"
                for size in self.sizes if plans else [Size(1, 1)]:
                    for budget_ms in self.budgets_ms if plans else [0.0]:
                        yield self._play(entry, planner, size, budget_ms)

    def check(self) -> None:
        """Refuse what can't be played, before anything is.

        Raises:
            ConfigError: a setting is unknown or out of range.
        """
        for entry in self.entries:
            for planner in self.planners:
                for size in self.sizes:
                    self._bundle(entry, planner, size)

    def _play(
        self, entry: Entry, planner: str, size: "Size", budget_ms: float
    ) -> "list[PlannerRow]":
        from hucrl_ros.experiments.evaluation import evaluate

        bundle = self._bundle(entry, planner, size)
        budget_s = budget_ms / 1e3 if budget_ms else None
        played = evaluate(bundle, entry.task, self.episodes, self.seed, budget_s)
        return [
            _row(entry.name, planner, size, budget_ms, self.seed + k, episode)
            for k, episode in enumerate(played)
        ]

    def _bundle(self, entry: Entry, planner: str, size: "Size") -> "Bundle":
        """The entry's bundle with this planner; as many elites in proportion as it has."""
        from hucrl_ros.experiments.evaluation import with_settings

        if planner == "policy":
            return with_settings(entry.bundle, COMPARED["policy"])
        planned = entry.bundle.manifest.planner
        elites = max(round(planned.elites / planned.particles * size.particles), 1)
        changes = {
            "planner.particles": size.particles,
            "planner.iterations": size.iterations,
            "planner.elites": elites,
        }
        return with_settings(entry.bundle, {**changes, **COMPARED[planner], **self.settings})


def _row(
    bundle: str, planner: str, size: "Size", budget_ms: float, seed: int, episode: "Played"
) -> "PlannerRow":
    from hucrl_ros.benchmarks.results import PlannerRow

    p50, p99 = np.percentile(episode.tick_ms, [50, 99])
    return PlannerRow(
        bundle=bundle,
        planner=planner,
        particles=size.particles,
        iterations=size.iterations,
        budget_ms=budget_ms,
        seed=seed,
        return_=episode.total,
        tick_p50_ms=float(p50),
        tick_p99_ms=float(p99),
        done=float(episode.iterations.mean()),
        unplanned=float((episode.iterations == 0).mean()),
    )
