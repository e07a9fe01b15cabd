"""Messages in the SQLite file of a rosbag2."""

import sqlite3
import sys
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from hucrl_ros.bags.bounds import SPARE, Allowance
from hucrl_ros.bags.messages import RawMessage, Told
from hucrl_ros.errors import BagError

LEAST_STEPS = 10**7
"""Of SQLite's machine that a query may take, whatever the file's size."""
_LOOK = 10_000
_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)


def read_sqlite(path: Path, size: int, types: Collection[str] | None = None) -> Told:
    """Read all messages.

    Args:
        path: A regular file.
        size: Its length [bytes].
        types: Messages of others are left out; None: of none.

    Raises:
        BagError: it is no such file, or damaged.
    """
    # Nothing is written beside it, and nothing that lies there is read.
    name = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    allowance, found, count = Allowance(path, size), list[RawMessage](), 0
    try:
        with closing(sqlite3.connect(name, uri=True)) as connection:
            _confine(connection, size)
            topics = {
                number: (name, kind)
                for number, name, kind in connection.execute("SELECT id, name, type FROM topics")
                if types is None or kind in types
            }
            rows = connection.execute("SELECT topic_id, timestamp, data FROM messages")
            for number, received_ns, data in rows:
                count += 1
                if number in topics:
                    allowance.take(len(data))
                    found.append(RawMessage.checked(*topics[number], received_ns, data))
    except BagError:
        raise
    except Exception as error:  # any type may be in any column
        raise BagError(f"{path}: damaged: {type(error).__name__}: {error}") from None
    return Told(found, count, whole=True)


def _confine(connection: sqlite3.Connection, size: int) -> None:
    """Let tables be read, and nothing be computed: a file brings its own views and columns."""
    steps = 0

    def give_up() -> bool:
        nonlocal steps
        steps += _LOOK
        return steps > LEAST_STEPS + size

    def permit(action: int, *about: str | None) -> int:
        within_view = about[3] is not None
        return sqlite3.SQLITE_OK if action in _READING and not within_view else sqlite3.SQLITE_DENY

    connection.set_progress_handler(give_up, _LOOK)
    connection.set_authorizer(permit)
    if sys.version_info >= (3, 11):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(SPARE, size + _LOOK))
