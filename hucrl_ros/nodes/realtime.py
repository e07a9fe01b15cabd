"""What the operating system and Python must do for a control loop."""

import ctypes
import gc
import logging
import os
import resource
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.controller.timing import PLANNING_THREAD

logger = logging.getLogger(__name__)

LIMITS = "/etc/security/limits.d/realtime.conf"
_THREADS = Path("/proc/self/task")
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_CAP_IPC_LOCK = 14
_ABOVE_LOADING = 2
"""The thread that plans has one less than the loop, and that has to be more than 1."""
_BEFORE_LOOP = 2
"""The watchdog has one more than the loop, what stands in for hardware has this much more."""
SWITCH_INTERVAL = 1e-3
"""[s] Longest time that another Python thread keeps the interpreter from the control loop."""


def prefer_control_loop() -> None:
    """Keep a bundle's loading thread from holding the interpreter for long."""
    sys.setswitchinterval(SWITCH_INTERVAL)


def prepare(settings: ControlSettings) -> bool:
    """Give this process priority, processors and locked memory as the settings ask for.

    Returns:
        Whether it runs as wished; each refusal is a warning that says what to do. Threads that a
        new bundle brings need another call.
    """
    return all(
        [
            set_realtime_priority(settings.realtime_priority),
            set_processors(settings.cpus),
            not settings.lock_memory or lock_memory(),
        ]
    )


def try_realtime_priority(priority: int) -> OSError | None:
    """Give this process SCHED_FIFO `priority` (1..99); returns why that was refused.

    That is this thread and the threads of DDS and ONNX Runtime: they bring the joint states, and
    hold locks that the control loop waits for. Threads that plan get one less, so that on a
    single processor the tick can still end without them. Other Python threads are left as they
    are, and threads started later don't inherit it: loading a bundle must not compete with the
    loop.
    """
    policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK

    def set_priority(thread: int, plans: bool) -> None:
        level = max(priority - plans, 1)
        os.sched_setscheduler(thread, policy, os.sched_param(level))

    return _for_each_thread(set_priority)


def prefer_this_thread(settings: ControlSettings) -> None:
    """Give the calling thread the lowest real-time priority, where the control loop has a higher.

    For a thread that loads: it competes with no tick, but while it holds the interpreter a tick
    waits for it, and it must not wait for ordinary processes then (measured, beside many: 33 ms).
    """
    if settings.realtime_priority > _ABOVE_LOADING:
        with suppress(OSError):  # the loop was refused, too, and has said so
            policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, policy, os.sched_param(1))


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
            "'@realtime - rtprio %d' to %s, join the group 'realtime' and log in again",
            priority,
            error.strerror,
            priority,
            LIMITS,
        )
    return error is None


def go_before_loop(settings: ControlSettings) -> None:
    """Let what stands in for hardware go before a control loop that has a real-time priority.

    A robot has a processor of its own. Behind the loop (measured, an arm at 1 kHz on two
    processors) its joint states came up to 76 ms late.
    """
    _join(settings, settings.realtime_priority + _BEFORE_LOOP)


def go_before_others(settings: ControlSettings) -> None:
    """Let what records go before ordinary processes, where the loop has a real-time priority.

    When a command acted is known by when it was recorded: beside a learner and others, joint
    states were recorded up to 97 ms late, though what published them went before all others.
    """
    _join(settings, 1)


def _join(settings: ControlSettings, priority: int) -> None:
    """Give this process, and threads that it starts from now on, SCHED_FIFO `priority`."""
    if not settings.realtime_priority:
        return
    for path in _THREADS.iterdir():
        with suppress(OSError):  # it has ended, or the loop will be refused, too, and says so
            os.sched_setscheduler(int(path.name), os.SCHED_FIFO, os.sched_param(min(priority, 99)))


def take_no_processor() -> None:
    """Have this process, and threads that it starts from now on, wait while others compute.

    It keeps its share of the time (SCHED_BATCH); but what wakes it up takes no processor away from
    whoever has one. A lower share instead (niceness) starves it on a busy machine.
    """
    batch = os.sched_param(0)
    _for_each_thread(lambda thread, plans: os.sched_setscheduler(thread, os.SCHED_BATCH, batch))


def set_processors(cpus: Sequence[int]) -> bool:
    """Keep this process, but for the thread that loads bundles, on the processors `cpus`.

    Args:
        cpus: Their numbers; empty: leave it where it is.

    Returns:
        Whether it runs as wished; processors that aren't there are a warning.
    """
    if not cpus:
        return True
    error = _for_each_thread(lambda thread, plans: os.sched_setaffinity(thread, cpus))
    if error is not None:
        logger.warning(
            "control.cpus = %s: %s; all processors are used. Choose among those that this "
            "process may use: %s",
            list(cpus),
            error.strerror,
            sorted(os.sched_getaffinity(0)),
        )
    return error is None


def leave_processors(cpus: Sequence[int]) -> None:
    """Keep the calling thread, and what it starts from now on, off `cpus`, if others are left."""
    others = os.sched_getaffinity(0) - set(cpus)
    if others:
        os.sched_setaffinity(0, others)


def lock_memory() -> bool:
    """Keep this process's memory from being paged out: what it uses now, and what it will use.

    Memory that was reserved but never touched (stacks, arenas) stays free for others. Where a
    limit is set, nothing is locked at all: at the limit, the next allocation would fail.

    Returns:
        Whether it is locked; a refused permission is a warning that says what to do.
    """
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit != resource.RLIM_INFINITY and not _may_lock_all():
        reason = f"only {limit >> 10} KiB may be locked"
    else:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) == 0:
            return True
        reason = os.strerror(ctypes.get_errno())
    logger.warning(
        "control.lock_memory: %s; memory may be paged out. To allow it, add "
        "'@realtime - memlock unlimited' to %s, join the group 'realtime' and log in again",
        reason,
        LIMITS,
    )
    return False


def _may_lock_all() -> bool:
    """Whether the limit on locked memory doesn't hold for this process."""
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) >> _CAP_IPC_LOCK & 1)


def _for_each_thread(change: Callable[[int, bool], None]) -> OSError | None:
    """Call `change(thread, whether it plans)`, but for the Python threads that do neither."""
    python = {thread.native_id: thread.name for thread in threading.enumerate()}
    python[threading.get_native_id()] = ""
    for thread in {int(path.name) for path in _THREADS.iterdir()}:
        name = python.get(thread, "")
        plans = name.startswith(PLANNING_THREAD)
        if name and not plans:
            continue
        try:
            change(thread, plans)
        except ProcessLookupError:
            continue  # it has ended meanwhile
        except OSError as error:
            return error
    return None


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
