"""Says which Python functions a command is about to run: a robot's YAML is a program."""

import sys
from contextlib import suppress
from pathlib import Path

from hucrl_ros.errors import HucrlError, shortened


def say_functions(command: str, task: str, folder: Path | None = None) -> None:
    """Say on standard error which files the description of a task has us run.

    What is wrong with the description says whoever loads it.

    Args:
        command: That is about to run them.
        task: Name of a task, or the path of its description.
        folder: Where the description of a robot of one's own may lie, `RunFolder.robot`.
    """
    from hucrl_ros.config.task_file import (
        find_description,
        is_description,
        known_tasks,
        read_description,
        task_of_path,
    )

    with suppress(HucrlError):
        task = task_of_path(task)
        own = None if task in known_tasks() else folder
        yaml = is_description(task)
        found = read_description(Path(task)) if yaml else find_description(own, task)
        if found is not None and found.functions:
            named = ", ".join(dict.fromkeys(map(str, found.functions)))
            print(f"hucrl {command}: runs {shortened(named, 500)}", file=sys.stderr)


def say_functions_of(command: str, bundle: Path, described: Path | None) -> None:
    """The same for the task of a bundle, as `open_bundle` finds it."""
    from hucrl_ros.config.task_file import beside
    from hucrl_ros.controller.manifest import read_manifest

    with suppress(HucrlError):
        task = read_manifest(bundle).task if described is None else str(described)
        say_functions(command, task, beside(bundle))
