"""Notices that Fast DDS stands still: its process hears nothing from then on, unnoticed.

Two of its threads can wait for each other (eProsima/Fast-DDS#6502, not mended in any release so
far): one removes a writer that has gone, holds the lock of discovery, and waits for the thread of
timed events, which wants that lock to see whether some process is still there. It takes another
process's end in the wrong microseconds; a witness of hundreds of ends met it once. From then on
nothing arrives, while what the process sends still leaves, so that others think it is well.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hucrl_ros.nodes.transport import announces_as_usual

THREAD = "dds.ev."
"""Begins the name of the thread of timed events, which announces the process every 3 s."""
LOOK_PERIOD = 1.0
"""[s] Between two looks."""
LOOKS = 12
"""So many in a row without a step of that thread, and none is to come any more."""
GRACE_S = 5.0
"""[s] For what is to be done before the process ends; it may wait for the same locks."""


class EventThread:
    """Fast DDS's thread of timed events in this process.

    Of other middleware, on systems without /proc, and where somebody's own profile may have it
    step less often, none is looked at.
    """

    def __init__(self, tasks: Path = Path("/proc/self/task")) -> None:
        self._status = [
            path.with_name("status")
            for path in sorted(tasks.glob("*/comm"))
            if path.read_text().startswith(THREAD) and announces_as_usual(os.environ)
        ]
        self._seen: list[str] = []
        self._looks = 0
        self._next = 0.0

    def stands_still(self) -> bool:
        """Look, where it is time to; a process that was stopped itself has not looked."""
        now = time.monotonic()
        if not self._status or now < self._next:
            return False
        self._next = now + LOOK_PERIOD
        seen = [_steps(path) for path in self._status]
        stuck = any(new == old for new, old in zip(seen, self._seen, strict=False))
        self._looks = self._looks + 1 if stuck else 0
        self._seen = seen
        return self._looks >= LOOKS


def _steps(status: Path) -> str:
    """How often the thread has waited; never twice the same of one that only lacks a processor."""
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return f"gone at {time.monotonic()}"
    of = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    if of["State"][0] in "RD":
        return f"busy at {time.monotonic()}"
    return of["voluntary_ctxt_switches"] + " " + of["nonvoluntary_ctxt_switches"]


def end_deaf(name: str, close: Callable[[], None]) -> None:
    """End this process at once, as leaving ROS would wait for ever; the exit code is 1.

    Args:
        name: Who says so.
        close: What is to be done before.
    """
    sys.stderr.write(
        f"{name}: Fast DDS stands still and nothing is heard any more (a deadlock of its own, "
        "eProsima/Fast-DDS#6502); start it again\n"
    )
    sys.stderr.flush()
    last = threading.Timer(GRACE_S, os._exit, (1,))
    last.daemon = True
    last.start()
    try:
        close()
    finally:
        os._exit(1)
