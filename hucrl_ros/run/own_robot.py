"""From the YAML of a robot of one's own to what a run needs: settings and a description."""

import logging
from pathlib import Path

from hucrl_ros.config.files import load_config
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import (
    Description,
    is_description,
    known_tasks,
    read_description,
    task_of_path,
)
from hucrl_ros.errors import ConfigError
from hucrl_ros.run.folder import RunFolder

logger = logging.getLogger(__name__)


def asked_robot(task: str, config: Config) -> Description | None:
    """The robot of one's own that `task` describes, checked; None for one of the paper's.

    Its model is simulated for a moment and its reward exported: that takes seconds.

    Raises:
        ConfigError: robot, reward and settings don't fit together.
    """
    if not is_description(task_of_path(task)):
        return None
    from hucrl_ros.robots import describe
    from hucrl_ros.run.combinations import check_combination  # MuJoCo and torch take a while
    from hucrl_ros.tasks import DescribedTask
    from hucrl_ros.tasks.export_check import check_export

    described = describe(task)
    built = DescribedTask(described, config.action_penalty)
    check_combination(config, built)
    check_export(built)
    return described


def own_settings(path: Path, config: Path | None) -> Config:
    """Settings of a robot of one's own.

    Args:
        path: The YAML that describes it.
        config: File with the settings; None: those next to the description, or the defaults.

    Raises:
        ConfigError: a setting is wrong, or the robot's name is one of the paper's tasks.
    """
    described = read_description(path)
    if described.name in known_tasks():
        raise ConfigError(
            f"{path}: {described.name!r} is a task of the paper; give the robot another robot.name"
        )
    if config is None and not described.has_settings:
        return Config(task=described.name)
    return load_config(config or path, {"task": described.name})


def continued_robot(path: Path, run: RunFolder) -> str:
    """Name of the robot of a run; the run's copy counts, whatever became of `path` since."""
    if not path.is_file():
        return run.config.task
    name = read_description(path).name
    logger.info("%s: the run goes on with its own copy in %s", path, run.robot)
    return name
