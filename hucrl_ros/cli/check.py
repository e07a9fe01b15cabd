"""`hucrl check`: whether a robot's driver tells and takes what a run needs."""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from hucrl_ros.cli import options
from hucrl_ros.errors import ConfigError, RunError

if TYPE_CHECKING:
    from hucrl_ros.doctor import Finding
    from hucrl_ros.run.asked import AskedRun, RunOptions


def run(
    task: options.Task,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
    move: Annotated[
        bool, Option("--move", help="then move each joint a little by tiny efforts, and measure")
    ] = False,
    effort_share: Annotated[
        float | None,
        Option(
            metavar="SHARE", min=0.001, max=1, help="of the effort limit, at first; usually 0.05"
        ),
    ] = None,
    effort_cap: Annotated[
        float | None,
        Option(
            metavar="SHARE", min=0.001, max=1, help="of the effort limit, at most; usually 0.2"
        ),
    ] = None,
    yes: Annotated[bool, Option("--yes", help="move without asking")] = False,
    write: Annotated[
        bool, Option("--write", help="put what was measured into the YAML without asking")
    ] = False,
) -> None:
    """Look at a robot's driver before anything moves.

    It listens for some seconds to joint states, looks for whoever takes commands and resets, and
    sends nothing. Exit code 0: a run can begin; 1: it can't, and a line says what to change.

    With --move it then asks, and has the robot move: sign and scale of each joint's effort,
    friction, dead time, the driver's timeout.
    """
    from hucrl_ros.cli.doctor import print_findings
    from hucrl_ros.cli.moving import check_consent, move_robot
    from hucrl_ros.config.robot import plural
    from hucrl_ros.config.task_file import is_description
    from hucrl_ros.run.asked import RunOptions

    require_ros()
    if not move and (yes or write or effort_share is not None or effort_cap is not None):
        raise ConfigError("--yes, --write, --effort-share and --effort-cap belong to --move")
    efforts = effort_share or 0.05, effort_cap or 0.2
    if efforts[0] > efforts[1]:
        raise ConfigError(f"--effort-share {efforts[0]:g}: at most --effort-cap {efforts[1]:g}")
    if move:
        check_consent(yes)
    asked = RunOptions(task, config=config, overrides=options.parse_settings(settings))
    robot = robot_of(asked)
    if move and robot.described.robot.command != "effort":
        raise ConfigError(
            f"--move: it sends efforts, and {task} takes {plural(robot.described.robot.command)}"
        )
    faults = print_findings(_listened(robot), "listening to the robot")
    if faults:
        if move:
            print("\nnothing was moved")
        raise typer.Exit(1)
    if move:
        path = config or (Path(asked.task) if is_description(asked.task) else None)
        if move_robot(robot, environment_of(robots_domain()), efforts, path, yes, write):
            raise typer.Exit(1)
    typed = ["--config", str(config)] if config else []
    typed += [word for setting in settings or () for word in ("--set", setting)]
    print("\na run can begin:", shlex.join(["hucrl", "up", task, *typed, "--no-simulator"]))


def _listened(robot: "AskedRun") -> "Iterator[tuple[str, Finding]]":
    from hucrl_ros.doctor.robot import judge_limits, judge_state

    yield from look_at(robot, robots_domain()).items()
    yield "state", judge_state(robot.described)
    yield "limits", judge_limits(*robot)


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


def look_at(asked: "AskedRun", domain: int) -> "Mapping[str, Finding]":
    """What is found of the robot that a run shall play.

    Raises:
        RunError: nobody could listen.
    """
    from hucrl_ros.doctor.evidence import listen
    from hucrl_ros.doctor.robot import judge, with_limits

    robot = with_limits(asked.described)
    return judge(listen(robot, environment_of(domain)), robot, asked.config)


def robot_of(asked: "RunOptions") -> "AskedRun":
    """Settings and complete description of the robot that a run shall play.

    Raises:
        ConfigError: one of them is wrong.
    """
    from hucrl_ros.robots.resolve import describe  # MuJoCo takes a while
    from hucrl_ros.run.asked import AskedRun, asked_config
    from hucrl_ros.run.folder import RunFolder

    if asked.resume and asked.out is not None:
        run = RunFolder.open(asked.out)
        return AskedRun(run.config, describe(run.config.task, run.robot))
    return AskedRun.of(asked_config(asked), describe(asked.task))


def environment_of(domain: int) -> Mapping[str, str]:
    """Variables of processes that shall meet a robot in a ROS domain."""
    discovery = "ROS_AUTOMATIC_DISCOVERY_RANGE"
    return {
        "ROS_DOMAIN_ID": str(domain),
        discovery: os.environ.get(discovery, "LOCALHOST"),
    }
