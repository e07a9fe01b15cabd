"""What hostile input may do: nothing, or end in one line, in a second, in 300 MB."""

import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from hucrl_ros.errors import HucrlError

SECONDS = 1.0
"""Of the processor: a loaded machine must not fail a test."""
MEGABYTES = 300
"""Of the whole process: what earlier tests have left running takes some, too. Bombs hold 512."""
_opened = []
_watched = False


def _status(field):
    """A field of this process's status [MB]."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def _note(event, arguments):
    """Called by the interpreter; it can't be taken away again."""
    if not (_watched and event in ("open", "sqlite3.connect")):
        return
    if isinstance(arguments[0], str | bytes):
        path = Path(os.fsdecode(arguments[0]))
        refused = event == "open" and arguments[2] & os.O_NOFOLLOW and path.is_symlink()
        if not refused:
            _opened.append(path)


sys.addaudithook(_note)


def is_one_line(text):
    """Whether a person can read it in one line of a terminal."""
    return text.isprintable() and 0 < len(text) < 2000


@contextmanager
def harmless(*errors, outside=None):
    """What happens within may fail with one line only.

    Args:
        errors: Classes that may come; none: `HucrlError`.
        outside: A folder in which no file may be opened.
    """
    global _watched
    expected = errors or (HucrlError,)
    _opened.clear()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, begin, _watched = _status("VmRSS"), time.process_time(), outside is not None
    try:
        yield
    except expected as error:
        assert is_one_line(str(error)), f"not one line: {str(error)[:3000]!r}"
    finally:
        _watched = False
    took, grown = time.process_time() - begin, _status("VmHWM") - before
    assert took <= SECONDS, f"took {took:.2f} s"
    assert grown <= MEGABYTES, f"took {grown:.0f} MB"
    if outside is not None:
        within = outside.resolve()
        read = [path for path in _opened if path.resolve().is_relative_to(within)]
        assert not read, f"opened {read}"
