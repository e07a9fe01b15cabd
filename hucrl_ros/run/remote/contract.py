"""What travels between a robot's machine and its learner's: paths, messages, their limits.

`docs/contracts.md`, "A learner on another machine", written down once.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ConfigDict, Field

from hucrl_ros.config.regular_files import open_regular
from hucrl_ros.controller.manifest import PLAIN_NAME
from hucrl_ros.errors import RunError, shortened

LISTEN = "127.0.0.1:8642"
"""Where the robot's side is reached unless it was asked for another address."""
AWAY_S = 10.0
"""[s] Without a word a learner counts as away; it speaks once a second, or transfers a file."""
CHUNK = 2**16
"""Bytes that are read or written at a time."""
MESSAGE_BYTES = 2**16
"""Largest report or order."""
LISTING_BYTES = 2**24
"""Largest list of files."""
CHECKPOINT_BYTES = 2**30
"""Largest file of a learner's weights."""
_PART = PLAIN_NAME.pattern
_LEARNED = (
    rf"config\.yaml|episodes/episode_\d{{3,9}}(?:_interrupted_\d{{1,9}})?/{_PART}"
    r"|checkpoints/(?:episode_\d{3,9}|prior)\.safetensors"
)
SHARED = re.compile(
    rf"(?:prior/){{0,9}}(?:{_LEARNED})|robot(?:/{_PART}){{1,9}}|bundles/bundle_\d{{3,9}}/{_PART}",
    re.ASCII,  # so that no path has to be encoded in a URL, and none can be in two ways
)
"""Paths of the files that may travel, relative to the run's folder."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class FileEntry(_Message):
    """A file that may be read."""

    size: int = Field(ge=0)
    """[bytes]"""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Listing(_Message):
    """What the robot's run holds for a learner."""

    name: str
    """Name of the run's folder."""
    files: dict[str, FileEntry]
    """By path in the run's folder."""


class Report(_Message):
    """What a learner says of itself; a sign of life as well."""

    learner: str = Field(pattern=r"^[0-9a-f]{8,64}$")
    """Which one: a random number of its process."""
    message: str
    """As `learner/report` has it: `preparing`, `idle`, `fitting`, …, or an error in one line."""
    failed: bool = False
    episode: int | None = None
    """Last episode learned from, or that it learns from."""
    progress: float | None = None
    """Share of the learning that is done [1]."""


class Order(_Message):
    """What the robot's side answers."""

    wanted: int | None
    """Number of the bundle that it waits for."""
    settings: str
    """SHA-256 of the run's `config.yaml`, which may change when the run is resumed."""
    finished: bool
    """The last bundle of the run has come."""


class Missing(_Message):
    """Files of a bundle that are still to be sent."""

    missing: tuple[str, ...]


def unit_of(path: str) -> str:
    """What has to be complete before any of it counts.

    That is a bag, a bundle, a description, all that the run began with, or a file.
    """
    parts = path.split("/")
    return parts[0] if parts[0] in ("robot", "prior", "config.yaml") else "/".join(parts[:2])


def files_below(root: Path, relative: str) -> Iterator[str]:
    """Paths of the regular files in a folder of a run; links are neither followed nor named."""
    folder = root / relative
    if folder.is_symlink() or not folder.is_dir():
        return
    entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    for entry in entries:
        path = f"{relative}/{entry.name}"
        # What a killed process or a desktop leaves; of a robot's files it may be one.
        if entry.name.startswith(".") and not relative.startswith("robot"):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(root, path)
        elif entry.is_file(follow_symlinks=False):
            yield path


def require_plain_names(root: Path, paths: Iterable[str]) -> None:
    """Look whether files of a run may travel.

    Raises:
        RunError: one has a name that may not.
    """
    for path in paths:
        if not SHARED.fullmatch(path):
            raise RunError(
                f"{root}/{shortened(path)}: only files with plain names travel: letters, "
                "digits, dots, lines, below nine folders"
            )


def digest_of(file: BinaryIO) -> str:
    """SHA-256 of what is left to read."""
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


class Digests:
    """Sizes and hashes of files, computed anew only where a file has changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, tuple[tuple[int, int, int], FileEntry]] = {}

    def entry(self, path: str) -> FileEntry:
        """Of the regular file `path` below the root.

        Raises:
            RunError: it can't be read.
        """
        try:
            with open_regular(self._root / path) as file:
                found = os.fstat(file.fileno())
                mark = (found.st_ino, found.st_size, found.st_mtime_ns)
                known = self._known.get(path)
                if known is None or known[0] != mark:
                    entry = FileEntry(size=found.st_size, sha256=digest_of(file))
                    known = self._known[path] = (mark, entry)
        except OSError as error:
            reason = error.strerror or error
            raise RunError(f"{self._root}/{shortened(path)}: {reason}") from None
        return known[1]
