"""Scripts: what happens in which order, written from top to bottom, with waits in between."""

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True)
class Wait:
    """What a script waits for before it goes on."""

    ready: Callable[[], bool]
    timeout_s: float
    complaint: Callable[[], str]
    """One line for when it doesn't come."""
    activity: Callable[[], object] = bool
    """As long as its value changes, the time starts again."""


Result = TypeVar("Result")
Script = Generator[Wait, None, Result]


def soon(ready: Callable[[], bool], seconds: float) -> Wait:
    """Until it comes, or so much time has passed [s]."""
    end = time.monotonic() + seconds
    return Wait(
        lambda: ready() or time.monotonic() >= end, float("inf"), lambda: "time stands still"
    )


def pause(seconds: float) -> Script[None]:
    """Let so much time pass [s]."""
    yield soon(lambda: False, seconds)


def held(holds: Callable[[], bool]) -> Wait:
    """As long as it takes a person."""
    return Wait(lambda: not holds(), float("inf"), lambda: "nobody let it go on")
