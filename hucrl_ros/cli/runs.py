"""`hucrl up` and `hucrl train`: a robot learns a task, through ROS 2 or in one process."""

import logging
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from hucrl_ros.cli import options
from hucrl_ros.cli.check import look_at, require_ros, robot_of, robots_domain
from hucrl_ros.errors import ConfigError, RunError

if TYPE_CHECKING:
    from hucrl_ros.run.folder import RunFolder
    from hucrl_ros.run.prepare import RunOptions
    from hucrl_ros.run.summary import EpisodeSummary

LISTEN = "127.0.0.1:8642"
"""As `run.remote.contract` has it, which takes pydantic to load."""
COLUMNS = (
    "episode",
    "return",
    "predicted",
    "p50 ms",
    "p99 ms",
    "clamps",
    "filtered",
    "outside",
    "fit s",
    "search s",
)
ROOMY = 0.5
"""Share of the control period that a tick may take before that is worth a word."""
_OWN_OPTIONS = ("episodes", "action_penalty", "strategy", "seed", "device")
"""Settings that have an option of their own."""


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
) -> None:
    """Teach a robot a task through ROS 2.

    Simulator, controller, watchdog, recorder, learner and supervisor start as processes of their
    own. Ctrl-C ends all of them.
    """
    from hucrl_ros.run.on_robot import random_efforts
    from hucrl_ros.run.session import wished_domain

    require_ros()
    mode = _mode(real_time, lockstep, no_simulator, like_hardware)
    listens = _listening(remote_learner, listen)
    wished = wished_domain(os.environ.get("ROS_DOMAIN_ID"))
    # Before a new run is made, but after what is wrong with one that goes on.
    if no_simulator and not resume:
        wished = _check_robot(_asked(ctx.params, mode=mode))
    run_folder = _new_or_continued_run(ctx.params, mode=mode)
    if no_simulator and not resume and run_folder.config.exploration.random_episodes:
        print(random_efforts(run_folder.config), flush=True)
    if not _is_finished(run_folder):
        if no_simulator and resume:
            run_folder.require_player(on_robot=True)
            wished = _check_robot(_asked(ctx.params, mode=mode))
        stopped_by = _play(run_folder, wished, not no_simulator, listens)
        if stopped_by is not None:
            raise typer.Exit(128 + stopped_by)
    drawn = not (no_figures or (remote_learner and find_spec("torch") is None))
    if not (drawn or no_figures):
        print("no figures and videos: they need torch, which isn't here")
    _finish(run_folder, drawn)


def _mode(real_time: bool, lockstep: bool, robot: bool, like_hardware: bool) -> str | None:
    """The mode that was asked for; None: as in the settings."""
    if robot and like_hardware:
        raise ConfigError(
            "--like-hardware: it is about the simulator, which --no-simulator leaves out; choose "
            "one"
        )
    if not lockstep:
        return "real_time" if real_time or robot or like_hardware else None
    if robot:
        raise ConfigError("--no-simulator: a robot doesn't wait; leave --lockstep out")
    if like_hardware:
        raise ConfigError("--like-hardware: hardware doesn't wait; leave --lockstep out")
    if real_time:
        raise ConfigError("--lockstep: not allowed with --real-time; choose one")
    return "lockstep"


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

    run_folder = _new_or_continued_run(ctx.params, prefix="train-")
    if not _is_finished(run_folder):
        print(shown_path(run_folder.root))
        _train(run_folder)
    _finish(run_folder, not no_figures)


def _asked(typed: Mapping[str, Any], prefix: str = "", mode: str | None = None) -> "RunOptions":
    """The run that was asked for.

    Without `--out` the name of a new one begins with `prefix`; mode None: as in the settings.
    """
    from hucrl_ros.run.prepare import RunOptions

    given = {"mode": mode, **{name: typed[name] for name in _OWN_OPTIONS}}
    settings = {name: value for name, value in given.items() if value is not None}
    return RunOptions(
        task=typed["task"],
        config=typed["config"],
        overrides={**settings, **options.parse_settings(typed["settings"])},
        out=typed["out"],
        resume=typed["resume"],
        prefix=prefix,
        like_hardware=typed.get("like_hardware", False),
        on_robot=typed.get("no_simulator", False),
        source=typed["source"],
        remote_learner=typed.get("remote_learner", False),
    )


def _new_or_continued_run(
    typed: Mapping[str, Any], prefix: str = "", mode: str | None = None
) -> "RunFolder":
    """The folder of the run that was asked for, see `_asked`."""
    from hucrl_ros.config.task_file import is_description
    from hucrl_ros.run.prepare import prepare_run

    wished = _asked(typed, prefix, mode)
    if is_description(wished.task) and not wished.resume:
        print(f"checking {wished.task}", flush=True)  # It takes seconds.
    return prepare_run(wished)


def _check_robot(asked: "RunOptions") -> int:
    """Look at the robot before anything is made or moved; returns its ROS domain.

    Raises:
        ConfigError: nothing limits where it may be.
        RunError: it can't be controlled; says what to change.
    """
    from hucrl_ros.doctor import Level
    from hucrl_ros.doctor.robot import refuse_faults
    from hucrl_ros.run.on_robot import require_limits

    robot = robot_of(asked)
    if not asked.resume:  # or it could never be gone on with, as a run keeps its settings
        require_limits(*robot)
    domain = robots_domain()
    print(f"listening to the robot  (ROS_DOMAIN_ID={domain})", flush=True)
    examined = look_at(robot, domain)
    refuse_faults(examined)
    for name, (level, found, advice) in examined.items():
        if level is Level.NOTE:
            print(f"! {name}: {found}: {advice}", flush=True)
    return domain


def _is_finished(run_folder: "RunFolder") -> bool:
    """Whether nothing is left to do: all episodes played, learned from and summarised."""
    from hucrl_ros.run.session import shown_path
    from hucrl_ros.run.summary import read_summary

    episodes = run_folder.config.episodes
    finished = (
        run_folder.finished_episodes() >= episodes
        and run_folder.bundle(episodes).is_dir()
        and run_folder.summary.is_file()
        and len(read_summary(run_folder.summary).episodes) >= episodes
    )
    if finished:
        print(f"{shown_path(run_folder.root)}: finished already")
    return finished


def _finish(run_folder: "RunFolder", figures: bool) -> None:
    """Draw figures and videos; say where files lie, and which bundle earned the best return.

    Where plans take longer than half of the period, that is said, too: a robot that doesn't wait
    needs the rest for everything else.
    """
    from hucrl_ros.controller.manifest import read_manifest
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
    ticks, period = summary.episodes[-1].tick_ms, read_manifest(run_folder.bundle(0)).period
    if ticks is not None and ticks.p50 > 1e3 * period * ROOMY:
        print(
            f"ticks    {ticks.p50:.1f} ms of the period's {1e3 * period:g} ms (median of the last "
            f"episode), more than half, and what exceeds a period is cut short in real time; "
            f"`hucrl tune {root}/bundles/bundle_{len(summary.episodes):03d} --headroom {ROOMY:g}` "
            "finds plans that fit"
        )
    best = max(summary.episodes, key=lambda e: (not e.cut, e.return_))
    optimum = "" if summary.optimum is None else f" of {summary.optimum:g} possible"
    player = "" if best.bundle is None else f", by {root}/{best.bundle}"
    print(f"best return {best.return_:.1f}{optimum}, in episode {best.index}{player}")


def _listening(remote_learner: bool, listen: str | None) -> str | None:
    """Where a learner on another machine is waited for; None: it runs here.

    Raises:
        ConfigError: `listen` is no address, or makes no sense.
    """
    from hucrl_ros.run.remote.server import parse_address

    if listen is not None:
        parse_address(listen)
        if not remote_learner:
            raise ConfigError("--listen: nobody is waited for without --remote-learner")
    return (listen or LISTEN) if remote_learner else None


def _announce(run_folder: "RunFolder", listen: str) -> None:
    """Say how the learner is started on its machine, and what the network may see."""
    from hucrl_ros.run.remote.server import is_loopback, learner_command
    from hucrl_ros.run.remote.token import made_token
    from hucrl_ros.run.session import shown_path

    made_token(run_folder.token)
    port = listen.rpartition(":")[2]
    print(f"the learner's machine needs the token in {shown_path(run_folder.token)}, in a file:")
    print(f"  scp ROBOT:{run_folder.token} robot.token")
    if is_loopback(listen):
        print(f"  ssh -N -L {port}:127.0.0.1:{port} ROBOT &")
    print(f"  {learner_command(listen)}", flush=True)
    if not is_loopback(listen):
        print(
            f"! {listen} can be reached from the network, and HTTP isn't encrypted: who reads "
            "along learns the token; without --listen the learner comes by an ssh tunnel",
            flush=True,
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
            _announce(run_folder, listen)
        return Session(run_folder, domain.number, simulated, listen).play()


def _train(run_folder: "RunFolder") -> None:
    print(_row(COLUMNS), flush=True)

    import torch  # With the learner it takes seconds, in which the person already sees something.

    from hucrl_ros.experiments.train import train as learn
    from hucrl_ros.run.session import resume_command

    torch.set_num_threads(1)  # Small networks: more threads only wait for each other.
    logging.basicConfig(format="%(message)s")
    logging.getLogger("hucrl_ros.models").setLevel(logging.INFO)  # Which model `auto` takes.
    try:
        learn(run_folder.config, run_folder, _report)
    except KeyboardInterrupt:
        print(f"stopped; continue with: {resume_command(run_folder, 'train')}")
        raise


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
    return " ".join(f"{cell:>9}" for cell in cells)
