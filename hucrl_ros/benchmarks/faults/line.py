"""A line on which messages get lost, late, doubled, out of order, damaged, or wrongly dated."""

import random
from collections.abc import Callable
from typing import Generic, TypeVar

Message = TypeVar("Message")
SHARE = 0.3
"""Of the messages that are dropped or corrupted, on average."""
DELAY_S = 0.05
"""[s] Four control periods of the pendulum."""
DROPPED, DELAYED, DOUBLED = "dropped", "delayed", "duplicated"
REORDERED, CORRUPTED = "reordered", "corrupted"
AHEAD, BACK = "clock +1 h", "clock -1 h"
JUMPS = {AHEAD: 3600, BACK: -3600}
"""[s] By which stamps are wrong."""
KINDS = (DROPPED, DELAYED, DOUBLED, REORDERED, CORRUPTED, AHEAD, BACK)
"""Three in ten are lost; 50 ms late; twice; each second one after the next; three in ten hold NaN,
other names, a wrong length, or a stamp 60 years ahead; stamps an hour ahead, or behind."""


class Line(Generic[Message]):
    """Takes messages in, and says which come out, and when."""

    def __init__(
        self, kind: str, draw: random.Random, damage: Callable[[Message], Message]
    ) -> None:
        """Make a line that is bad in one way, one of `KINDS`; `damage` makes a bad copy."""
        self._kind, self._draw, self._damage = kind, draw, damage
        self._held: list[Message] = []

    def take(self, message: Message, bad: bool) -> list[tuple[float, Message]]:
        """What comes out for a message that goes in, and after what time [s].

        Args:
            message: What goes in.
            bad: Whether the line is bad now; otherwise nothing is lost, late or held back.
        """
        held, self._held = self._held, []
        if bad and self._kind == DROPPED:
            return [] if self._draw.random() < SHARE else [(0.0, message)]
        if bad and self._kind == DELAYED:
            return [(DELAY_S, message)]
        if bad and self._kind == DOUBLED:
            return [(0.0, message)] * 2
        if bad and self._kind == REORDERED and not held:
            self._held = [message]
            return []
        if bad and (
            self._kind in JUMPS or (self._kind == CORRUPTED and self._draw.random() < SHARE)
        ):
            return [(0.0, self._damage(message))]
        return [(0.0, message), *((0.0, earlier) for earlier in held)]
