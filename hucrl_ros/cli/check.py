"""`hucrl check`: whether a robot's driver tells and takes what a run needs; nothing moves."""

import os
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

import typer

from hucrl_ros.cli import options
from hucrl_ros.errors import RunError

if TYPE_CHECKING:
    from hucrl_ros.doctor import Finding
    from hucrl_ros.run.prepare import RunOptions


def run(
    task: options.Task, config: options.ConfigFile = None, settings: options.Settings = None
) -> None:
    """Look at a robot's driver before anything moves.

    It listens for some seconds to joint states, looks for whoever takes commands and resets, and
    sends nothing. Exit code 0: a run can begin; 1: it can't, and a line says what to change.
    """
    from hucrl_ros.cli.doctor import print_findings
    from hucrl_ros.run.prepare import RunOptions

    require_ros()
    asked = RunOptions(task, config=config, overrides=options.parse_settings(settings))
    faults = print_findings(_listened(asked), "listening to the robot")
    if faults:
        raise typer.Exit(1)
    print("\na run can begin: hucrl up", task, "--no-simulator")


def _listened(asked: "RunOptions") -> "Iterator[tuple[str, Finding]]":
    yield from look_at(asked, robots_domain()).items()


def require_ros() -> None:
    """Say at once, in one line, what every node would say in its log.

    Raises:
        RunError: rclpy can't be imported.
    """
    if find_spec("rclpy") is None:
        raise RunError(
            f"{sys.executable} has no rclpy: install requirements-ros.txt or source a ROS 2 "
            "installation; `hucrl train` learns without ROS"
        )


def robots_domain() -> int:
    """The ROS domain of a robot: 0 unless ROS_DOMAIN_ID says another, as everywhere in ROS.

    Raises:
        ConfigError: it is no domain id.
    """
    from hucrl_ros.run.session import wished_domain

    return wished_domain(os.environ.get("ROS_DOMAIN_ID")) or 0


def look_at(asked: "RunOptions", domain: int) -> "Mapping[str, Finding]":
    """What is found of the robot that a run shall play.

    Raises:
        ConfigError: a setting or the robot's description is wrong.
        RunError: nobody could listen.
    """
    from hucrl_ros.doctor.evidence import listen
    from hucrl_ros.doctor.robot import judge
    from hucrl_ros.robots.resolve import describe  # MuJoCo takes a while
    from hucrl_ros.run.folder import RunFolder
    from hucrl_ros.run.prepare import asked_config

    if asked.resume and asked.out is not None:
        run = RunFolder.open(asked.out)
        config, described = run.config, describe(run.config.task, run.robot)
    else:
        config, described = asked_config(asked), describe(asked.task)
    discovery = "ROS_AUTOMATIC_DISCOVERY_RANGE"
    environment = {
        "ROS_DOMAIN_ID": str(domain),
        discovery: os.environ.get(discovery, "LOCALHOST"),
    }
    return judge(listen(described.robot, environment), described.robot, config)
