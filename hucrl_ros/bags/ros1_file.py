"""Messages in a `.bag` of ROS 1, up to its end or to where it was cut off."""

import struct
from collections.abc import Collection, Iterator
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from rosbags.typesys import Stores, get_typestore

from hucrl_ros.bags.bounds import LARGEST, Allowance
from hucrl_ros.bags.messages import Message
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.errors import BagError

MAGIC = b"#ROSBAG V2.0\n"
_MESSAGE, _CHUNK, _CONNECTION = b"\x02", b"\x05", b"\x07"
Fields = dict[bytes, bytes]


class Ros1Message(NamedTuple):
    """One message."""

    topic: str
    type: str
    """As `package/msg/Name`."""
    received_ns: int
    """When it arrived [ns since the epoch]."""
    content: Message


@cache
def _typestore() -> Any:  # noqa: ANN401  # rosbags' Typestore, which mypy is told to skip
    return get_typestore(Stores.ROS1_NOETIC)


def read_ros1(
    path: Path, stream: BinaryIO, size: int, types: Collection[str]
) -> list[Ros1Message]:
    """Read as far as the file goes.

    Args:
        path: Its name.
        stream: Its content.
        size: Its length [bytes].
        types: Messages of others are left out.

    Raises:
        BagError: it is no such file, or damaged.
    """
    allowance, connections = Allowance(path, size), dict[bytes, tuple[str, str]]()
    found = []
    try:
        if stream.read(len(MAGIC)) != MAGIC:
            raise BagError(f"{path}: not a bag of ROS 1, version 2.0")
        for fields, data in _unpacked(stream, size, allowance):
            if fields[b"op"] == _CONNECTION:
                kind = _fields(data)[b"type"].decode().replace("/", "/msg/")
                connections[fields[b"conn"]] = fields[b"topic"].decode(), kind
                continue
            topic, kind = connections[fields[b"conn"]]
            if kind in types:
                seconds, rest = struct.unpack("<II", fields[b"time"])
                content = _typestore().deserialize_ros1(data, kind)
                found.append(Ros1Message(topic, kind, seconds * NANOSECONDS + rest, content))
    except BagError:
        raise
    except Exception as error:  # damaged bytes get anywhere in the libraries
        where = f"damaged before byte {stream.tell()}"
        raise BagError(f"{path}: {where}: {type(error).__name__}: {error}") from None
    return sorted(found, key=lambda message: message.received_ns)


def _unpacked(stream: BinaryIO, size: int, allowance: Allowance) -> Iterator[tuple[Fields, bytes]]:
    """Connections and messages, those of chunks as well."""
    for fields, data in _records(stream, size):
        if fields[b"op"] in (_CONNECTION, _MESSAGE):
            yield fields, data
        elif fields[b"op"] == _CHUNK:
            compression = fields[b"compression"].decode()
            content = allowance.inflate("" if compression == "none" else compression, data)
            for inner, message in _records(BytesIO(content), len(content)):
                if inner[b"op"] in (_CONNECTION, _MESSAGE):
                    yield inner, message


def _records(stream: BinaryIO, size: int) -> Iterator[tuple[Fields, bytes]]:
    """Header and data of each record."""
    while (header := _sized(stream, size)) is not None:
        if (data := _sized(stream, size)) is None:
            return
        yield _fields(header), data


def _sized(stream: BinaryIO, size: int) -> bytes | None:
    """The next bytes, which begin with their number; None: they are cut off."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    (length,) = struct.unpack("<I", head)
    if stream.tell() + length > size:
        return None
    if length > LARGEST:
        raise ValueError(f"a record of {length} bytes; at most {LARGEST}")
    return stream.read(length)


def _fields(header: bytes) -> Fields:
    """Names and values in a header."""
    fields, rest = {}, BytesIO(header)
    while (entry := _sized(rest, len(header))) is not None:
        name, _, value = entry.partition(b"=")
        fields[name] = value
    return fields
