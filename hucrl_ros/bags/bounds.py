"""Files that somebody else wrote: regular ones, and no more comes out than fits their size."""

import bz2
import os
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import lz4.frame
import zstandard

from hucrl_ros.config import regular_files
from hucrl_ros.errors import BagError

SPARE = 2**26
"""[bytes] That may come out of any file ..."""
RATIO = 20
"""... and besides for each byte in it."""
LARGEST = 2**26
"""[bytes] Of a record in a file."""
_PIECE = 2**20
_LARGEST_WINDOW = 2**27  # [bytes] of zstd


def open_regular(path: Path) -> tuple[BinaryIO, int]:
    """A file, open for reading, and its size [bytes].

    Raises:
        BagError: it can't be read, or is a link, a pipe or a device.
    """
    try:
        stream = regular_files.open_regular(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", error)
        raise BagError(f"{path}: {why}; expected a regular file") from None
    return stream, os.fstat(stream.fileno()).st_size


class Allowance:
    """How much may still come out of a file of `size` [bytes]."""

    def __init__(self, path: Path, size: int) -> None:
        self._path, self._left = path, SPARE + RATIO * size
        self._most = self._left

    def take(self, count: int) -> None:
        """So many bytes have come out.

        Raises:
            BagError: that is too much.
        """
        self._left -= count
        if self._left < 0:
            raise BagError(
                f"{self._path}: more than the {self._most} bytes that are accepted from a file "
                "of its size come out of it"
            )

    def inflate(self, compression: str, data: bytes) -> bytes:
        """What was compressed by `zstd`, `lz4` or `bz2`, or not at all (an empty name).

        Raises:
            BagError: too much comes out, or the compression is unknown.
            Exception: whatever the libraries raise of damaged data.
        """
        if not compression:
            self.take(len(data))
            return data
        if compression not in _PIECES:
            known = ", ".join(_PIECES)
            raise BagError(f"{self._path}: compressed by {compression!r}; known: {known}")
        whole = bytearray()
        for piece in _PIECES[compression](data):
            self.take(len(piece))
            whole += piece
        return bytes(whole)


def _zstd(data: bytes) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    reader = decompressor.stream_reader(BytesIO(data), read_across_frames=True)
    yield from iter(lambda: reader.read(_PIECE), b"")


def _pieces(decompressor: Any, data: bytes) -> Iterator[bytes]:  # noqa: ANN401  # no types
    while not decompressor.eof:
        piece = decompressor.decompress(data, _PIECE)
        if not piece:
            raise ValueError("what was compressed is cut off")
        yield piece
        data = b""  # the rest of it is kept inside


_PIECES: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "zstd": _zstd,
    "lz4": lambda data: _pieces(lz4.frame.LZ4FrameDecompressor(), data),
    "bz2": lambda data: _pieces(bz2.BZ2Decompressor(), data),
}
"""What comes out, piece by piece, of each kind of compression."""
