"""What `hucrl up`, `hucrl train` and `learn.launch.py` are asked for by their options."""

import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hucrl_ros.cli import options
from hucrl_ros.cli.check import look_at, require_ros, robot_of, robots_domain
from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    from hucrl_ros.run.asked import RunOptions
    from hucrl_ros.run.folder import RunFolder

LISTEN = "127.0.0.1:8642"
"""As `run.remote.contract` has it, which takes pydantic to load."""
_OWN_OPTIONS = ("episodes", "action_penalty", "strategy", "seed", "device")
"""Settings that have an option of their own."""


class Prepared(NamedTuple):
    """A run that can be played through ROS 2."""

    run: "RunFolder"
    finished: bool
    """Nothing is left to play."""
    domain: int | None
    """ROS domain to play it in; None: any."""
    listen: str | None
    """Where a learner on another machine is waited for; None: it runs here."""


def prepared_run(typed: Mapping[str, Any]) -> Prepared:
    """Make or open a run's folder, once the robot, where there is one, was looked at.

    Args:
        typed: Every option of `hucrl up` by its name there.

    Raises:
        HucrlError: options, settings, robot or folder don't allow it; one line says why.
    """
    from hucrl_ros.run.on_robot import random_efforts
    from hucrl_ros.run.session import wished_domain

    require_ros()
    on_robot = typed["no_simulator"]
    mode = _mode(typed["real_time"], typed["lockstep"], on_robot, typed["like_hardware"])
    listen = _listening(typed["remote_learner"], typed["listen"])
    domain = wished_domain(os.environ.get("ROS_DOMAIN_ID"))
    # Before a new run is made, but after what is wrong with one that goes on.
    if on_robot and not typed["resume"]:
        domain = _check_robot(_asked(typed, mode=mode))
    run = new_or_continued_run(typed, mode=mode)
    if on_robot and not typed["resume"] and run.config.exploration.random_episodes:
        print(random_efforts(run.config), flush=True)
    finished = is_finished(run)
    if on_robot and typed["resume"] and not finished:
        run.require_player(on_robot=True)
        domain = _check_robot(_asked(typed, mode=mode))
    return Prepared(run, finished, domain, listen)


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


def _asked(typed: Mapping[str, Any], prefix: str = "", mode: str | None = None) -> "RunOptions":
    """The run that was asked for.

    Without `--out` the name of a new one begins with `prefix`; mode None: as in the settings.
    """
    from hucrl_ros.run.asked import RunOptions

    given = {"mode": mode, **{name: typed[name] for name in _OWN_OPTIONS}}
    return RunOptions(
        task=typed["task"],
        config=typed["config"],
        overrides=options.parse_settings(typed["settings"], given),
        out=typed["out"],
        resume=typed["resume"],
        prefix=prefix,
        like_hardware=typed.get("like_hardware", False),
        on_robot=typed.get("no_simulator", False),
        source=typed["source"],
        remote_learner=typed.get("remote_learner", False),
    )


def new_or_continued_run(
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


def is_finished(run_folder: "RunFolder") -> bool:
    """Whether nothing is left to do: all episodes played, learned from and summarised."""
    from hucrl_ros.run.session import shown_path
    from hucrl_ros.run.summary import read_summary
    from hucrl_ros.run.summary_writer import catch_up

    episodes = run_folder.config.episodes
    finished = (
        run_folder.finished_episodes() >= episodes
        and run_folder.bundle(episodes).is_dir()
        and run_folder.summary.is_file()
        and len(read_summary(run_folder.summary).episodes) >= episodes
    )
    if finished:
        catch_up(run_folder)
        print(f"{shown_path(run_folder.root)}: finished already")
    return finished


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


def announce(run_folder: "RunFolder", listen: str) -> None:
    """Say how the learner is started on its machine, and what the network may see."""
    from hucrl_ros.run.remote.server import is_loopback, learner_command
    from hucrl_ros.run.remote.token import made_token
    from hucrl_ros.run.session import shown_path

    made_token(run_folder.token)
    port = listen.rpartition(":")[2]
    print(f"the learner's machine needs the token in {shown_path(run_folder.token)}, in a file:")
    print(f"  scp {shlex.quote(f'ROBOT:{run_folder.token}')} robot.token")
    if is_loopback(listen):
        print(f"  ssh -N -L {port}:127.0.0.1:{port} ROBOT &")
    print(f"  {learner_command(listen)}", flush=True)
    if not is_loopback(listen):
        print(
            f"! {listen} can be reached from the network, and HTTP isn't encrypted: who reads "
            "along learns the token; without --listen the learner comes by an ssh tunnel",
            flush=True,
        )
