"""YAML files with keys and values, read with one line for whatever is wrong."""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from hucrl_ros.errors import ConfigError, HucrlError, shortened

Schema = TypeVar("Schema", bound=BaseModel)


class _PlainLoader(yaml.SafeLoader):
    """Refuses aliases, as ROS's own parser does: a few lines of them expand to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not accepted")
        return super().compose_node(parent, index)


def read_mapping(path: Path, error: type[HucrlError] = ConfigError) -> dict[str, Any]:
    """Keys and values of a file.

    Args:
        path: The file.
        error: What to raise.

    Raises:
        HucrlError: it can't be read, isn't YAML, or holds something else.
    """
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise error(f"{shortened(path)}: {problem.strerror}") from None
    except ValueError as problem:  # a null character
        raise error(f"{shortened(path)}: {problem}") from None
    return parse_mapping(content, path, error, yaml.SafeLoader)


def parse_mapping(
    content: bytes,
    path: Path,
    error: type[HucrlError] = ConfigError,
    loader: type[yaml.SafeLoader] = _PlainLoader,
) -> dict[str, Any]:
    """Keys and values in the content of a file.

    Args:
        content: UTF-8.
        path: Where it is from.
        error: What to raise.
        loader: By default one that refuses aliases, for what somebody else wrote.

    Raises:
        HucrlError: it isn't YAML, or holds something else.
    """
    try:
        document = yaml.load(content.decode(), Loader=loader)
    except Exception as problem:  # PyYAML lets out what int, datetime and deep nesting raise.
        raise error(f"{shortened(path)}: not YAML: {shortened(problem)}") from None
    if not isinstance(document, dict):
        found = type(document).__name__
        raise error(f"{shortened(path)}: expected keys and values, found {found}")
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
        line = shortened(explain(problems, schema, section), 600)
        raise error(f"{shortened(source)}: {line}") from None


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
    shown = "" if has_value else f" = {shortened(repr(problem['input']), 100)}"
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
