"""`hucrl teach`: another task from the bags of a run, without another episode."""

import logging
import shlex
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from hucrl_ros.cli import options


def run(
    source: Annotated[Path, Argument(metavar="RUN", help="folder of the run with the bags")],
    out: Annotated[Path, Option(metavar="DIR", help="the new run's folder")],
    task: Annotated[
        str | None,
        Option(
            metavar="TASK",
            help="what to learn: a task or a YAML with the same robot; default: the run's, with "
            "its settings",
        ),
    ] = None,
    config: options.ConfigFile = None,
    action_penalty: options.Penalty = None,
    strategy: options.OneStrategy = "greedy",
    seed: options.Seed = None,
    device: options.Device = None,
    settings: options.Settings = None,
) -> None:
    """Learn any task from the bags of a run, e.g. one that explored with `--strategy opax`.

    No episode is played. `hucrl evaluate` plays the bundle.
    """
    from hucrl_ros.config.task_file import find_description, known_tasks
    from hucrl_ros.run.asked import RunOptions
    from hucrl_ros.run.folder import RunFolder
    from hucrl_ros.run.prepare import taught_run, unmade_without
    from hucrl_ros.run.progress import format_number
    from hucrl_ros.run.session import shown_path
    from hucrl_ros.run.terminal import learning_shown

    source_run = RunFolder.open(source)
    name = task or source_run.config.task
    if task is None:
        config = config or source_run.config_path
        own = None if name in known_tasks() else find_description(source_run.robot, name)
        name = name if own is None else str(own.path)
    given = {
        "action_penalty": action_penalty,
        "strategy": strategy,
        "seed": seed,
        "device": device,
    }
    overrides = options.parse_settings(settings, given)
    if source_run.prior.is_dir():  # its policies are of a task that may be another one
        print(f"! what {shown_path(source)} began with itself, by --from, is left out")

    import torch  # before the run is made: it takes seconds

    from hucrl_ros.controller.manifest import read_manifest
    from hucrl_ros.learning.learner import Learner

    torch.set_num_threads(1)  # Small networks: more threads only wait for each other.
    logging.basicConfig(format="%(message)s")
    taught = taught_run(source_run, RunOptions(name, config, overrides, out))
    learned = taught.bundle(taught.finished_episodes())
    with taught.locked(), unmade_without(taught, learned), learning_shown() as progress:
        bundle = Learner(taught.config, taught).learn(progress)
    promised = read_manifest(bundle).report.predicted_return
    shown = shown_path(bundle)
    play = f"`hucrl evaluate {shlex.quote(shown)}` plays it"
    print(f"{shown}: promises {format_number(promised)}; {play}")
