"""All messages of a bag: of a whole one, and of a cut-off one up to the cut."""

import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hucrl_ros.bags.bounds import Allowance, open_regular
from hucrl_ros.bags.mcap_file import read_mcap
from hucrl_ros.bags.messages import RawMessage, Told
from hucrl_ros.bags.metadata import FILE_NAME, Metadata, Outcome, read_metadata
from hucrl_ros.bags.sqlite_file import read_sqlite
from hucrl_ros.errors import BagError, MessageError

Types = Collection[str] | None


class BagContents(NamedTuple):
    """What a bag holds."""

    messages: list[RawMessage]
    """In the order of their arrival."""
    whole: bool
    """The recording was closed, so nothing is missing at its end."""
    outcome: Outcome
    """How the recording ended."""
    stepped: bool | None = None
    """Each joint state is a step, as in lockstep; False: their stamps tell; None: not known."""


def read_contents(path: Path, types: Types = None) -> BagContents:
    """Read a rosbag2 folder, or an MCAP or SQLite file.

    A folder without `metadata.yaml`, or an MCAP file without its end, is what a killed recorder
    leaves: everything up to the cut is read. In a folder only regular files are read.

    Args:
        path: The folder or file.
        types: Messages of others are left out; None: of none.

    Raises:
        BagError: nothing lies there, it is no bag, or it was damaged after it was written.
    """
    if os.path.isdir(path):  # noqa: PTH112  # Path's raises of too long a name
        if (path / FILE_NAME).exists():
            return _read_whole(path, read_metadata(path), types)
        files = sorted(path.glob("*.mcap"))
        if len(files) != 1:
            raise BagError(
                f"{path}: neither {FILE_NAME} nor exactly one .mcap file (there are {len(files)})"
                "; bags of a run are in its folder episodes/"
            )
        return read_file(files[0], types)._replace(outcome=Outcome.INTERRUPTED)
    if not os.path.exists(path):  # noqa: PTH110
        raise BagError(f"{path}: no bag lies there")
    return read_file(path.resolve(), types)  # here a link is what the user named


def read_file(path: Path, types: Types = None) -> BagContents:
    """Read one file, an MCAP file as far as it goes.

    Raises:
        BagError: it is no MCAP or SQLite file, or was damaged after it was written.
    """
    found, _, whole = _storage(path, "sqlite3" if path.suffix == ".db3" else "mcap", types)
    outcome = Outcome.FINISHED if whole else Outcome.INTERRUPTED
    return BagContents(_sorted(found), whole, outcome)


@contextmanager
def about(path: Path) -> Iterator[None]:
    """Name the bag whose message can't be understood.

    Raises:
        BagError: a message in it makes no sense.
    """
    try:
        yield
    except MessageError as error:
        raise BagError(f"{path}: {error}") from None


def _read_whole(folder: Path, metadata: Metadata, types: Types) -> BagContents:
    if metadata.storage not in ("mcap", "sqlite3"):
        raise BagError(f"{folder}: stored as {metadata.storage!r}; known: mcap, sqlite3")
    read = _packed_storage if metadata.compression == "file" else _storage
    told = [read(folder / name, metadata.storage, types) for name in metadata.files]
    if not all(each.whole for each in told):
        raise BagError(f"{folder}: damaged: its end is missing")
    total = sum(each.total for each in told)
    if total != metadata.total:
        raise BagError(
            f"{folder}: damaged: {total} messages, but {FILE_NAME} counted {metadata.total}"
        )
    found = [message for each in told for message in each.messages]
    if metadata.compression == "message":
        found = _inflated(folder, found)
    return BagContents(_sorted(found), True, metadata.outcome, metadata.stepped)


def _storage(path: Path, storage: str, types: Types) -> Told:
    """What one file holds."""
    stream, size = open_regular(path)
    with stream:
        if storage == "sqlite3":
            return read_sqlite(path, size, types)
        return read_mcap(path, stream, size, types)


def _packed_storage(path: Path, storage: str, types: Types) -> Told:
    """What one file holds that was compressed as a whole."""
    stream, size = open_regular(path)
    with stream, tempfile.TemporaryDirectory() as folder, _undamaged(path):
        copy = Path(folder, path.stem)
        copy.write_bytes(Allowance(path, size).inflate("zstd", stream.read()))
        return _storage(copy, storage, types)


def _inflated(folder: Path, messages: list[RawMessage]) -> list[RawMessage]:
    """Messages each of which was compressed."""
    allowance = Allowance(folder, sum(len(message.data) for message in messages))
    with _undamaged(folder):
        return [m._replace(data=allowance.inflate("zstd", m.data)) for m in messages]


@contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    try:
        yield
    except BagError:
        raise
    except Exception as error:  # damaged bytes get anywhere in the libraries
        raise BagError(f"{path}: damaged: {type(error).__name__}: {error}") from None


def _sorted(messages: list[RawMessage]) -> list[RawMessage]:
    return sorted(messages, key=lambda message: message.received_ns)
