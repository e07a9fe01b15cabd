"""Settings from files in ROS parameter form and back, checked by the schema of `config`."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from hucrl_ros.config.paths import share_directory
from hucrl_ros.config.schema import Config, Settings
from hucrl_ros.config.yaml_files import checked, read_mapping
from hucrl_ros.errors import ConfigError

COMMAND_LINE = "command line"

Group = TypeVar("Group", bound=Settings)


def parse_config(values: Mapping[str, Any], source: str) -> Config:
    """Check nested settings, e.g. `{"planner": {"particles": 64}}`, against the schema.

    Raises:
        ConfigError: a key is unknown, or a value has the wrong type or is out of range.
    """
    return checked(Config, values, source)


def override(base: Group, changes: Mapping[str, Any], source: str = COMMAND_LINE) -> Group:
    """Settings with some replaced, all checked together.

    Args:
        base: All of a run's settings, or others, e.g. a bundle's manifest.
        changes: Dotted keys, e.g. `planner.horizon`, and values.
        source: Where these came from, for the message.

    Raises:
        ConfigError: a key is unknown, its value wrong, or it doesn't go with the others.
    """
    return checked(type(base), merge(base.model_dump(), changes), source)


def load_config(path: Path, overrides: Mapping[str, Any] | None = None) -> Config:
    """Read a YAML file in ROS parameter form (`/**: ros__parameters: ...`).

    Args:
        path: The file.
        overrides: Dotted keys and values that replace the file's, e.g. `{"planner.horizon": 10}`.

    Raises:
        ConfigError: the file can't be read or doesn't fit the schema.
    """
    document = read_mapping(path)
    try:
        values = dict(document["/**"]["ros__parameters"])
    except (TypeError, KeyError, ValueError):
        raise ConfigError(f"{path}: expected '/**:' with 'ros__parameters:' below it") from None
    return parse_config(merge(values, overrides or {}), str(path))


def dump_config(config: Config) -> str:
    """The YAML, in ROS parameter form, that `load_config` reads back to an equal `Config`."""
    values = _drop_empty(config.model_dump(mode="json"))
    return yaml.safe_dump({"/**": {"ros__parameters": values}}, sort_keys=False)


def task_config_path(task: str) -> Path:
    """The task's file in `config/`.

    Raises:
        ConfigError: there is none.
    """
    files = task_config_files()
    if task not in files:
        raise ConfigError(
            f"task: {task!r} is unknown; known tasks: {', '.join(files)}; or the path of a YAML "
            "that describes a robot of your own"
        )
    return files[task]


def task_config_files() -> dict[str, Path]:
    """The files in `config/` by the name of their task; not the one of all defaults."""
    files = sorted((share_directory() / "config").glob("*.yaml"))
    return {file.stem: file for file in files if file.stem != "defaults"}


def merge(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Nested `values` with dotted keys of `overrides` put in."""
    merged = copy.deepcopy(dict(values))
    for key, value in overrides.items():
        *groups, name = key.split(".")
        target = merged
        for group in groups:
            if not isinstance(target.get(group), dict):  # the schema refuses it by name
                target[group] = {}
            target = target[group]
        target[name] = value
    return merged


def _drop_empty(values: dict[str, Any]) -> dict[str, Any]:
    # ROS can't tell the type of an empty list, so a parameter file must not hold one.
    nested = {k: _drop_empty(v) if isinstance(v, dict) else v for k, v in values.items()}
    return {k: v for k, v in nested.items() if v != []}
