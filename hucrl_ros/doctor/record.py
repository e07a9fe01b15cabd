"""What was told and what was sent while `hucrl check --move` moved a robot."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Trial(NamedTuple):
    """A pulse and, at once, the one of the opposite sign."""

    motor: int
    """Index of the actuated joint."""
    effort: float
    """Of the first pulse, as it was wanted [N m or N]."""
    sent_ns: int
    """When it was first sent, by this machine's steady clock [ns]."""
    pulse: float
    """Length of each of the two [s]."""
    silent: bool
    """Each was commanded once, not in each control period."""


@dataclass
class Record:
    """What was told and what was sent; all by name or index as in the robot's description."""

    stamps_ns: list[int] = field(default_factory=list)
    """`(n,)` rising, by the driver's clock [ns]."""
    received_ns: list[int] = field(default_factory=list)
    """`(n,)` by this machine's steady clock [ns]."""
    positions: list[list[float]] = field(default_factory=list)
    """`(n, joints)` [rad or m]."""
    velocities: list[list[float]] = field(default_factory=list)
    """`(n, joints)` as they were told, each row empty where none were [rad/s or m/s]."""
    efforts: list[list[float]] = field(default_factory=list)
    """`(n, q)` likewise [N m or N]."""
    sent_ns: list[int] = field(default_factory=list)
    """`(m,)` by this machine's steady clock [ns]."""
    commands: list[list[float]] = field(default_factory=list)
    """`(m, q)` [N m or N]."""
    trials: list[Trial] = field(default_factory=list)
    stopped: str = ""
    """Why the motion ended early; empty: it didn't."""
