"""The secret that a learner on another machine has to know."""

import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from hucrl_ros.errors import ConfigError

VARIABLE = "HUCRL_TOKEN"
"""Environment variable that may hold it on the learner's machine."""
SHORTEST = 20
"""Letters; one that was made here has 32."""
_LONGEST = 200


def made_token(path: Path) -> str:
    """The token in a file that its owner alone can read; the file is made where it is missing.

    Raises:
        ConfigError: others can read it, or it holds something else.
    """
    if not path.exists():
        # Under its name once it is whole, and never in the place of another one.
        opened, unfinished = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
        try:
            with os.fdopen(opened, "w") as file:
                file.write(secrets.token_urlsafe(24) + "\n")
            with suppress(FileExistsError):
                os.link(unfinished, path)
        except PermissionError:  # a disk without links
            Path(unfinished).rename(path)
        finally:
            Path(unfinished).unlink(missing_ok=True)
    return read_token(path)


def read_token(path: Path) -> str:
    """The token in a file.

    Raises:
        ConfigError: it can't be read, others can read it, or it holds something else.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(2 * _LONGEST)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    if mode & 0o077:
        raise ConfigError(
            f"{path}: others can read this token (mode {mode:o}); `chmod 600 {path}` if nobody "
            "has, else delete it on both machines for another one"
        )
    return checked_token(text, str(path))


def checked_token(text: str, source: str) -> str:
    """A token without the space around it.

    Raises:
        ConfigError: it has a form that no token has; names `source`, not the text.
    """
    token = text.strip()
    plain = token.isascii() and token.isprintable() and " " not in token
    if not (plain and SHORTEST <= len(token) <= _LONGEST):
        raise ConfigError(
            f"{source}: holds no token: expected one word of {SHORTEST} to {_LONGEST} letters"
        )
    return token
