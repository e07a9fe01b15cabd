"""Errors that a user can cause. Each message names the bad value, its origin, what is accepted."""

from collections.abc import Iterable
from difflib import get_close_matches


def one_line(value: object) -> str:
    """Its text, with a blank for each line's end."""
    return " ".join(str(value).split())


def meant(name: object, known: Iterable[str]) -> str:
    """Before a list of what is known: whether the nearest of it was meant; empty if none is."""
    near = get_close_matches(str(name), known, n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def quoted(value: object) -> str:
    """A name or value that somebody else wrote, as Python writes it, in at most 80 letters."""
    return shortened(repr(value), 80)


def shortened(value: object, limit: int = 200) -> str:
    """What somebody else wrote as a part of one line: printable, at most `limit` letters."""
    text = one_line(value)
    if len(text) > limit:
        text = f"{text[: limit // 2]}…{text[-(limit - limit // 2 - 1) :]}"
    # Half a surrogate pair can't be published, a control character can dress up a terminal.
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


LONGEST = 1500
"""Letters of a line that says what is wrong; what somebody else wrote may be in it."""


class HucrlError(Exception):
    """Base of every error that is reported to the user as one line, without a traceback."""

    def __str__(self) -> str:
        text = super().__str__()
        return text if text.isprintable() and len(text) <= LONGEST else shortened(text, LONGEST)


class ConfigError(HucrlError):
    """A setting is unknown, of the wrong type, or out of range."""


class BundleError(HucrlError):
    """A bundle is incomplete, altered, of another robot, or disagrees with its own reference."""


class BagError(HucrlError):
    """A recorded episode can't be read, or doesn't hold what the task needs."""


class MessageError(BagError):
    """A message, heard or recorded, holds what none of its type does."""


class StateError(HucrlError):
    """What was heard of a robot makes no state of it."""


class OutageError(HucrlError):
    """In an episode nobody controlled the robot for too long."""


class SurpriseError(HucrlError):
    """In an episode the robot did something else than its bundle claims."""


class LearningError(HucrlError):
    """Fitting or policy search produced something that must not reach a robot."""


class RunError(HucrlError):
    """A run of several processes can't start, can't be resumed, or lost one of them."""
