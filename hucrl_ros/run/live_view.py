"""Shows a run to the person who watches: a live table, or lines where no terminal is."""

import sys
import time
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hucrl_ros.errors import LONGEST, shortened
from hucrl_ros.run.progress import (
    CONSTRAINED,
    Phase,
    Progress,
    constrained,
    describe_episode,
    describe_learning,
    describe_phase,
    format_number,
    format_ticks,
)
from hucrl_ros.run.summary import EpisodeSummary
from hucrl_ros.run.terminal import Terminal

MISSING_S = 10.0
"""[s] From one line about missing nodes to the next."""
SHOWN_NOTES = 5
"""Newest events below the live table."""
_BAR_WIDTH = 32
_HEADINGS = (
    "episode",
    "return",
    "predicted",
    "error",
    "p50 ms",
    "p99 ms",
    "misses",
    "fallbacks",
    "learn s",
)


class LiveView:
    """A table that is redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._live.start()
        self._progress: Progress | None = None

    def update(self, progress: Progress) -> None:
        """Redraw what the terminal has room for; called several times a second."""
        self._progress, console = progress, self._live.console
        # What is too long loses its end, where the newest episodes and events are.
        taken = len(console.render_lines(render(progress, shown=0)))
        self._live.update(render(progress, shown=max(console.height - taken, 1)), refresh=True)

    def close(self) -> None:
        """Stop redrawing; the last table stays, all of it."""
        if self._progress is not None:
            self._live.update(render(self._progress))
        self._live.stop()


class LineView:
    """One line for each phase and each finished episode, for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._seen: tuple[int, Phase] | None = None
        self._reported = self._noted = 0
        self._learned: set[int] = set()
        self._missed: tuple[float, str] = (time.monotonic(), "")
        """When it was last said which nodes are missing, and which."""

    def update(self, progress: Progress) -> None:
        """Write a line if the phase changed, or an episode was finished or learned from."""
        for episode in progress.finished[self._reported :]:
            self._write(describe_episode(episode))
        self._reported = len(progress.finished)
        for index in sorted(progress.model_errors.keys() - self._learned):
            self._write(describe_learning(progress, index))
        self._learned.update(progress.model_errors)
        for note in progress.notes[max(progress.earlier_notes, self._noted) :]:
            self._write(f"! {note}")
        self._noted = len(progress.notes)
        now = (progress.episode, progress.phase)
        if now != self._seen:
            self._seen = now
            self._write(describe_phase(progress))

        self._tell_missing(progress)

    def close(self) -> None:
        """Nothing is pending."""

    def _tell_missing(self, progress: Progress) -> None:
        """Name the nodes that are still missing, when that has taken a while."""
        since, named = self._missed
        missing = progress.detail if progress.phase is Phase.WAITING else ""
        if missing and missing != named and time.monotonic() - since > MISSING_S:
            self._missed = (time.monotonic(), missing)
            self._write(f"still waiting for: {missing}")

    def _write(self, line: str) -> None:
        self._stream.write(shortened(line, LONGEST) + "\n")
        self._stream.flush()


def make_view(stream: TextIO = sys.stdout) -> LiveView | LineView:
    """The live table on a terminal, plain lines elsewhere."""
    console = Terminal(stream)
    return LiveView(console) if console.is_terminal else LineView(stream)


def render(progress: Progress, shown: int | None = None) -> RenderableType:
    """The live table; `shown`: lines for finished episodes, the newest ones, None: for all."""
    notes = progress.notes[progress.earlier_notes :][-SHOWN_NOTES:]
    return Group(
        _headline(progress),
        _episode_bar(progress),
        Text(),
        _table(progress, shown),
        *(Text(f"! {note}", style="yellow") for note in notes),
    )


def _headline(progress: Progress) -> Table:
    config = progress.config
    minutes, seconds = divmod(int(time.monotonic() - progress.started), 60)
    row = Table.grid(expand=False, padding=(0, 2, 0, 0))
    optimum = "" if progress.optimum is None else f"optimum {progress.optimum:g}"
    row.add_row(
        Text(config.task, style="bold"),
        config.strategy,
        f"ρ = {config.action_penalty:g}",
        f"seed {config.seed}",
        config.mode.replace("_", " "),
        optimum,
        Text(f"{minutes:d}:{seconds:02d}", style="dim"),
    )
    return row


def _episode_bar(progress: Progress) -> Table:
    total = progress.config.episodes
    playing = progress.phase is Phase.RUNNING and progress.steps
    done = len(progress.finished) + (progress.step / progress.steps if playing else 0.0)
    row = Table.grid(expand=False, padding=(0, 2, 0, 0))
    style = {Phase.FINISHED: "green", Phase.STOPPED: "red"}.get(progress.phase, "cyan")
    detail = f" ({progress.detail})" if progress.detail else ""
    row.add_row(
        f"{min(progress.episode + 1, total)} of {total} episodes",
        ProgressBar(total=total, completed=min(done, total), width=_BAR_WIDTH),
        f"step {progress.step:>{len(str(progress.steps))}}/{progress.steps}" if playing else "",
        Text(progress.phase.value + detail, style=style),
    )
    return row


def _table(progress: Progress, shown: int | None) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    limited = any(episode.filtered is not None for episode in progress.finished)
    for heading in (*_HEADINGS, *(CONSTRAINED if limited else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    best, finished = progress.best_return, progress.finished
    if shown is not None and len(finished) > shown:
        finished = finished[len(finished) - max(shown - 1, 0) :]
        if shown:
            table.add_row("…")
    for episode in finished:
        style = "bold green" if episode.return_ == best else ""
        further = constrained(episode) if limited else ()
        table.add_row(*_finished_cells(episode, progress), *further, style=style)
    if progress.episode == len(progress.finished) < progress.config.episodes:
        table.add_row(*_present_cells(progress), style="cyan")
    return table


def _finished_cells(episode: EpisodeSummary, progress: Progress) -> Sequence[str]:
    learned = episode.fit_s is not None or episode.search_s is not None
    learning = (episode.fit_s or 0.0) + (episode.search_s or 0.0) if learned else None
    return (
        str(episode.index),
        format_number(episode.return_),
        format_number(episode.predicted_return),
        format_number(progress.model_errors.get(episode.index), 3),
        *format_ticks(episode),
        str(episode.misses or 0),
        str(episode.fallbacks or 0),
        format_number(learning),
    )


def _present_cells(progress: Progress) -> Sequence[str]:
    return (
        str(progress.episode),
        format_number(progress.return_so_far),
        format_number(progress.predicted_return),
        format_number(progress.model_error, 3),
        format_number(progress.tick_p50, 2),
        format_number(progress.tick_p99, 2),
        str(progress.misses),
        "",
        "",
    )
