"""YAML files with keys and values, read with one line for whatever is wrong."""

import os
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
    return parse_mapping(content, path, error)


def parse_mapping(
    content: bytes, path: Path, error: type[HucrlError] = ConfigError
) -> dict[str, Any]:
    """Keys and values in the content of a file.

    Args:
        content: UTF-8.
        path: Where it is from.
        error: What to raise.

    Raises:
        HucrlError: it isn't YAML, has aliases, or holds something else.
    """
    try:
        document = yaml.load(content.decode(), Loader=_PlainLoader)
    except Exception as problem:  # PyYAML lets out what int, datetime and deep nesting raise.
        raise error(f"{shortened(path)}: not YAML: {shortened(problem)}") from None
    if not isinstance(document, dict):
        found = type(document).__name__
        raise error(f"{shortened(path)}: expected keys and values, found {found}")
    return document


def checked(
    schema: type[Schema],
    document: dict[str, Any],
    path: Path,
    error: type[HucrlError] = ConfigError,
) -> Schema:
    """`document` in the form of `schema`.

    Raises:
        HucrlError: it doesn't fit; names the first key that is wrong.
    """
    try:
        return schema.model_validate(document)
    except ValidationError as problems:
        problem = problems.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        line = f"{shortened(key, 100)}: " if key else ""
        raise error(f"{shortened(path)}: {line}{shortened(problem['msg'], 300)}") from None


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new text, never a part of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)
