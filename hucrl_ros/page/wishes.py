"""What somebody with the token wants the run's nodes to do, between the page and its node."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Value = str | bool | tuple[float, ...]


class Control(NamedTuple):
    """A parameter of one of the run's nodes (`docs/contracts.md`)."""

    node: str
    parameter: str
    kind: Literal["text", "switch", "numbers"]


NEXT_BUNDLE = Control("supervisor", "next.bundle", "text")
"""Folder name of the bundle that plays the next episodes; empty: the newest."""
PAUSE = Control("supervisor", "pause", "switch")
"""Wait after the episode under way."""
STRATEGY = Control("learner", "strategy", "text")
"""Of the next bundle that is learned."""
NEXT_GOAL = Control("simulator", "next.goal", "numbers")
"""`(3,)` [m] of the next episodes; empty: as it is drawn."""
CONTROLS = (NEXT_BUNDLE, PAUSE, STRATEGY, NEXT_GOAL)


@dataclass(frozen=True)
class Setting:
    """A parameter to be set."""

    control: Control
    value: Value
    answer: Callable[[str], None]
    """Called once, with why it was refused; empty: it was taken."""


@dataclass(frozen=True)
class Stop:
    """Publish on the topic `stop`."""

    stopped: bool
    answer: Callable[[str], None] = field(default=lambda reason: None, compare=False)
    """Called once, with why nothing comes of it; empty: a node hears it."""


@dataclass
class Wishes:
    """Wishes on their way to the nodes, and what the nodes have of controls."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: list[Setting | Stop] = field(default_factory=list)
    _standing: dict[Control, Value] = field(default_factory=dict)
    _connected: bool = False

    def connect(self, connected: bool) -> None:
        """Whether the run's nodes can be reached; what was wished before is forgotten."""
        with self._lock:
            self._connected = connected
            self._waiting, self._standing = [], {}

    @property
    def connected(self) -> bool:
        """Whether the run's nodes can be reached."""
        return self._connected

    def add(self, wish: Setting | Stop) -> bool:
        """To be done soon; False: nobody can be reached, so it is forgotten."""
        with self._lock:
            if self._connected:
                self._waiting.append(wish)
            return self._connected

    def taken(self) -> list[Setting | Stop]:
        """Those that came since the last call, the oldest first."""
        with self._lock:
            found, self._waiting = self._waiting, []
            return found

    def stands_at(self, control: Control, value: Value | None) -> None:
        """A node's parameter has this value; None: there is no such parameter."""
        with self._lock:
            if value is None:
                self._standing.pop(control, None)
            else:
                self._standing[control] = value

    def standing(self, control: Control) -> Value | None:
        """Value of a control; None: it isn't available."""
        with self._lock:
            return self._standing.get(control)
