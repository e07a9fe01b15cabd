"""YAML files checked by a schema, one line for whatever is wrong; settings from them and back."""

import copy
import difflib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from hucrl_ros.config.schema import Config, Settings
from hucrl_ros.config.yaml_reader import read_mapping
from hucrl_ros.errors import ConfigError, HucrlError, meant, shortened


def share_directory() -> Path:
    """The folder that holds `config/`, `launch/` and `sim/`.

    In a checkout (or an editable install) it is the repository; in an installed package it is
    `<prefix>/share/hucrl_ros`, where ROS 2 keeps data files.
    """
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent
    if (checkout / "package.xml").is_file():
        return checkout
    # <prefix>/lib/python3.x/site-packages/hucrl_ros, also for a colcon install space.
    for prefix in (*package.parents, Path(sys.prefix)):
        share = prefix / "share" / "hucrl_ros"
        if (share / "package.xml").is_file():
            return share
    raise FileNotFoundError(f"no share/hucrl_ros with config/ and sim/ above {package}")


Schema = TypeVar("Schema", bound=BaseModel)

_IN_YAML = {
    "tuple_type": "expected a list, e.g. [1, 2]",
    "dict_type": "expected keys and values",
    "model_type": "expected keys and values",
}
"""What is said of types that Python calls otherwise, by pydantic's names of errors."""


def checked(
    schema: type[Schema],
    document: Mapping[str, Any],
    source: Path | str,
    error: type[HucrlError] = ConfigError,
    section: str = "",
) -> Schema:
    """`document` in the form of `schema`.

    Args:
        schema: What it has to fit.
        document: Nested keys and values.
        source: Where they came from, for the message.
        error: What to raise.
        section: Name of the part of `source` that `document` is.

    Raises:
        HucrlError: it doesn't fit; names the first key that is wrong.
    """
    try:
        return schema.model_validate(dict(document))
    except ValidationError as problems:
        line = shortened(explain(problems, schema, section), 1000)
        raise error(f"{shortened(source)}: {line}") from None


def explain(error: ValidationError, schema: type[BaseModel], section: str = "") -> str:
    """One line for the first problem of a validation by `schema`."""
    problem = error.errors()[0]
    location = problem["loc"]
    key = ".".join([*([section] if section else []), *map(str, location)])
    if problem["type"] == "missing":
        return f"{key} is missing{_misspelt(error, location)}"
    if problem["type"] == "extra_forbidden":
        name, known = shortened(repr(key), 70), _known_keys(schema, location[:-1])
        if not known:
            return f"unknown key {name}; docs/reference.md lists what is known there"
        hint = _elsewhere(str(location[-1]), known) or meant(location[-1], known)
        return f"unknown key {name}; {hint}known here: {', '.join(known)}"
    if problem["type"] == "value_error":
        return f"{key + ': ' if key else ''}{problem['ctx']['error']}"
    if problem["type"] == "union_tag_invalid":
        tag, known = problem["ctx"]["tag"], problem["ctx"]["expected_tags"]
        hint = meant(tag, known.replace("'", "").split(", "))
        return f"{key}: unknown {shortened(repr(tag), 70)}; {hint}known here: {known}"
    has_value = not key or problem["type"].startswith("union_tag")  # the message, then
    shown = "" if has_value else f" = {shortened(repr(problem['input']), 100)}"
    message = _IN_YAML.get(problem["type"], problem["msg"])
    return f"{key}{shown}: {message}".removeprefix(": ")


def _elsewhere(name: str, known: list[str]) -> str:
    """How or where an unknown key has to be written that ROS or a person writes otherwise."""
    group, dot, rest = name.partition(".")
    if dot and group in known:
        return f"write {shortened(f'{group}: {{{rest}: ...}}', 70)}; "
    if name in SECTIONS:
        return f"{name}: is a section of its own in the YAML that describes a robot; "
    return ""


def _misspelt(error: ValidationError, missing: tuple[int | str, ...]) -> str:
    """An unknown key beside the `missing` one that may be meant for it; empty if none is."""
    unknown = [
        str(problem["loc"][-1])
        for problem in error.errors()
        if problem["type"] == "extra_forbidden" and problem["loc"][:-1] == missing[:-1]
    ]
    near = difflib.get_close_matches(str(missing[-1]), unknown, n=1)
    return f"; is it the unknown key {shortened(repr(near[0]), 70)}?" if near else ""


def _known_keys(schema: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Keys of a group in `schema`; none where it isn't clear which group is meant."""
    groups = [schema]
    for part in map(str, location):
        tagged = [group for group in groups if part in _tags(group)]
        fields = [group.model_fields[part] for group in groups if part in group.model_fields]
        inner = [group for field in fields for group in _groups_in(field.annotation)]
        groups = tagged or inner or groups  # the same of a number or a name in a collection
    return sorted(groups[0].model_fields) if len(groups) == 1 else []


def _tags(group: type[BaseModel]) -> set[object]:
    """What tells that a member of a union is meant, as the kind of a constraint."""
    literals = [field.annotation for field in group.model_fields.values()]
    return {get_args(each)[0] for each in literals if get_origin(each) is Literal}


def _groups_in(annotation: object) -> list[type[BaseModel]]:
    """The groups that a field, or the entries of its collection, may be."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [group for each in get_args(annotation) for group in _groups_in(each)]


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new text, never a part of it.

    Nor does one after a power cut.

    Raises:
        OSError: it can't be written; what was there stays, and nothing half-written does.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        to_disk(temporary)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def to_disk(*paths: Path) -> None:
    """Wait until the disk holds files: renamed sooner, they may be empty after a power cut."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())


COMMAND_LINE = "command line"
LIKE_HARDWARE = "like_hardware"
"""Name of the file in `config/` with which the simulator behaves like hardware."""

SETTINGS, PARAMETERS = "/**", "ros__parameters"
"""Keys above all settings."""
SECTIONS = ("robot", "reward", "task", "constraints")
"""What else a YAML that describes a robot holds."""

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
        changes: Dotted keys, e.g. `planner.horizon`, and values; or nested ones.
        source: Where these came from, for the message.

    Raises:
        ConfigError: a key is unknown, its value wrong, or it doesn't go with the others.
    """
    return checked(type(base), merge(base.model_dump(), changes), source)


def load_config(
    path: Path,
    overrides: Mapping[str, Any] | None = None,
    beneath: Mapping[str, Any] | None = None,
) -> Config:
    """Read a YAML file in ROS parameter form (`/**: ros__parameters: ...`).

    Args:
        path: The file.
        overrides: Dotted keys and values that replace the file's, e.g. `{"planner.horizon": 10}`.
        beneath: Nested keys and values that hold where the file says nothing.

    Raises:
        ConfigError: the file can't be read or doesn't fit the schema.
    """
    values = merge(read_settings(path), overrides or {})
    return parse_config(merge(beneath, values) if beneath else values, str(path))


def read_settings(path: Path) -> dict[str, Any]:
    """Nested settings of a file in ROS parameter form, not checked.

    Raises:
        ConfigError: the file can't be read or has another form.
    """
    document = read_mapping(path)
    try:
        found = dict(document[SETTINGS][PARAMETERS])
    except (TypeError, KeyError, ValueError):
        raise ConfigError(
            f"{path}: expected '{SETTINGS}:' with '{PARAMETERS}:' below it"
        ) from None
    for key in document[SETTINGS]:
        if key != PARAMETERS:
            raise ConfigError(
                f"{path}: {key!r} stands beside '{PARAMETERS}:', where nobody reads it; indent it "
                "below that"
            )
    for key, value in document.items():
        if key == SETTINGS or (isinstance(value, dict) and PARAMETERS in value):
            continue  # Parameters of other nodes are theirs.
        if key not in SECTIONS:
            raise ConfigError(
                f"{path}: {key!r} stands beside '{SETTINGS}:', where nobody reads it; settings "
                f"belong below '{PARAMETERS}:'"
            )
        if "robot" not in document:
            raise ConfigError(
                f"{path}: a file of settings has no section {key!r}; it belongs into the YAML "
                "that describes a robot (docs/your_robot.md)"
            )
    return found


def dump_config(config: Config) -> str:
    """The YAML, in ROS parameter form, that `load_config` reads back to an equal `Config`."""
    values = _drop_empty(config.model_dump(mode="json"))
    return yaml.safe_dump({SETTINGS: {PARAMETERS: values}}, sort_keys=False)


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
    """The files in `config/` by the name of their task; not those of every task."""
    files = sorted((share_directory() / "config").glob("*.yaml"))
    return {file.stem: file for file in files if file.stem not in ("defaults", LIKE_HARDWARE)}


def merge(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Nested `values` with those of `overrides` put in, by dotted keys, nested or both."""
    merged = copy.deepcopy(dict(values))
    for key, value in dotted(overrides).items():
        *groups, name = key.split(".")
        target = merged
        for group in groups:
            if not isinstance(target.get(group), dict):  # the schema refuses it by name
                target[group] = {}
            target = target[group]
        target[name] = value
    return merged


def dotted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys and values of nested ones."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update({f"{key}.{name}": entry for name, entry in dotted(value).items()})
        else:
            flat[key] = value
    return flat


def _drop_empty(values: dict[str, Any]) -> dict[str, Any]:
    # ROS can't tell the type of an empty list, so a parameter file must not hold one.
    nested = {k: _drop_empty(v) if isinstance(v, dict) else v for k, v in values.items()}
    return {k: v for k, v in nested.items() if v != []}
