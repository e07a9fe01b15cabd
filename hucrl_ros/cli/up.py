"""`hucrl up`: a robot learns a task through ROS 2, every node a process of its own."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from hucrl_ros.cli import options
from hucrl_ros.errors import ConfigError, RunError

if TYPE_CHECKING:
    from hucrl_ros.run.folder import RunFolder


def run(
    ctx: typer.Context,
    task: options.Task,
    config: options.ConfigFile = None,
    episodes: options.Episodes = None,
    action_penalty: options.Penalty = None,
    strategy: options.OneStrategy = None,
    seed: options.Seed = None,
    device: options.Device = None,
    out: options.RunFolderOption = None,
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
) -> None:
    """Teach a robot a task through ROS 2.

    Simulator, controller, watchdog, recorder, learner and supervisor start as processes of their
    own. Ctrl-C ends all of them.
    """
    from hucrl_ros.cli.run_arguments import finish, is_finished, new_or_continued_run
    from hucrl_ros.run.ros_domain import wished_domain

    _require_ros()
    if lockstep and (real_time or no_simulator):
        raise ConfigError(
            "--no-simulator: a robot doesn't wait; leave --lockstep out"
            if no_simulator
            else "--lockstep: not allowed with --real-time; choose one"
        )
    mode = "lockstep" if lockstep else "real_time" if real_time or no_simulator else None
    wished = wished_domain(os.environ.get("ROS_DOMAIN_ID"))
    run_folder = new_or_continued_run(ctx.params, mode=mode)
    if not is_finished(run_folder):
        stopped_by = _play(run_folder, wished, not no_simulator)
        if stopped_by is not None:
            raise typer.Exit(128 + stopped_by)
    finish(run_folder, not no_figures)


def _play(run_folder: "RunFolder", wished: int | None, simulated: bool) -> int | None:
    from hucrl_ros.run.ros_domain import Domain
    from hucrl_ros.run.session import Session, shown_path

    with Domain(wished) as domain:
        if wished not in (None, domain.number):
            print(f"ROS_DOMAIN_ID {wished} is another run's; this one uses {domain.number}")
        print(f"{shown_path(run_folder.root)}  (ROS_DOMAIN_ID={domain.number})", flush=True)
        return Session(run_folder, domain.number, simulated).play()


def _require_ros() -> None:
    """Say at once, in one line, what every node would say in its log.

    Raises:
        RunError: rclpy can't be imported.
    """
    from importlib.util import find_spec

    if find_spec("rclpy") is None:
        raise RunError(
            f"{sys.executable} has no rclpy: install requirements-ros.txt or source a ROS 2 "
            "installation; `hucrl train` learns without ROS"
        )
