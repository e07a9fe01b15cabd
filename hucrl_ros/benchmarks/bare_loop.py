"""A loop that does nothing but wake up on time: what the machine itself takes away.

Machine code that sleeps by `clock_nanosleep` until its next moment, without Python's interpreter
and without its lock, in a process of its own. Nothing that is written in Python wakes up sooner.
"""

import ctypes
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hucrl_ros.nodes.realtime import try_realtime_priority

NANOSECONDS = 1_000_000_000
_MONOTONIC, _ABSOLUTE = 1, 1
_libc = ctypes.CDLL(None)
_sleep, _clock = _libc.clock_nanosleep, _libc.clock_gettime
_sleep.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
_clock.argtypes = [ctypes.c_int, ctypes.c_void_p]


class BareLoop(NamedTuple):
    """When a bare loop woke up."""

    due: NDArray[np.float64]
    """`(n,)` when it should have [s], by the clock of `time.monotonic`."""
    late: NDArray[np.float64]
    """`(n,)` how much later it did [s]."""
    realtime: bool
    """Whether it ran with SCHED_FIFO."""

    @classmethod
    def read(cls, path: Path) -> "BareLoop":
        """What `main` has written."""
        with np.load(path, allow_pickle=False) as stored:
            return cls(stored["due"], stored["late"], bool(stored["realtime"]))

    def during(self, begin: float, end: float) -> "BareLoop":
        """Those of its moments that lie between two times [s]."""
        inside = (self.due >= begin) & (self.due <= end)
        return BareLoop(self.due[inside], self.late[inside], self.realtime)


def command(out: Path, period: float, priority: int) -> list[str]:
    """What starts one, with SCHED_FIFO `priority` where that is allowed; SIGTERM ends it."""
    return [sys.executable, "-m", __name__, str(out), repr(period), str(priority)]


def lateness(due_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sleep until each of `due_ns` `(n,)` [ns]; how late that was `(n,)` [s]."""
    late = np.empty(len(due_ns))
    _keep_time(due_ns, late)
    return late


@njit(nogil=True)  # type: ignore[untyped-decorator]
def _keep_time(due_ns: NDArray[np.int64], late: NDArray[np.float64]) -> None:
    spec = np.zeros(2, np.int64)  # struct timespec
    for i in range(len(due_ns)):
        spec[0], spec[1] = due_ns[i] // NANOSECONDS, due_ns[i] % NANOSECONDS
        _sleep(_MONOTONIC, _ABSOLUTE, spec.ctypes, spec.ctypes)
        _clock(_MONOTONIC, spec.ctypes)
        late[i] = (spec[0] * NANOSECONDS + spec[1] - due_ns[i]) / NANOSECONDS


def main(out: Path, period: float, priority: int, stopped: Callable[[], bool]) -> None:
    """Keep time until `stopped`, asked once a second; write it to `out`."""
    lateness(np.array([time.monotonic_ns()]))  # compiled now
    realtime = priority > 0 and try_realtime_priority(priority) is None
    period_ns, count = round(period * NANOSECONDS), max(round(1 / period), 1)
    next_ns = time.monotonic_ns() + period_ns
    due, late = [], []
    while not stopped():
        due.append(next_ns + period_ns * np.arange(count))
        late.append(lateness(due[-1]))
        next_ns += count * period_ns
    moments = np.concatenate([[], *due]) / NANOSECONDS
    np.savez(out, due=moments, late=np.concatenate([[], *late]), realtime=realtime)


if __name__ == "__main__":
    told: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        """Remember the signal."""
        told.append(number)

    signal.signal(signal.SIGTERM, note)
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), lambda: bool(told))
