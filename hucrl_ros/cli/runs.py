"""`hucrl up` and `hucrl train`: a robot learns a task, through ROS 2 or in one process."""

import logging
import shlex
import signal
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from hucrl_ros.cli import options
from hucrl_ros.cli.asked import LISTEN, announce, is_finished, new_or_continued_run, prepared_run
from hucrl_ros.cli.watch import page_beside
from hucrl_ros.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hucrl_ros.config.schema import ExplorationSettings
    from hucrl_ros.run.folder import RunFolder
    from hucrl_ros.run.summary import EpisodeSummary

COLUMNS = (
    "episode",
    " return",
    "predicted",
    "p50 ms",
    "p99 ms",
    "clamps",
    "filtered",
    "outside",
    "fit s",
    "search s",
)
NARROWEST = 6
"""Of a column: ten of them then fit into 80 characters."""
ROOMY = 0.5
"""Share of the control period that a tick may take before that is worth a word."""


def up(
    ctx: typer.Context,
    task: options.Task,
    config: options.ConfigFile = None,
    episodes: options.Episodes = None,
    action_penalty: options.Penalty = None,
    strategy: options.OneStrategy = None,
    seed: options.Seed = None,
    device: options.Device = None,
    out: options.RunFolderOption = None,
    source: options.FromRun = None,
    settings: options.Settings = None,
    no_figures: options.NoFigures = False,
    resume: options.Resume = False,
    real_time: Annotated[
        bool, Option("--real-time", help="physics never waits; not with --lockstep")
    ] = False,
    lockstep: Annotated[bool, Option("--lockstep", help="physics waits")] = False,
    no_simulator: Annotated[
        bool,
        Option(
            "--no-simulator",
            help="a robot stands in its place, in real time: it publishes joint states, takes "
            "commands and answers simulator/reset (docs/hardware.md)",
        ),
    ] = False,
    like_hardware: Annotated[
        bool,
        Option(
            "--like-hardware",
            help="a simulator with the habits of a cheap robot, in real time: those in "
            "config/like_hardware.yaml",
        ),
    ] = False,
    remote_learner: Annotated[
        bool,
        Option("--remote-learner", help="wait for `hucrl learner` on another machine, over HTTP"),
    ] = False,
    listen: Annotated[
        str | None,
        Option(metavar="HOST:PORT", help=f"where it is waited for; default: {LISTEN}"),
    ] = None,
    watch: Annotated[
        bool, Option("--watch", help="with a live page in the browser, as of `hucrl watch`")
    ] = False,
) -> None:
    """Teach a robot a task through ROS 2.

    Simulator, controller, watchdog, recorder, learner and supervisor start as processes of their
    own. Ctrl-C ends all of them.
    """
    from hucrl_ros.run.session import resume_command

    run_folder, finished, domain, listens = prepared_run(ctx.params)
    if not finished:
        log = run_folder.logs / "page.log"
        with page_beside(run_folder.root, log) if watch else nullcontext():
            stopped_by = _play(run_folder, domain, not no_simulator, listens)
        if stopped_by is not None:
            if stopped_by == signal.SIGINT:  # somebody who is there to read it
                print(f"continue with: {resume_command(run_folder, listen=listens)}")
            raise typer.Exit(128 + stopped_by)
    drawn = not (no_figures or (remote_learner and find_spec("torch") is None))
    if not (drawn or no_figures):
        print("no figures and videos: they need torch, which isn't here")
    _finish(run_folder, drawn)


def train(
    ctx: typer.Context,
    task: options.Task,
    config: options.ConfigFile = None,
    episodes: options.Episodes = None,
    action_penalty: options.Penalty = None,
    strategy: options.OneStrategy = None,
    seed: options.Seed = None,
    device: options.Device = None,
    out: options.RunFolderOption = None,
    source: options.FromRun = None,
    settings: options.Settings = None,
    no_figures: options.NoFigures = False,
    resume: options.Resume = False,
) -> None:
    """Teach a robot a task in one process, without ROS.

    It learns as with `hucrl up`. Physics waits for every command, whatever the mode in the
    settings.
    """
    from hucrl_ros.run.session import shown_path

    run_folder = new_or_continued_run(ctx.params, prefix="train-")
    if not is_finished(run_folder):
        print(shown_path(run_folder.root), flush=True)
        _train(run_folder)
    _finish(run_folder, not no_figures)


def _finish(run_folder: "RunFolder", figures: bool) -> None:
    """Draw figures and videos; say where files lie, and which bundles earned most.

    The best return may have been luck, so the steadiest bundle is named where it is another one.

    Where plans take longer than half of the period, or most weren't ready in time, that is said,
    too: a robot that doesn't wait needs the rest for everything else. So is what ends it that the
    safety filter changes most actions of an episode.
    """
    from hucrl_ros.controller.manifest import read_manifest
    from hucrl_ros.robots.joint_limits import loose_limits
    from hucrl_ros.robots.resolve import describe
    from hucrl_ros.run.flights import origin_of, steadiest
    from hucrl_ros.run.progress import format_number
    from hucrl_ros.run.session import shown_path
    from hucrl_ros.run.summary import read_summary

    if figures:
        from hucrl_ros.experiments.report import make_report  # matplotlib takes a second

        print("drawing figures and videos", flush=True)
        make_report(run_folder)
    summary = read_summary(run_folder.summary)
    root = shown_path(run_folder.root)
    places = {
        "bags": run_folder.episodes,
        "bundles": run_folder.bundles,
        "figures": run_folder.figures,
        "videos": run_folder.videos,
        "summary": run_folder.summary,
    }
    for name, path in places.items():
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            print(f"{name:<8} {root}/{path.relative_to(run_folder.root)}")
    newest = run_folder.bundle(len(summary.episodes))
    last, period = summary.episodes[-1], read_manifest(run_folder.bundle(0)).period
    ticks, unready = last.tick_ms, 2 * (last.fallbacks or 0) > last.steps
    if ticks is not None and (unready or ticks.p50 > 1e3 * period * ROOMY):
        slow = "more than half, and what exceeds a period is cut short in real time"
        print(
            f"ticks    {ticks.p50:.1f} ms of the period's {1e3 * period:g} ms (median of the last "
            f"episode), {'and most plans were not ready in time' if unready else slow}; "
            f"`hucrl tune {shlex.quote(shown_path(newest))} --headroom {ROOMY:g}` finds plans "
            "that fit"
        )
    exploration, task = run_folder.config.exploration, run_folder.config.task
    loose = loose_limits(describe(task, run_folder.robot))
    if held := _held_back(summary.episodes, exploration, loose):
        print(f"filter   {held}")
    best = max(summary.episodes, key=lambda e: (not e.cut, e.return_))
    steady = steadiest(run_folder, summary)
    # A copy that flew again has a number of its own.
    there = run_folder.bundle(best.flown).is_dir()
    flew = origin_of(run_folder, best.flown) if there else best.flown
    if steady is not None and steady.bundle != flew:
        print(
            f"steady   {root}/bundles/bundle_{steady.bundle:03d}, which earned "
            f"{steady.earned:.1f} on average, and {steady.judged:.1f} on a model that it never saw"
        )
    if not exploration.validation_episodes and newest.is_dir():
        print(
            f"newest   {shown_path(newest)}, which has learned from all episodes, and has played "
            "none; where each has another goal a best return says little; `hucrl teach "
            f"{shlex.quote(root)} --out DIR` learns once more from them, without exploring"
        )
    optimum = "" if summary.optimum is None else f" of {summary.optimum:g} possible"
    player = "" if best.bundle is None else f", by {root}/{best.bundle}"
    if best.flown < exploration.random_episodes:
        player = ", by random efforts"
    print(f"best return {format_number(best.return_)}{optimum}, in episode {best.index}{player}")


def _held_back(
    episodes: "Sequence[EpisodeSummary]", exploration: "ExplorationSettings", loose: str = ""
) -> str | None:
    """In which episode the filter changed most actions, if more than half, why, and what helps.

    `loose`: what `loose_limits` says of the robot.
    """
    from hucrl_ros.run.summary import STOPPABLE

    def reason(episode: "EpisodeSummary") -> str:
        counts = episode.filtered or {"": 0}
        return max(counts, key=lambda name: counts[name])

    priced = exploration.outside_penalty > 0
    told = [
        e
        for e in episodes
        if reason(e) == STOPPABLE
        # While a model has seen little, much is changed of any robot.
        or (e.index >= exploration.random_episodes and (not priced or e is episodes[-1]))
    ]
    held = max(told, key=lambda e: e.changed / max(e.steps, 1), default=None)
    if held is None or 2 * held.changed <= held.steps:
        return None
    most = reason(held)
    if priced:
        advice = (
            "little can be proved, as the model has seen too little or joints are light for their "
            "motors: more episodes help, or demonstrations (`hucrl learn`, then `--from`), or "
            "smaller robot.effort_limits"
        )
    else:
        advice = (
            "at the limit because plans believe that being outside pays, or far from it as "
            "nothing can be proved of so light joints: against the former helps a new run with "
            "`--set exploration.outside_penalty=0.5`, against the latter smaller "
            "robot.effort_limits"
        )
    if most == STOPPABLE:
        advice = (
            "light joints with strong motors: smaller robot.effort_limits, a shorter period or "
            "the rotors' inertia in the model help; `hucrl inspect ROBOT.yaml` has the numbers"
        )
    unmoved, _, reason_and_help = loose.partition(": ")
    if most.partition(" (")[0] in unmoved.split(", "):
        advice = reason_and_help
    return (
        f"changed {held.changed} of {held.steps} actions of episode {held.index}, "
        f"{(held.filtered or {})[most]} for {most!r}: {advice}"
    )


def _play(
    run_folder: "RunFolder", wished: int | None, simulated: bool, listen: str | None
) -> int | None:
    from hucrl_ros.run.session import Domain, Session, shown_path

    with Domain(wished) as domain:
        if wished not in (None, domain.number) and not simulated:
            raise RunError(f"ROS_DOMAIN_ID {wished}, the robot's, is another run's; end that one")
        if wished not in (None, domain.number):
            print(f"ROS_DOMAIN_ID {wished} is another run's; this one uses {domain.number}")
        print(f"{shown_path(run_folder.root)}  (ROS_DOMAIN_ID={domain.number})", flush=True)
        if listen is not None:
            announce(run_folder, listen)
        return Session(run_folder, domain.number, simulated, listen).play()


def _train(run_folder: "RunFolder") -> None:
    import torch  # With the learner it takes seconds, in which the person already sees something.

    from hucrl_ros.experiments.train import train as learn
    from hucrl_ros.run.session import resume_command

    torch.set_num_threads(1)  # Small networks: more threads only wait for each other.
    header = [_row(COLUMNS)]

    def report(episode: "EpisodeSummary") -> None:
        while header:  # Above the first row, below what the learner says when it begins.
            print(header.pop())
        _report(episode)

    try:
        with _logged(run_folder.logs / "train.log"):
            learn(run_folder.config, run_folder, report)
    except KeyboardInterrupt:
        print(f"stopped; continue with: {resume_command(run_folder, 'train')}")
        raise


@contextmanager
def _logged(path: "Path") -> "Iterator[None]":
    """Warnings, and which model `auto` takes, for the person; all there is to tell in a file."""
    terminal = logging.StreamHandler()
    terminal.addFilter(lambda line: line.levelno > logging.INFO or ".models" in line.name)
    logging.basicConfig(format="%(message)s", handlers=[terminal])
    path.parent.mkdir(exist_ok=True)
    logger, file = logging.getLogger("hucrl_ros"), logging.FileHandler(path)
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(file)
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(file)
        file.close()


def _report(episode: "EpisodeSummary") -> None:
    from hucrl_ros.run.progress import constrained, format_number, format_ticks

    cells = (
        str(episode.index),
        format_number(episode.return_),
        format_number(episode.predicted_return),
        *format_ticks(episode),
        str(episode.clamps),
        *constrained(episode),
        format_number(episode.fit_s),
        format_number(episode.search_s),
    )
    print(_row(cells), flush=True)


def _row(cells: tuple[str, ...]) -> str:
    widths = (max(len(name), NARROWEST) for name in COLUMNS)
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
