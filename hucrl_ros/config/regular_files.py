"""Reads files that anybody may have chosen: their kind and size are known before their content."""

import os
import stat
from pathlib import Path

from hucrl_ros.errors import ConfigError, HucrlError, shortened


def read_regular(
    path: Path,
    limit: int,
    error: type[HucrlError] = ConfigError,
    line: str = "",
    links: bool = False,
) -> bytes:
    """The content of a file.

    What is no regular file is not opened: a pipe would never end, a device may do something.

    Args:
        path: The file.
        limit: Largest size [bytes].
        error: What to raise.
        line: What the message calls it; empty: its path.
        links: It may be a link to the file.

    Raises:
        HucrlError: it can't be read, is no regular file, or is larger.
    """
    line = line or shortened(path)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    try:
        _check(path.stat(follow_symlinks=links), limit, line, error)
        # It may have been replaced since.
        opened = os.open(path, flags)
        with os.fdopen(opened, "rb") as file:
            _check(os.fstat(opened), limit, line, error)
            return file.read(limit)
    except OSError as problem:
        raise error(f"{line}: {problem.strerror}") from None
    except ValueError as problem:  # a null character, or half a surrogate pair
        raise error(f"{line}: {shortened(problem)}") from None


def _check(found: os.stat_result, limit: int, line: str, error: type[HucrlError]) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise error(f"{line} is no regular file")
    if found.st_size > limit:
        raise error(f"{line} has {found.st_size} bytes, more than the {limit} accepted")
