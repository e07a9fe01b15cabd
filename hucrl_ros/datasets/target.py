"""Where an export goes: beside it first, under its name once it is whole."""

import importlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from hucrl_ros.errors import ConfigError, HucrlError


def library(name: str, extra: str) -> ModuleType:
    """A library that only an export needs.

    Raises:
        HucrlError: it isn't installed; says how to.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise HucrlError(
            f"{name} can't be imported ({error}); it comes with pip install -e '.[{extra}]'"
        ) from None


def require_free(target: Path) -> None:
    """Refuse to overwrite anything.

    Raises:
        ConfigError: something lies there, or no folder can hold it.
    """
    if target.exists() or target.is_symlink():
        raise ConfigError(f"{target}: exists already; delete it, or choose another name")
    above = next(path for path in target.absolute().parents if path.exists())
    if not above.is_dir():
        raise ConfigError(f"{target}: {above} is no folder")


@contextmanager
def whole(target: Path) -> Iterator[Path]:
    """A path to write a file or a folder to; it gets the name `target` when all went well.

    Raises:
        ConfigError: something lies at `target`.
        HucrlError: the disk is full, or nothing can be written there; nothing is left behind.
    """
    require_free(target)
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove(unfinished)  # of a process that was killed
        yield unfinished
        require_free(target)
        unfinished.rename(target)
    except OSError as error:
        raise HucrlError(f"{target}: can't be written: {error.strerror or error}") from None
    finally:
        _remove(unfinished)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
