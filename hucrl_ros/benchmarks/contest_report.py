"""Table, page and data of a contest between planners."""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hucrl_ros.benchmarks.contest import POLICY, Contest, Row, Score, scores
from hucrl_ros.benchmarks.contest_figure import draw
from hucrl_ros.config.yaml_files import write_atomically
from hucrl_ros.experiments.statistics import Interval
from hucrl_ros.experiments.style import signed

COLUMNS = (
    "planner",
    "size",
    "budget ms",
    "return",
    "over the policy",
    "p50 ms",
    "p99 ms",
    "iterations",
    "no plan",
)
FEW_DECIMALS = 20.0
"""Returns from this size on are told apart by one decimal."""
WIDTHS = (16, 6, 9, 23, 23, 7, 7, 10, 7)


def text_table(found: Sequence[Score]) -> list[str]:
    """A header and a line for each score."""
    return [_text_line(COLUMNS), *(_text_line(_cells(score)) for score in found)]


def as_json(score: Score) -> dict[str, object]:
    """The numbers of a score; None where there is none."""
    return {
        "planner": score.planner,
        "particles": score.size.particles,
        "iterations": score.size.iterations,
        "budget_ms": score.budget_ms or None,
        "return": score.return_.mean,
        "return_low": score.return_.low,
        "return_high": score.return_.high,
        "gain": None if math.isnan(score.gain.mean) else score.gain.mean,
        "tick_p50_ms": score.tick_p50_ms,
        "tick_p99_ms": score.tick_p99_ms,
        "iterations_done": score.done,
        "unplanned": score.unplanned,
    }


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """Write every episode as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.rstrip("_") for field in Row._fields])
    for row in rows:
        writer.writerow([f"{x:.6g}" if isinstance(x, float) else x for x in row])
    write_atomically(path, text.getvalue())
    return path


class Page(NamedTuple):
    """What a folder of results says of how they were made."""

    contest: Contest
    command: str
    machine: str

    def write(self, folder: Path, rows: Sequence[Row]) -> list[Path]:
        """Write `episodes.csv`, `return_against_time.png` and `README.md`; returns them."""
        folder.mkdir(parents=True, exist_ok=True)
        task = self.contest.entries[0].task
        figure = folder / "return_against_time.png"
        files = [write_rows(folder / "episodes.csv", rows), draw(figure, rows, task)]
        page = folder / "README.md"
        write_atomically(page, self._text(rows))
        return [*files, page]

    def _text(self, rows: Sequence[Row]) -> str:
        contest = self.contest
        first = contest.entries[0]
        last_seed = contest.seed + contest.episodes - 1
        seeds = f"{contest.seed}" if contest.episodes == 1 else f"{contest.seed} to {last_seed}"
        lines = [
            f"# {first.task.name}: return against planning time",
            "",
            f"Made on {self.machine} by",
            "",
            f"    {self.command}",
            "",
            "Returns are those of the simulated robot, with seeds "
            f"{seeds} for each line; means with 95% bootstrap intervals (BCa). Size: particles x "
            "iterations in a tick. Times: medians over episodes of their p50 and p99. "
            "`episodes.csv` holds every episode.",
            "",
            "![Return against time](return_against_time.png)",
            "",
            _legend(contest),
            "",
        ]
        if len(contest.entries) > 1:
            lines += ["## All bundles", "", *_markdown_table(scores(rows)), ""]
        for entry in contest.entries:
            own = [row for row in rows if row.bundle == entry.name]
            manifest = entry.bundle.manifest
            lines += [
                f"## {entry.name}",
                "",
                f"{manifest.strategy}, action penalty {manifest.action_penalty:g}, seed "
                f"{manifest.seed}, bundle of episode {manifest.episode}, "
                f"{manifest.planner.horizon} steps of {1e3 * manifest.period:g} ms.",
                "",
                *_markdown_table(scores(own)),
                "",
            ]
        return "\n".join(lines)


def _legend(contest: Contest) -> str:
    """What the figure doesn't say itself."""
    fewest, *more = sorted({size.particles for size in contest.sizes})
    hollow = f"Filled: {fewest} particles; hollow: {' or '.join(map(str, more))}. " if more else ""
    return f"{hollow}Dotted: the optimum, where it is known. What is far below is left out."


def _markdown_table(found: Sequence[Score]) -> list[str]:
    header = [f"| {' | '.join(COLUMNS)} |", f"| {' | '.join(['---'] * len(COLUMNS))} |"]
    return header + [f"| {' | '.join(_cells(score))} |" for score in found]


def _cells(score: Score) -> tuple[str, ...]:
    policy = score.planner == POLICY
    return (
        score.planner,
        "" if policy else str(score.size),
        f"{score.budget_ms:g}" if score.budget_ms else "",
        _interval(score.return_),
        "" if policy else _interval(score.gain),
        f"{score.tick_p50_ms:.2f}",
        f"{score.tick_p99_ms:.2f}",
        f"{score.done:.1f}",
        f"{score.unplanned:.1%}" if score.unplanned else "",
    )


def _interval(interval: Interval) -> str:
    if math.isnan(interval.mean):
        return ""
    decimals = 1 if abs(interval.mean) >= FEW_DECIMALS else 2
    mean, low, high = (signed(number, decimals) for number in interval)
    return f"{mean} [{low}, {high}]"


def _text_line(cells: Sequence[str]) -> str:
    first, *others = cells
    padded = [f"{cell:>{width}}" for cell, width in zip(others, WIDTHS[1:], strict=True)]
    return f"{first:<{WIDTHS[0]}} " + " ".join(padded)
