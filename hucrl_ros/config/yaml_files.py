"""YAML files with keys and values, read with one line for whatever is wrong."""

import os
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
        raise error(f"{path}: {key + ': ' if key else ''}{problem['msg']}") from None


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new text, never a part of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)
