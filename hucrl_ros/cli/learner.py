"""`hucrl learner`: learns for a robot on another machine."""

import logging
import os
import re
import sys
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from hucrl_ros.cli import options
from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    from hucrl_ros.run.remote.client import RobotClient


def run(
    robot: Annotated[
        str,
        Option(metavar="http://HOST:PORT", help="what `hucrl up --remote-learner` printed there"),
    ],
    token_file: Annotated[
        Path | None,
        Option(metavar="FILE", help="its token, in a file that nobody else can read"),
    ] = None,
    out: options.RunFolderOption = None,
    device: options.Device = None,
) -> None:
    """Learn for a robot on another machine.

    It fetches the run's settings and episodes, learns after each, and sends the bundles, until
    the run is finished. Stopped, killed or cut off, it goes on where it was. Without --token-file
    the token is taken from the environment variable HUCRL_TOKEN, or asked for.
    """
    import torch

    from hucrl_ros.learning.remote import RemoteLearner
    from hucrl_ros.run.remote.client import RobotClient
    from hucrl_ros.run.remote.mirror import Mirror
    from hucrl_ros.run.session import shown_path

    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    logging.getLogger("hucrl_ros").setLevel(logging.INFO)
    torch.set_num_threads(1)  # Small networks: more threads only wait for each other.
    client = RobotClient(robot, _token(token_file))
    mirror = Mirror(client, out or _folder(client))
    print(f"{shown_path(mirror.run.root)}: learning for {client.url}", flush=True)
    with mirror.run.locked(on_robot=True):
        RemoteLearner(client, mirror, device).serve()
    print(f"{shown_path(mirror.run.root)}: finished")


def _token(file: Path | None) -> str:
    """The token that the robot's side printed the place of.

    Raises:
        ConfigError: there is none.
    """
    from hucrl_ros.run.remote.token import VARIABLE, checked_token, read_token

    if file is not None:
        return read_token(file)
    if text := os.environ.get(VARIABLE, ""):
        return checked_token(text, VARIABLE)
    if sys.stdin.isatty():
        return checked_token(getpass("token: "), "the terminal")
    raise ConfigError(f"--token-file: give the robot's token in a file, or in {VARIABLE}")


def _folder(client: "RobotClient") -> Path:
    """Where the copy of a run goes: by its name at the robot, which has to be asked for."""
    from hucrl_ros.learning.remote import wait_for_name
    from hucrl_ros.run.prepare import RUNS

    return RUNS / f"learner-{re.sub('[^A-Za-z0-9_.-]', '_', wait_for_name(client))}"
