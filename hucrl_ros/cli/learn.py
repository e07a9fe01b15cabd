"""`hucrl learn`: a first bundle from bags that somebody else recorded."""

import logging
from pathlib import Path
from typing import Annotated

from typer import Option

from hucrl_ros.cli import options

MORE = 5
"""Episodes on the robot that are suggested."""


def run(
    task: options.Task,
    bags: Annotated[
        list[Path],
        Option("--from", metavar="BAG ...", help="folders or files: MCAP, SQLite, ROS 1's .bag"),
    ],
    config: options.ConfigFile = None,
    action_penalty: options.Penalty = None,
    strategy: options.OneStrategy = None,
    seed: options.Seed = None,
    device: options.Device = None,
    out: options.RunFolderOption = None,
    settings: options.Settings = None,
) -> None:
    """Learn a task from recordings of a robot that others controlled.

    Joint states may come at any rate, with gaps, doubled and out of order; what acted is told by
    their efforts or by the commands in the bag. No episode is played: `hucrl up --resume
    --no-simulator` goes on with the run on the robot, so something has to limit it already.
    """
    import torch

    from hucrl_ros.controller.manifest import read_manifest
    from hucrl_ros.learning.from_bags import learn_from_bags
    from hucrl_ros.run.asked import RunOptions
    from hucrl_ros.run.progress import format_number
    from hucrl_ros.run.session import resume_command, shown_path
    from hucrl_ros.run.terminal import learning_shown

    given = {
        "mode": "real_time",
        "action_penalty": action_penalty,
        "strategy": strategy,
        "seed": seed,
        "device": device,
    }
    overrides = options.parse_settings(settings, given)
    torch.set_num_threads(1)  # Small networks: more threads only wait for each other.
    logging.basicConfig(format="%(message)s")
    asked = RunOptions(task, config, overrides, out, prefix="bags-", on_robot=True)
    with learning_shown() as progress:
        learned = learn_from_bags(bags, asked, progress)
    for line in learned.report:
        print(line)
    promised = read_manifest(learned.bundle).report.predicted_return
    print(f"{shown_path(learned.bundle)}: promises {format_number(promised)}")
    more = learned.run.finished_episodes() + MORE
    print(f"on the robot: {resume_command(learned.run)} --episodes {more}")
