"""Reads files that anybody may have chosen: their kind and size are known before their content."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from hucrl_ros.errors import ConfigError, HucrlError, shortened


class IrregularError(OSError):
    """A link, a pipe, a folder or a device."""


def open_regular(path: Path, links: bool = False) -> BinaryIO:
    """Open a file for reading; what is no regular file is not opened.

    A pipe would never end, a device may do something.

    Args:
        path: The file.
        links: It may be a link to the file.

    Raises:
        OSError: it can't be opened, or is no regular file.
        ValueError: the path has a null character, or half a surrogate pair.
    """
    _require_regular(path.stat(follow_symlinks=links))
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    file = os.fdopen(os.open(path, flags), "rb")
    try:
        _require_regular(os.fstat(file.fileno()))  # it may have been replaced since
    except OSError:
        file.close()
        raise
    return file


def read_regular(
    path: Path,
    limit: int,
    error: type[HucrlError] = ConfigError,
    line: str = "",
    links: bool = False,
) -> bytes:
    """The content of a file, whose size is known before.

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
    try:
        with open_regular(path, links) as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise error(f"{line} has {size} bytes, more than the {limit} accepted")
            return file.read(limit)
    except IrregularError as problem:
        raise error(f"{line} {problem.strerror}") from None
    except OSError as problem:
        raise error(f"{line}: {problem.strerror}") from None
    except ValueError as problem:  # a null character, or half a surrogate pair
        raise error(f"{line}: {shortened(problem)}") from None


def _require_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise IrregularError(errno.EINVAL, "is no regular file")
