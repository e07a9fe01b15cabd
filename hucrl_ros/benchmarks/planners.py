"""Return on the true robot against planning time, planner by planner."""

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hucrl_ros.benchmarks import Output, report
from hucrl_ros.benchmarks.results import POLICY, PlannerRow, Size, planner_scores
from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.evaluation import Played, evaluate, open_bundle, with_settings
from hucrl_ros.tasks import Task

COMPARED: dict[str, Mapping[str, Any]] = {
    POLICY: {"planner.algorithm": "policy"},
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


def run(comparison: "Comparison", output: Output) -> None:
    """Print the table."""
    comparison.check()
    gc.collect()
    gc.freeze()  # What is loaded by now would be searched for garbage within a tick.
    rows: list[PlannerRow] = []
    for group in comparison.play():
        same = [row for row in rows if row.bundle == group[0].bundle]
        if not same:
            output.say(f"\n{group[0].bundle}", report.PLANNERS.header)
        output.say(report.PLANNERS.line(planner_scores([*same, *group])[-1]))
        rows += group
    scores, entries = planner_scores(rows), comparison.entries
    if len(entries) > 1:
        output.say("\nall bundles", *report.PLANNERS.text(scores))
    manifests = {entry.name: entry.bundle.manifest for entry in entries}
    tasks = {entry.name: entry.task for entry in entries}
    report.finish(
        output,
        scores,
        lambda folder: report.write_planners(folder, rows, output, tasks, manifests),
    )


def make_comparison(
    bundles: Sequence[Path],
    planners: Sequence[str] | None,
    sizes: Sequence[str],
    budgets_ms: Sequence[float] | None,
    episodes: int,
    seed: int,
    settings: Mapping[str, Any],
) -> "Comparison":
    """The comparison that was asked for; None: all planners, and no limit of the time.

    Raises:
        HucrlError: it makes no sense.
    """
    names = list(COMPARED) if planners is None else [POLICY, *planners]
    for name in names:
        if name not in COMPARED:
            raise ConfigError(f"--planners {name}: unknown; known: {', '.join(COMPARED)}")
    told_apart = {"planner.particles", "planner.iterations"}.union(*(COMPARED[n] for n in names))
    for key in settings:
        if key in told_apart:
            raise ConfigError(
                f"--set {key}: the comparison gives it values itself, by --planners and --sizes"
            )
    return Comparison(
        entries=open_entries(bundles),
        planners=list(dict.fromkeys(names)),
        sizes=list(dict.fromkeys(map(parse_size, sizes))),
        budgets_ms=list(dict.fromkeys(budgets_ms or [0.0])),
        episodes=episodes,
        seed=seed,
        settings=settings,
    )


def open_entries(arguments: Sequence[Path]) -> "list[Entry]":
    """Bundles of one task, with different labels.

    Raises:
        HucrlError: they aren't.
    """
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


def parse_size(text: str) -> Size:
    """Particles and iterations from `64x3`.

    Raises:
        ConfigError: it has another form.
    """
    particles, cross, iterations = text.partition("x")
    if not (cross and particles.isdecimal() and iterations.isdecimal()):
        raise ConfigError(f"--sizes {text}: expected PARTICLESxITERATIONS, e.g. 64x3")
    return Size(int(particles), int(iterations))


class Entry(NamedTuple):
    """A bundle that is played."""

    name: str
    bundle: Bundle
    task: Task


class Comparison(NamedTuple):
    """Which planners play which bundles, how long and how often."""

    entries: Sequence[Entry]
    planners: Sequence[str]
    """Keys of `COMPARED`."""
    sizes: Sequence[Size]
    budgets_ms: Sequence[float]
    """Times for planning in a tick [ms]; 0: no limit."""
    episodes: int
    seed: int
    settings: Mapping[str, Any]
    """Settings of all planners, with dotted keys."""

    def play(self) -> Iterator[list[PlannerRow]]:
        """Rows of one bundle, planner, size and budget after another."""
        for entry in self.entries:
            for planner in self.planners:
                plans = planner != POLICY
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

    def _play(self, entry: Entry, planner: str, size: Size, budget_ms: float) -> list[PlannerRow]:
        bundle = self._bundle(entry, planner, size)
        budget_s = budget_ms / 1e3 if budget_ms else None
        played = evaluate(bundle, entry.task, self.episodes, self.seed, budget_s)
        return [
            _row(entry.name, planner, size, budget_ms, self.seed + k, episode)
            for k, episode in enumerate(played)
        ]

    def _bundle(self, entry: Entry, planner: str, size: Size) -> Bundle:
        """The entry's bundle with this planner; as many elites in proportion as it has."""
        if planner == POLICY:
            return with_settings(entry.bundle, COMPARED[POLICY])
        planned = entry.bundle.manifest.planner
        elites = max(round(planned.elites / planned.particles * size.particles), 1)
        changes = {
            "planner.particles": size.particles,
            "planner.iterations": size.iterations,
            "planner.elites": elites,
        }
        return with_settings(entry.bundle, {**changes, **COMPARED[planner], **self.settings})


def _row(
    bundle: str, planner: str, size: Size, budget_ms: float, seed: int, episode: Played
) -> PlannerRow:
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
