"""What a run is doing, for the person who watches: a live table, or lines without a terminal."""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hucrl_ros.config import Config
from hucrl_ros.summary import EpisodeSummary

REFRESHES_PER_SECOND = 4
_BAR_WIDTH = 36


class Phase(Enum):
    """What the run is doing."""

    WAITING = "waiting for the nodes"
    RESETTING = "resetting the robot"
    RUNNING = "running"
    FITTING = "fitting the model"
    SEARCHING = "searching policies"
    LOADING = "loading the bundle"
    FINISHED = "finished"
    STOPPED = "stopped"


@dataclass
class Progress:
    """The present state of a run; the supervisor changes it, a view draws it."""

    config: Config
    steps: int
    """Steps in an episode [1]."""
    optimum: float | None
    """Best achievable return, where it is known."""
    episode: int = 0
    """Number of the present episode, from 0."""
    step: int = 0
    """Ticks of the present episode so far [1]."""
    phase: Phase = Phase.WAITING
    detail: str = ""
    """What is waited for, or the share of the learning that is done."""
    return_so_far: float | None = None
    promised_return: float | None = None
    """Of the bundle that plays the present episode."""
    model_error: float | None = None
    """Held-out error of the newest model [standard deviations of the targets]."""
    tick_p50: float | None = None
    """Of the present episode [ms]."""
    tick_p99: float | None = None
    """Of the present episode [ms]."""
    misses: int = 0
    finished: list[EpisodeSummary] = field(default_factory=list)
    model_errors: dict[int, float] = field(default_factory=dict)
    """Model error after learning from an episode, by the episode's number."""
    started: float = field(default_factory=time.monotonic)

    @property
    def best_return(self) -> float | None:
        """Best return of the finished episodes."""
        return max((episode.return_ for episode in self.finished), default=None)


class View(ABC):
    """Shows a `Progress`."""

    @abstractmethod
    def update(self, progress: Progress) -> None:
        """Show the present state; called several times a second."""

    @abstractmethod
    def close(self) -> None:
        """Leave the terminal in order."""


class LiveView(View):
    """A table that is redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._live.start()

    def update(self, progress: Progress) -> None:
        """Redraw the table."""
        self._live.update(render(progress), refresh=True)

    def close(self) -> None:
        """Stop redrawing; the last table stays."""
        self._live.stop()


class LineView(View):
    """One line for each phase and each finished episode, for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._seen: tuple[int, Phase, str] | None = None
        self._reported = 0

    def update(self, progress: Progress) -> None:
        """Write a line if the phase changed or an episode was finished."""
        for episode in progress.finished[self._reported :]:
            self._write(describe_episode(episode, progress.model_errors.get(episode.index)))
        self._reported = len(progress.finished)
        waiting_for = progress.detail if progress.phase is Phase.WAITING else ""
        now = (progress.episode, progress.phase, waiting_for)
        if now != self._seen:
            self._seen = now
            self._write(describe_phase(progress))

    def close(self) -> None:
        """Nothing is pending."""

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


def make_view(stream: TextIO = sys.stdout) -> View:
    """The live table on a terminal, plain lines elsewhere."""
    console = Console(file=stream)
    return LiveView(console) if console.is_terminal else LineView(stream)


def describe_phase(progress: Progress) -> str:
    """One line: episode and phase."""
    detail = f" ({progress.detail})" if progress.detail else ""
    total = progress.config.episodes
    if progress.phase in (Phase.FINISHED, Phase.STOPPED):
        return f"{progress.phase.value} after {len(progress.finished)} of {total} episodes{detail}"
    number = f"episode {progress.episode} ({progress.episode + 1} of {total})"
    return f"{number}: {progress.phase.value}{detail}"


def describe_episode(episode: EpisodeSummary, model_error: float | None) -> str:
    """One line: what a finished episode brought."""
    p50, p99 = _tick_cells(episode)
    parts = [
        f"episode {episode.index}: return {_number(episode.return_)}",
        f"promised {_number(episode.promised_return)}",
        f"model error {_number(model_error, 3)}",
        f"tick p50 {p50} p99 {p99} ms",
        f"{episode.misses or 0} misses",
    ]
    return ", ".join(parts)


def render(progress: Progress) -> RenderableType:
    """The live table."""
    return Group(_headline(progress), _episode_bar(progress), Text(), _table(progress))


def _headline(progress: Progress) -> Table:
    config = progress.config
    minutes, seconds = divmod(int(time.monotonic() - progress.started), 60)
    row = Table.grid(expand=False, padding=(0, 2, 0, 0))
    row.add_row(
        Text(config.task, style="bold"),
        config.strategy,
        f"ρ = {config.action_penalty:g}",
        f"seed {config.seed}",
        config.mode.replace("_", " "),
        Text(f"{minutes:d}:{seconds:02d}", style="dim"),
    )
    return row


def _episode_bar(progress: Progress) -> Table:
    total = progress.config.episodes
    done = len(progress.finished) + (progress.step / progress.steps) * (
        progress.phase is Phase.RUNNING
    )
    row = Table.grid(expand=False, padding=(0, 2, 0, 0))
    style = {Phase.FINISHED: "green", Phase.STOPPED: "red"}.get(progress.phase, "cyan")
    detail = f" ({progress.detail})" if progress.detail else ""
    row.add_row(
        f"{min(progress.episode + 1, total)} of {total} episodes",
        ProgressBar(total=total, completed=min(done, total), width=_BAR_WIDTH),
        f"step {progress.step:>{len(str(progress.steps))}}/{progress.steps}",
        Text(progress.phase.value + detail, style=style),
    )
    return row


def _table(progress: Progress) -> Table:
    known = progress.optimum is not None
    title = f"return (optimum {progress.optimum:g})" if known else "return"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("episode", title, "promised", "model error", "tick p50", "p99 [ms]"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("misses", "fallbacks", "learning [s]"):
        table.add_column(heading, justify="right", no_wrap=True)
    best = progress.best_return
    for episode in progress.finished:
        style = "bold green" if episode.return_ == best else ""
        table.add_row(*_finished_cells(episode, progress), style=style)
    if len(progress.finished) < progress.config.episodes:
        table.add_row(*_present_cells(progress), style="cyan")
    return table


def _finished_cells(episode: EpisodeSummary, progress: Progress) -> Sequence[str]:
    learned = episode.fit_s is not None or episode.search_s is not None
    learning = (episode.fit_s or 0.0) + (episode.search_s or 0.0) if learned else None
    return (
        str(episode.index),
        _number(episode.return_),
        _number(episode.promised_return),
        _number(progress.model_errors.get(episode.index), 3),
        *_tick_cells(episode),
        str(episode.misses or 0),
        str(episode.fallbacks or 0),
        _number(learning),
    )


def _present_cells(progress: Progress) -> Sequence[str]:
    return (
        str(progress.episode),
        _number(progress.return_so_far),
        _number(progress.promised_return),
        _number(progress.model_error, 3),
        _number(progress.tick_p50, 2),
        _number(progress.tick_p99, 2),
        str(progress.misses),
        "",
        "",
    )


def _tick_cells(episode: EpisodeSummary) -> tuple[str, str]:
    ticks = episode.tick_ms
    if ticks is None:
        return _number(None), _number(None)
    return _number(ticks.p50, 2), _number(ticks.p99, 2)


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
