"""From a joint state message to positions and velocities, or to one line that says why not."""

import math
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.errors import StateError


class JointReading(NamedTuple):
    """A joint state message."""

    names: Sequence[str]
    """Joints, in the message's order."""
    positions: Sequence[float]
    """One for each name [rad or m]."""
    velocities: Sequence[float]
    """One for each name [rad/s or m/s]."""
    stamp_ns: int
    """The message's stamp [ns]."""


class JointStateReader:
    """Finds the robot's joints in joint state messages by name.

    Robots publish all their joints, in any order, so joints that the task doesn't know are
    ignored; a joint that it needs and can't find is an error.
    """

    def __init__(self, joint_names: Sequence[str], further: Sequence[str] = ()) -> None:
        """Read positions and velocities of `joint_names`, and velocities of `further` joints."""
        self.joint_names = tuple(joint_names)
        self._moving = (*self.joint_names, *further)
        self.extra_joints: tuple[str, ...] = ()
        """Joints of the last message that the task doesn't know."""
        self._names: tuple[str, ...] | None = None
        self._order: tuple[int, ...] = ()
        self._newest_ns: int | None = None

    @property
    def fresh(self) -> bool:
        """Whether nothing was read since `reset`."""
        return self._newest_ns is None

    def reset(self) -> None:
        """Forget the newest stamp: the clock may start again."""
        self._newest_ns = None

    def is_repetition(self, stamp_ns: int) -> bool:
        """Whether the newest message carried the same stamp [ns]."""
        return stamp_ns == self._newest_ns

    def read(self, reading: JointReading) -> NDArray[np.float64]:
        """Positions [rad or m], then velocities, then those of further joints [rad/s or m/s].

        Raises:
            StateError: a joint is missing or appears twice, the sizes don't match, a number
                is not finite, or time runs backwards.
        """
        names, positions, velocities, stamp_ns = reading
        newest, self._newest_ns = self._newest_ns, stamp_ns
        if newest is not None and stamp_ns < newest:
            _refuse(
                f"stamp {_seconds(stamp_ns)} after {_seconds(newest)}: time runs backwards; "
                "stamps must increase"
            )
        for what, values in (("positions", positions), ("velocities", velocities)):
            if len(values) != len(names):
                _refuse(f"{len(values)} {what} for {len(names)} joints; expected one for each")
        if tuple(names) != self._names:
            self._learn_order(tuple(names))
        joints = len(self.joint_names)
        told = [positions[i] for i in self._order[:joints]] + [velocities[i] for i in self._order]
        for entry, value in enumerate(told):
            if not math.isfinite(value):
                what = "position" if entry < joints else "velocity"
                joint = self._moving[entry if entry < joints else entry - joints]
                _refuse(f"{what} of joint {joint!r} is {value}; expected a finite number")
        return np.array(told, dtype=np.float64)

    def _learn_order(self, names: tuple[str, ...]) -> None:
        """Where each joint of the task stands in the message; kept until the names change."""
        self._names = None
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            _refuse(f"joint {twice!r} appears {names.count(twice)} times; expected once")
        missing = [name for name in self._moving if name not in names]
        if missing:
            _refuse(
                f"no joint {missing[0]!r} among {list(names)}; "
                f"the task needs {', '.join(self._moving)}"
            )
        self._order = tuple(names.index(name) for name in self._moving)
        self.extra_joints = tuple(name for name in names if name not in self._moving)
        self._names = names


def _seconds(stamp_ns: int) -> str:
    return f"{stamp_ns / 1e9:.9f} s"


def _refuse(reason: str) -> NoReturn:
    raise StateError(f"joint_states: {reason}")
