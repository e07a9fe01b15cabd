"""Return on the true robot against planning time, planner by planner."""

import gc
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hucrl_ros.benchmarks import Output
from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    from hucrl_ros.benchmarks.contest import Contest, Entry, Row


def run(contest: "Contest", output: Output) -> None:
    """Print the table."""
    from hucrl_ros.benchmarks import contest_report as report  # torch
    from hucrl_ros.benchmarks.contest import scores

    contest.check()
    gc.collect()
    gc.freeze()  # What is loaded by now would be searched for garbage within a tick.
    rows = _play(contest, quiet=output.as_json)
    if output.as_json:
        print(json.dumps([report.as_json(score) for score in scores(rows)], indent=1))
    elif len(contest.entries) > 1:
        print("\nall bundles", *report.text_table(scores(rows)), sep="\n")
    if output.folder is not None:
        page = report.Page(contest, output.command, output.machine)
        print(*page.write(output.folder, rows), sep="\n")


def make_contest(
    bundles: Sequence[Path],
    planners: Sequence[str] | None,
    sizes: Sequence[str],
    budgets_ms: Sequence[float] | None,
    episodes: int,
    seed: int,
    settings: Mapping[str, Any],
) -> "Contest":
    """What was asked for.

    Args:
        bundles: Folders; `LABEL=FOLDER` names one.
        planners: Keys of `CONTESTANTS`; None: all.
        sizes: Particles x iterations in a tick.
        budgets_ms: Times for planning in a tick [ms]; None: no limit.
        episodes: How many of each.
        seed: Of the first episode.
        settings: Of all planners.

    Raises:
        HucrlError: it makes no sense.
    """
    from hucrl_ros.benchmarks.contest import CONTESTANTS, POLICY, Contest, parse_size

    names = list(CONTESTANTS) if planners is None else [POLICY, *planners]
    for name in names:
        if name not in CONTESTANTS:
            raise ConfigError(f"--planners {name}: unknown; known: {', '.join(CONTESTANTS)}")
    return Contest(
        entries=_open(bundles),
        planners=list(dict.fromkeys(names)),
        sizes=[parse_size(size) for size in sizes],
        budgets_ms=budgets_ms or [0.0],
        episodes=episodes,
        seed=seed,
        settings=settings,
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
