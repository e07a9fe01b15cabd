"""Cores, real-time rights, memory, disk, and the rendering of pictures and videos."""

import ctypes
import gc
import mmap
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path

from hucrl_ros.doctor import Check, Finding

PROCESSES_BUSY = 2
"""Cores that a run keeps busy: the learner, and simulator and controller in turns."""
LITTLE_DISK = 500 * 2**20
"""[bytes] A run of the demo takes about 20 MB."""
ISOLATED = Path("/sys/devices/system/cpu/isolated")
PRIORITY = 50
RENDERING_S = 60.0
"""[s] The first rendering on a loaded machine takes seconds."""
# A broken driver may end the process that tries it, so it is not this one.
_RENDER = """
import mujoco
model = mujoco.MjModel.from_xml_string(
    '<mujoco><worldbody><light pos="0 0 3"/><geom size="1"/></worldbody></mujoco>')
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = mujoco.Renderer(model, 48, 64)
renderer.update_scene(data)
if not renderer.render().any():
    raise SystemExit("the picture is black")
"""
_LIMITS = "/etc/security/limits.d/hucrl.conf"
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4


def check_cores() -> Finding:
    """Processors that this process may use, and how busy they are."""
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    found = f"{cores}, load {load:.1f}"
    if cores < PROCESSES_BUSY:
        return Finding.note(found, "with fewer than 2 cores real-time ticks come late: --lockstep")
    if load > 0.75 * cores:
        return Finding.note(found, "the machine is busy: real-time ticks will come late")
    return Finding.ok(found)


def check_processors() -> Finding:
    """Processors that the controller could have for itself."""
    allowed = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
    isolated = ISOLATED.read_text().strip() if ISOLATED.exists() else ""
    if not isolated:
        return Finding.ok(f"{allowed}; none isolated; control.cpus keeps the controller on some")
    return Finding.ok(f"{allowed}; isolated: {isolated}, for the controller with control.cpus")


def check_garbage_collection() -> Finding:
    """How long a tick would stand still for Python's garbage collector."""
    began = time.perf_counter()
    gc.collect()
    duration_ms = 1e3 * (time.perf_counter() - began)
    return Finding.ok(
        f"{duration_ms:.0f} ms, between episodes only (control.pause_garbage_collection)"
    )


def check_realtime_priority() -> Finding:
    """Whether a process may get SCHED_FIFO, which removes the tail of the tick times."""
    error = _in_child(_try_realtime)
    if not error:
        return Finding.ok(f"SCHED_FIFO {PRIORITY} is allowed: control.realtime_priority")
    soft = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    return Finding.note(
        f"SCHED_FIFO {PRIORITY} is refused ({error}; limit {soft})",
        f"for steadier real-time ticks put '{_user()} - rtprio 90' into {_LIMITS} (as root) and "
        "log in again",
    )


def check_memory_lock() -> Finding:
    """Whether a process may keep its memory from being paged out."""
    error = _in_child(_try_memory_lock)
    if not error:
        return Finding.ok("mlockall is allowed: control.lock_memory")
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    limit = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft >> 10} KiB"
    return Finding.note(
        f"mlockall is refused ({error}; limit {limit})",
        f"for steadier real-time ticks put '{_user()} - memlock unlimited' into {_LIMITS} (as "
        "root) and log in again",
    )


def check_disk() -> Finding:
    """Space for runs in the present folder."""
    here = Path.cwd()
    free = shutil.disk_usage(here).free
    found = f"{free / 2**30:.1f} GB free in {here}"
    if not os.access(here, os.W_OK):
        return Finding.note(f"{here} can't be written", "choose a folder for runs with --out")
    if free < LITTLE_DISK:
        return Finding.note(found, "make room, or choose another folder for runs with --out")
    return Finding.ok(found)


def check_rendering() -> Finding:
    """MuJoCo draws a picture without a display."""
    backend = os.environ.get("MUJOCO_GL", "egl")
    advice = (
        "only videos need it: on Debian and Ubuntu sudo apt install libegl1 libgl1-mesa-dri, "
        "or set MUJOCO_GL=osmesa after sudo apt install libosmesa6"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", _RENDER],
            env={**os.environ, "MUJOCO_GL": backend},
            capture_output=True,
            text=True,
            timeout=RENDERING_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding.note(f"MUJOCO_GL={backend}: no picture in {RENDERING_S:.0f} s", advice)
    if done.returncode == 0:
        return Finding.ok(f"MUJOCO_GL={backend}")
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    reason = next((line for line in reversed(lines) if "Error" in line), lines[-1])
    return Finding.note(f"MUJOCO_GL={backend}: {reason}", advice)


def check_video() -> Finding:
    """An encoder for MP4; GIFs need none."""
    try:
        import imageio_ffmpeg

        path = Path(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        found = shutil.which("ffmpeg")
        if found is None:
            return Finding.note(
                "no ffmpeg: videos become GIFs", "run `make env`, or sudo apt install ffmpeg"
            )
        path = Path(found)
    return Finding.ok(f"{path.name}; GIF by Pillow {metadata.version('pillow')}")


def _try_realtime() -> str:
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _try_memory_lock() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    page = mmap.mmap(-1, mmap.PAGESIZE)  # at least this much beside the code
    try:
        if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) != 0:
            return os.strerror(ctypes.get_errno())
    finally:
        page.close()
    return ""


def _in_child(attempt: Callable[[], str]) -> str:
    """Run `attempt` in a process of its own, which keeps what it changes."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("spawn").Process(target=_send, args=(attempt, sender))
    child.start()
    sender.close()
    try:
        return str(receiver.recv())
    except EOFError:
        return f"the attempt ended with exit code {child.exitcode}"
    finally:
        child.join()
        receiver.close()


def _send(attempt: Callable[[], str], sender: Connection) -> None:
    sender.send(attempt())


def _user() -> str:
    return os.environ.get("USER") or str(os.getuid())


MACHINE: dict[str, Check] = {
    "cores": check_cores,
    "real-time priority": check_realtime_priority,
    "memory lock": check_memory_lock,
    "processors": check_processors,
    "garbage collection": check_garbage_collection,
    "disk": check_disk,
    "rendering": check_rendering,
    "video": check_video,
}
