"""Messages in an MCAP file, up to its end or to where it was cut off."""

import struct
import zlib
from collections.abc import Collection, Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Schema

from hucrl_ros.bags.bounds import LARGEST, Allowance
from hucrl_ros.bags.messages import RawMessage, Told
from hucrl_ros.controller.topics import OWN_NAME
from hucrl_ros.errors import BagError

MAGIC = b"\x89MCAP0\r\n"
_HEAD = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<HIQQ")


def read_mcap(
    path: Path, stream: BinaryIO, size: int, types: Collection[str] | None = None
) -> Told:
    """Read as far as the file goes.

    Args:
        path: Its name.
        stream: Its content.
        size: Its length [bytes].
        types: Messages of others are left out; None: of none.

    Raises:
        BagError: it is no MCAP file, or was damaged after it was written.
    """
    reader = _Reader(Allowance(path, size), types)
    try:
        head = stream.read(len(MAGIC))
        if len(head) < len(MAGIC) and MAGIC.startswith(head):
            return Told([], 0, whole=False)
        if head != MAGIC:
            raise BagError(f"{path}: not an MCAP file")
        for opcode, data in _records(stream, size):
            reader.take(opcode, data)
    except BagError:
        raise
    except Exception as error:  # damaged bytes get anywhere in the libraries
        where = f"damaged before byte {stream.tell()}"
        raise BagError(f"{path}: {where}: {type(error).__name__}: {error}") from None
    return Told(reader.found, reader.count, reader.closed and stream.read() == MAGIC)


def _records(stream: BinaryIO, size: int) -> Iterator[tuple[int, bytes]]:
    """Operation codes and contents, up to the footer or the end."""
    opcode = 0
    while opcode != Opcode.FOOTER and len(head := stream.read(_HEAD.size)) == _HEAD.size:
        opcode, length = _HEAD.unpack(head)
        if not opcode:
            raise ValueError("a record of no kind")
        if stream.tell() + length > size:
            return
        if length > LARGEST:
            raise ValueError(f"a record of {length} bytes; at most {LARGEST}")
        yield opcode, stream.read(length)


class _Reader:
    """Puts messages together from records."""

    def __init__(self, allowance: Allowance, types: Collection[str] | None) -> None:
        self.found: list[RawMessage] = []
        self.count = 0
        self.closed = False
        self._allowance, self._types = allowance, types
        self._channels: dict[int, Channel] = {}
        self._schemas: dict[int, Schema] = {}

    def take(self, opcode: int, data: bytes) -> None:
        """A record of the file, or of a chunk."""
        if opcode == Opcode.MESSAGE:
            self._message(data)
        elif opcode == Opcode.CHUNK:
            content = self._inflated(Chunk.read(ReadDataStream(BytesIO(data))))
            for inner in _records(BytesIO(content), len(content)):
                self.take(*inner)
        elif opcode == Opcode.SCHEMA:
            schema = Schema.read(ReadDataStream(BytesIO(data)))
            self._schemas[schema.id] = schema
        elif opcode == Opcode.CHANNEL:
            channel = Channel.read(ReadDataStream(BytesIO(data)))
            self._channels[channel.id] = channel
        elif opcode == Opcode.FOOTER:
            self.closed = True

    def _message(self, data: bytes) -> None:
        self.count += 1
        number, _, received_ns, _ = _MESSAGE.unpack_from(data)
        channel = self._channels[number]
        # A channel needs no schema, as one of JSON.
        kind = self._schemas[channel.schema_id].name if channel.schema_id else ""
        if self._types is not None and kind not in self._types:
            return
        if channel.message_encoding != "cdr":
            raise ValueError(f"messages encoded as {channel.message_encoding!r}; expected 'cdr'")
        own = channel.metadata.get(OWN_NAME, "")
        content = data[_MESSAGE.size :]
        self.found.append(RawMessage.checked(channel.topic, kind, received_ns, content, own))

    def _inflated(self, chunk: Chunk) -> bytes:
        content = self._allowance.inflate(chunk.compression, chunk.data)
        if chunk.uncompressed_crc and zlib.crc32(content) != chunk.uncompressed_crc:
            raise ValueError("crc validation failed in Chunk")
        return content
