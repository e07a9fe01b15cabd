"""The outcome of one check."""

from enum import Enum
from typing import NamedTuple


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
