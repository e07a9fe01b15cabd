"""Arrays of a bundle's `.npz`; its directory is checked before a byte of them is read."""

import io
import zipfile
from collections.abc import Collection
from math import prod

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hucrl_ros.errors import quoted, shortened

MOST_ARRAYS = 1000
"""[1] In a file."""
LONGEST_NAME = 100
"""[letters] Of an array."""
LONGEST_TEXT = 100
"""[letters] In an array of text."""
_ENTRY = b"PK\x01\x02"
"""What an entry of an archive's directory begins with."""


def parse_arrays(content: bytes, text: Collection[str] = ()) -> dict[str, NDArray[np.generic]]:
    """The arrays in the content of a file that `numpy.savez` wrote, uncompressed.

    So they take no more memory than the file, whatever its directory claims.

    Args:
        content: Of the file.
        text: Names of arrays that are a text; all others are numbers.

    Raises:
        ValueError: it isn't such a file; says what isn't accepted.
    """
    if content.count(_ENTRY) > MOST_ARRAYS:
        raise ValueError(f"more than the {MOST_ARRAYS} arrays accepted")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as members:
            _check_directory(members.infolist(), len(content))
            found = {
                member.filename.removesuffix(".npy"): members.read(member)
                for member in members.infolist()
            }
    except ValueError:
        raise
    except Exception as error:  # zipfile lets out many.
        raise ValueError(shortened(error)) from None
    return {name: _parse_array(name, raw, name in text) for name, raw in found.items()}


def _check_directory(members: list[zipfile.ZipInfo], room: int) -> None:
    names = [member.filename for member in members]
    for member in members:
        name = member.filename
        if not name.endswith(".npy") or len(name) > LONGEST_NAME:
            raise ValueError(f"{quoted(name)} is no array of at most {LONGEST_NAME} letters")
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise ValueError(f"{quoted(name)} is compressed or encrypted; neither is accepted")
        room -= max(member.file_size, member.compress_size)
    if room < 0:
        raise ValueError("its directory claims more bytes than it has")
    if len(set(names)) < len(names):
        raise ValueError("two arrays have the same name")


def _parse_array(name: str, raw: bytes, is_text: bool) -> NDArray[np.generic]:
    file = io.BytesIO(raw)
    try:
        version = npy.read_magic(file)  # type: ignore[no-untyped-call]
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, transposed, kind = read(file)  # type: ignore[no-untyped-call]
    except Exception as error:  # numpy's parser of headers lets out many.
        raise ValueError(f"{quoted(name)}: {shortened(error)}") from None
    letters = kind.kind == "U" and kind.itemsize <= 4 * LONGEST_TEXT and prod(shape) == 1
    if not (letters if is_text else kind.kind in "biuf" and kind.itemsize <= 8):
        raise ValueError(f"{quoted(name)} has the type {quoted(kind)}, which is not accepted")
    if min(shape, default=0) < 0 or prod(shape) * kind.itemsize != len(raw) - file.tell():
        raise ValueError(f"{quoted(name)} is {quoted(shape)}, and has no such data")
    values = np.frombuffer(raw, kind, prod(shape), file.tell())
    # A copy, which has its own alignment and may be written to, as one that numpy reads.
    return values.reshape(shape, order="F" if transposed else "C").copy("K")
