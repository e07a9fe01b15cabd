"""`hucrl up`: a robot learns a task through ROS 2, every node a process of its own."""

import argparse
import os
import sys

from hucrl_ros.cli.run_arguments import (
    add_run_arguments,
    draw_report,
    is_finished,
    new_or_continued_run,
    print_end,
)
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.ros_domain import Domain, wished_domain
from hucrl_ros.run.session import Session, shown_path
from hucrl_ros.run.summary import read_summary


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `hucrl up` to the commands."""
    parser = subparsers.add_parser(
        "up",
        help="teach a robot a task through ROS 2",
        description="Start simulator, controller, watchdog, recorder, learner and supervisor as "
        "processes of their own, and teach the robot. Ctrl-C ends all of them.",
    )
    add_run_arguments(parser)
    mode = parser.add_mutually_exclusive_group()
    for name, text in (("real_time", "physics never waits"), ("lockstep", "physics waits")):
        flag = "--" + name.replace("_", "-")
        mode.add_argument(flag, action="store_const", const=name, dest="mode", help=text)
    parser.add_argument(
        "--no-simulator",
        action="store_true",
        help="a robot stands in its place, in real time: it publishes joint states, takes "
        "commands and answers simulator/reset (docs/your_robot.md)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    _require_ros()
    if args.no_simulator:
        if args.mode == "lockstep":
            raise ConfigError("--no-simulator: a robot doesn't wait; leave --lockstep out")
        args.mode = "real_time"
    wished = wished_domain(os.environ.get("ROS_DOMAIN_ID"))
    run_folder = new_or_continued_run(args)
    if is_finished(run_folder):
        print(f"{shown_path(run_folder.root)}: finished already")
    else:
        stopped_by = _play(run_folder, wished, not args.no_simulator)
        if stopped_by is not None:
            return 128 + stopped_by
    if not args.no_figures:
        draw_report(run_folder)
    print_end(run_folder, read_summary(run_folder.summary))
    return 0


def _play(run_folder: RunFolder, wished: int | None, simulated: bool) -> int | None:
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
