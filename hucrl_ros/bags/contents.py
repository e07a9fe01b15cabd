"""All messages of a bag: a whole one through `rosbags`, a cut-off one up to the cut."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mcap.exceptions import EndOfFile, InvalidMagic, McapError
from mcap.reader import make_reader
from mcap.records import Channel, Chunk, Footer, McapRecord, Schema
from mcap.records import Message as McapMessage
from mcap.stream_reader import CRCValidationError, StreamReader, breakup_chunk
from rosbags.rosbag2 import Reader, ReaderError

from hucrl_ros.bags.metadata import FILE_NAME, Outcome, read_ours
from hucrl_ros.controller.topics import OWN_NAME, is_named
from hucrl_ros.errors import BagError

_DAMAGE = (ReaderError, McapError, OSError, struct.error, ValueError, TypeError, KeyError)
"""What the libraries raise of a damaged bag."""


class RawMessage(NamedTuple):
    """One recorded message."""

    topic: str
    """Resolved name."""
    type: str
    """As `package/msg/Name`."""
    received_ns: int
    """When it arrived [ns since the epoch]."""
    data: bytes
    """CDR."""
    own: str = ""
    """Relative name that the nodes know the topic by, where it was remapped."""

    def is_of(self, name: str) -> bool:
        """Whether the nodes know the topic by the relative `name`."""
        return self.own == name if self.own else is_named(self.topic, name)


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


def read_contents(path: Path) -> BagContents:
    """Read a rosbag2 folder or an MCAP file.

    A folder without `metadata.yaml`, or a file without its end, is what a killed recorder
    leaves: everything up to the cut is read.

    Raises:
        BagError: nothing lies there, it is no bag, or it was damaged after it was written.
    """
    if path.is_file():
        return read_file(path)
    if not path.is_dir():
        raise BagError(f"{path}: no bag lies there")
    if (path / FILE_NAME).is_file():
        outcome, stepped = read_ours(path)
        return BagContents(_read_whole(path), whole=True, outcome=outcome, stepped=stepped)
    files = sorted(path.glob("*.mcap"))
    if len(files) != 1:
        raise BagError(
            f"{path}: neither {FILE_NAME} nor exactly one .mcap file (there are {len(files)})"
        )
    return read_file(files[0])._replace(outcome=Outcome.INTERRUPTED)


def read_file(path: Path) -> BagContents:
    """Read one MCAP file as far as it goes.

    Raises:
        BagError: it is no MCAP file, or was damaged after it was written.
    """
    channels: dict[int, Channel] = {}
    schemas: dict[int, Schema] = {}
    found: list[RawMessage] = []
    whole = False
    for record in _records(path):
        if isinstance(record, Schema):
            schemas[record.id] = record
        elif isinstance(record, Channel):
            channels[record.id] = record
        elif isinstance(record, McapMessage):
            channel = channels[record.channel_id]
            name = schemas[channel.schema_id].name
            own = channel.metadata.get(OWN_NAME, "")
            found.append(RawMessage(channel.topic, name, record.log_time, record.data, own))
        elif isinstance(record, Footer):
            whole = True
    found.sort(key=lambda message: message.received_ns)
    return BagContents(found, whole, Outcome.FINISHED if whole else Outcome.INTERRUPTED)


def _read_whole(folder: Path) -> list[RawMessage]:
    try:
        own = _own_names(folder)
        with Reader(folder) as reader:
            expected = reader.message_count
            found = [
                RawMessage(
                    connection.topic,
                    connection.msgtype,
                    received_ns,
                    bytes(data),
                    own.get(connection.topic, ""),
                )
                for connection, received_ns, data in reader.messages()
            ]
    except _DAMAGE as error:
        raise BagError(f"{folder}: damaged: {' '.join(str(error).split())}") from None
    if len(found) != expected:
        raise BagError(
            f"{folder}: damaged: {len(found)} messages, but {FILE_NAME} counted {expected}"
        )
    return found


def _own_names(folder: Path) -> dict[str, str]:
    """The nodes' own names of the topics that were remapped."""
    own = {}
    for path in folder.glob("*.mcap"):
        with path.open("rb") as stream:
            summary = make_reader(stream).get_summary()
        for channel in summary.channels.values() if summary else ():
            if OWN_NAME in channel.metadata:
                own[channel.topic] = channel.metadata[OWN_NAME]
    return own


def _records(path: Path) -> Iterator[McapRecord]:
    """Records of the file and of its chunks, up to where it was cut off."""
    try:
        with path.open("rb") as stream:
            yield from _until_cut(path, stream, path.stat().st_size)
    except OSError as error:
        raise BagError(f"{path}: {error.strerror}") from None


def _until_cut(path: Path, stream: BinaryIO, size: int) -> Iterator[McapRecord]:
    reader = StreamReader(stream, emit_chunks=True, record_size_limit=size)
    try:
        for record in reader.records:
            if isinstance(record, Chunk):
                yield from breakup_chunk(record, validate_crc=True)
            else:
                yield record
    except InvalidMagic:
        if stream.tell() <= 8 <= size:
            raise BagError(f"{path}: not an MCAP file") from None
    except (CRCValidationError, struct.error, UnicodeDecodeError) as error:
        # What is left of a chunk at the file's end doesn't fit its checksum either.
        if stream.tell() < size:
            raise BagError(
                f"{path}: damaged before byte {stream.tell()}: {' '.join(str(error).split())}"
            ) from None
    except (EndOfFile, McapError):
        return
