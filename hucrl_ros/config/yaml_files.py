"""YAML files with keys and values, read with one line for whatever is wrong."""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from hucrl_ros.errors import ConfigError, HucrlError

Schema = TypeVar("Schema", bound=BaseModel)


def read_mapping(path: Path, error: type[HucrlError] = ConfigError) -> dict[str, Any]:
    """Keys and values of a file.

    Args:
        path: The file.
        error: What to raise.

    Raises:
        HucrlError: it can't be read, isn't YAML, or holds something else.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise error(f"{path}: {problem.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise error(f"{path}: not YAML: {' '.join(str(problem).split())}") from None
    if not isinstance(document, dict):
        raise error(f"{path}: expected keys and values, found {type(document).__name__}")
    return document


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
        raise error(f"{source}: {explain(problems, schema, section)}") from None


def explain(error: ValidationError, schema: type[BaseModel], section: str = "") -> str:
    """One line for the first problem of a validation by `schema`."""
    problem = error.errors()[0]
    location = problem["loc"]
    key = ".".join([*([section] if section else []), *map(str, location)])
    if problem["type"] == "missing":
        return f"{key} is missing"
    if problem["type"] == "extra_forbidden":
        known = _known_keys(schema, location[:-1])
        if not known:
            return f"unknown key {key!r}; docs/reference.md lists what is known there"
        near = difflib.get_close_matches(str(location[-1]), known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"unknown key {key!r}; {hint}known here: {', '.join(known)}"
    if problem["type"] == "value_error":
        return f"{key + ': ' if key else ''}{problem['ctx']['error']}"
    has_value = not key or problem["type"].startswith("union_tag")  # the message, then
    shown = "" if has_value else f" = {problem['input']!r}"
    return f"{key}{shown}: {problem['msg']}".removeprefix(": ")


def _known_keys(schema: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Keys of a group in `schema`; none where the group is an entry of a list or a union."""
    for part in location:
        field = schema.model_fields.get(str(part))
        group = field.annotation if field else None
        if not (isinstance(group, type) and issubclass(group, BaseModel)):
            return []
        schema = group
    return sorted(schema.model_fields)


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new text, never a part of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)
