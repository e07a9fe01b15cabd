"""What a person wants to know of a bundle before it moves a robot: its card."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hucrl_ros.config.schema import Config
from hucrl_ros.controller.manifest import Manifest
from hucrl_ros.errors import RunError
from hucrl_ros.experiments import card_sections as sections
from hucrl_ros.experiments.card_sections import Section, successes, transitions
from hucrl_ros.experiments.evaluation import Played, evaluate, open_bundle
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import Summary, read_summary
from hucrl_ros.tasks import Task


class Tile(NamedTuple):
    """A number to be read from afar."""

    value: str
    name: str


@dataclass(frozen=True)
class Card:
    """All that a card says."""

    title: str
    about: str
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
    summary: Summary | None
    """Of the run, up to the episode that the bundle was made for, and others that it played; None:
    there is nothing to draw."""
    random_episodes: int


def card_of(path: Path, starts: int, seed: int, described: Path | None = None) -> Card:
    """Check a bundle, play it, and collect what its run tells of it.

    Args:
        path: Its folder.
        starts: Episodes to play in simulation, from fresh starts; 0: none.
        seed: Of the first one; each further one adds one.
        described: YAML of its robot, where it has left the folder of its run.

    Raises:
        BundleError: it isn't what it says, or its signature isn't one.
        RunError: the summary of its run can't be read.
    """
    bundle, task = open_bundle(path, described)
    manifest, summary, config = bundle.manifest, *_run_of(path)
    played = evaluate(bundle, task, starts, seed) if starts else []
    if summary is not None:
        own = manifest.episode
        known = tuple(e for e in summary.episodes if e.index <= own or e.flown == own)
        summary = summary.model_copy(update={"episodes": known}) if known else None
    found = (
        sections.purpose(manifest, task),
        sections.data(manifest, summary),
        sections.curve(manifest, summary),
        sections.model(manifest),
        sections.starts(played, task, seed),
        sections.limits(manifest, task),
        sections.failures(manifest, summary),
        sections.settings(manifest, config),
        sections.origin(bundle),
    )
    return Card(
        title=f"{manifest.task}: {path.absolute().name}",
        about=task.described.task.about,
        tiles=tuple(_tiles(manifest, summary, played, task)),
        sections=tuple(section for section in found if section.rows or section.intro),
        summary=summary,
        random_episodes=config.exploration.random_episodes if config else 0,
    )


def _run_of(path: Path) -> tuple[Summary | None, Config | None]:
    """What the run says in whose folder the bundle lies; Nones where it lies elsewhere."""
    try:
        run = RunFolder.open(path.absolute().parent.parent)
    except RunError:
        return None, None
    return (read_summary(run.summary) if run.summary.is_file() else None), run.config


def _tiles(
    manifest: Manifest, summary: Summary | None, played: Sequence[Played], task: Task
) -> Iterator[Tile]:
    report = manifest.report
    if played and np.isfinite(task.success_distance):
        yield Tile(f"{successes(played, task)} of {len(played)}", "fresh starts reach the goal")
    elif played:
        mean = float(np.mean([episode.total for episode in played]))
        of = f" / {task.optimum:g}" if task.optimum else ""
        yield Tile(f"{mean:.1f}{of}", f"mean return of {len(played)} fresh starts")
    yield Tile(f"{transitions(manifest, summary) * manifest.period:.0f} s", "of movement")
    if report.model_error is not None:
        yield Tile(f"{report.model_error:.3g}", "model error, standard deviations")
    if report.coverage is not None:
        yield Tile(f"{report.coverage:.1%}", "of held-out changes within 2σ")
    whole = [e.return_ for e in summary.episodes if not e.cut] if summary else []
    if whole:
        yield Tile(f"{max(whole):.1f}", "best return of the run up to here")
