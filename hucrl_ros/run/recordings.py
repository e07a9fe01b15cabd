"""Recordings of a bundle that plays without a run: where they go, and by what they are read."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hucrl_ros.config.files import dotted, override, task_config_files
from hucrl_ros.config.schema import Config, DriverSettings
from hucrl_ros.config.task_file import beside
from hucrl_ros.config.yaml_reader import read_mapping
from hucrl_ros.errors import RunError
from hucrl_ros.run.asked import RunOptions, asked_config
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import prepare_run


def heard_with(
    driver: DriverSettings, robot: str = "", parameter_file: Path | None = None
) -> dict[str, Any]:
    """Settings by which what a controller plays in real time is read, by dotted keys.

    Args:
        driver: The bundle's.
        robot: YAML of the robot, or a task's name; empty: the controller was told of none.
        parameter_file: Settings in ROS parameter form that the controller gets.

    Raises:
        ConfigError: a file can't be read, or a setting is wrong.
    """
    control = asked_config(RunOptions(robot)).control if robot else Config().control
    heard = {f"driver.{name}": value for name, value in driver.model_dump().items()}
    heard["control.extra_delay"] = control.extra_delay
    document = {} if parameter_file is None else read_mapping(parameter_file)
    for node in ("/**", "controller", "/controller"):
        section = document.get(node)
        given = section.get("ros__parameters") if isinstance(section, dict) else None
        if isinstance(given, dict):
            heard |= {name: value for name, value in dotted(given).items() if name in heard}
    return heard


def recordings_of(
    bundle: Path, task: str, folder: Path, heard: Mapping[str, Any] | None = None
) -> RunFolder:
    """A folder for recordings of a bundle, new or continued.

    The machine at the robot has neither torch nor what the bundle was learned with: where the
    bundle's run is at hand its robot is kept with the recordings, as it is.

    Args:
        bundle: The bundle.
        task: Its task.
        folder: For all recordings that are read by the same settings.
        heard: These settings, see `heard_with`.

    Raises:
        ConfigError: recordings lie there that are read by other settings.
        RunError: no folder can be made there, or a run lies there that learns.
    """
    heard = heard or {}
    if (folder / "config.yaml").is_file():
        there = RunFolder.open(folder)
        if there.config.mode != "real_time" or any(there.bundles.glob("*")):
            raise RunError(f"{folder}: a run lies there, not recordings; choose another folder")
        return prepare_run(RunOptions(task, overrides=heard, out=folder, resume=True))
    ours = task in task_config_files()
    config = asked_config(RunOptions(task)) if ours else Config(task=task)
    config = override(config, {"mode": "real_time", **heard}, str(bundle))
    robot = beside(bundle)
    try:
        run = RunFolder.create(folder, config)
        if robot.is_dir():
            shutil.copytree(robot, run.robot, dirs_exist_ok=True)
    except OSError as error:
        raise RunError(f"{folder}: can't record there: {error.strerror}") from None
    return run
