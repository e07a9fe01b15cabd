"""What `hucrl doctor` and `hucrl check` find: software, machine, middleware, a robot's driver."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from hucrl_ros.config.edit import NewSetting


class Level(Enum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"
    """Something optional is missing: a part is slower or left out."""
    FAULT = "fault"
    """Something required is missing: `hucrl up` can't work."""


class Finding(NamedTuple):
    """What a check found, and what to do about it where it is not well."""

    level: Level
    found: str
    advice: str = ""

    @classmethod
    def ok(cls, found: str) -> "Finding":
        """All is well."""
        return cls(Level.OK, found)

    @classmethod
    def note(cls, found: str, advice: str) -> "Finding":
        """Something optional is missing."""
        return cls(Level.NOTE, found, advice)

    @classmethod
    def fault(cls, found: str, advice: str) -> "Finding":
        """Something required is missing."""
        return cls(Level.FAULT, found, advice)


Check = Callable[[], Finding]
Found = tuple[Finding, Sequence[NewSetting]]
"""A finding, and the settings that follow from it."""


def examine(check: Check) -> Finding:
    """Run a check; one that fails in an unforeseen way is a finding, too."""
    try:
        return check()
    except Exception as error:
        return Finding.fault(f"{type(error).__name__}: {error}", "report this as a bug")
