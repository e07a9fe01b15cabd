"""Settings from files in ROS parameter form and back, checked by the schema of `config`."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from hucrl_ros.config.paths import share_directory
from hucrl_ros.config.schema import Config
from hucrl_ros.config.yaml_files import read_mapping
from hucrl_ros.errors import ConfigError


def parse_config(values: Mapping[str, Any], source: str) -> Config:
    """Check nested settings against the schema.

    Args:
        values: Nested settings, e.g. `{"planner": {"particles": 64}}`.
        source: Where they came from, for the message.

    Raises:
        ConfigError: a key is unknown, or a value has the wrong type or is out of range.
    """
    try:
        return Config.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(f"{source}: {_explain(error)}") from None


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
    merged = {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}
    for key, value in overrides.items():
        group, _, name = key.rpartition(".")
        target = merged if not group else merged.get(group)
        if not isinstance(target, dict):  # unknown, or no group: the schema refuses it by name
            target = merged[group] = {}
        target[name] = value
    return merged


def _drop_empty(values: dict[str, Any]) -> dict[str, Any]:
    # ROS can't tell the type of an empty list, so a parameter file must not hold one.
    nested = {k: _drop_empty(v) if isinstance(v, dict) else v for k, v in values.items()}
    return {k: v for k, v in nested.items() if v != []}


def _explain(error: ValidationError) -> str:
    """One line for the first problem of a validation."""
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        known = _known_keys(problem["loc"][:-1])
        near = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"unknown key {key!r}; {hint}known here: {', '.join(known)}"
    if problem["type"] == "value_error":
        return f"{key + ': ' if key else ''}{problem['ctx']['error']}"
    return f"{key} = {problem['input']!r}: {problem['msg']}"


def _known_keys(location: tuple[Any, ...]) -> list[str]:
    group: type[BaseModel] = Config
    for part in location:
        annotation = group.model_fields[str(part)].annotation
        assert isinstance(annotation, type) and issubclass(annotation, BaseModel)
        group = annotation
    return sorted(group.model_fields)
