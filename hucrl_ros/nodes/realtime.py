"""What the operating system and Python must do for a control loop."""

import gc
import logging
import os
import sys
import threading
from pathlib import Path

logger = logging.getLogger(__name__)

_THREADS = Path("/proc/self/task")
SWITCH_INTERVAL = 1e-3
"""[s] Longest time that another Python thread keeps the interpreter from the control loop."""


def prefer_control_loop() -> None:
    """Keep a bundle's loading thread from holding the interpreter for long."""
    sys.setswitchinterval(SWITCH_INTERVAL)


def try_realtime_priority(priority: int) -> OSError | None:
    """Give this process SCHED_FIFO `priority` (1..99); returns why that was refused.

    That is this thread and the threads of DDS and ONNX Runtime: they bring the joint states, and
    hold locks that the control loop waits for. Other Python threads are left as they are, and
    threads started later don't inherit it: loading a bundle must not compete with the loop.
    """
    policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    others = {thread.native_id for thread in threading.enumerate()} - {threading.get_native_id()}
    for thread in {int(path.name) for path in _THREADS.iterdir()} - others:
        try:
            os.sched_setscheduler(thread, policy, os.sched_param(priority))
        except ProcessLookupError:
            continue  # it has ended meanwhile
        except OSError as error:
            return error
    return None


def set_realtime_priority(priority: int) -> bool:
    """Give this process the SCHED_FIFO priority that the settings ask for.

    Args:
        priority: 1..99, or 0 to leave the ordinary scheduling.

    Returns:
        Whether it runs as wished; a refused permission is a warning that says what to do.
    """
    error = try_realtime_priority(priority) if priority > 0 else None
    if error is not None:
        logger.warning(
            "control.realtime_priority = %d: %s; ordinary scheduling is used. To allow it, add "
            "'@realtime - rtprio %d' to /etc/security/limits.d/realtime.conf, join the group "
            "'realtime' and log in again",
            priority,
            error.strerror,
            priority,
        )
    return error is None


def pause_garbage_collection() -> None:
    """Collect now, then not in the middle of a tick; what exists now is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.disable()


def resume_garbage_collection() -> None:
    """Collect what the ticks left behind."""
    gc.unfreeze()
    gc.enable()
    gc.collect()
