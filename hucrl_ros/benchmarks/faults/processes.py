"""Faults of processes and machines: killed, stopped, no processor time, no memory."""

import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress

import psutil

from hucrl_ros.benchmarks.faults.fault import EVERYBODY, NODES, Fault
from hucrl_ros.benchmarks.faults.played_run import UP, PlayedRun
from hucrl_ros.run.node_list import CONTROLLER, SIMULATOR

HOGS_PER_CORE = 4
ROOM = 4 * 2**20
"""[bytes] That a process may still take when memory gets short."""
CORES = "all cores"
_HOG = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"


class Kill(Fault):
    """`kill -9`."""

    name, nodes, awaited = "SIGKILL", EVERYBODY, EVERYBODY

    def begin(self, played: PlayedRun, node: str, pid: int) -> None:
        """Kill it."""
        os.kill(pid, signal.SIGKILL)


class Stop(Fault):
    """SIGSTOP, and SIGCONT after two seconds."""

    name, nodes, awaited = "SIGSTOP", NODES, (CONTROLLER, SIMULATOR)
    lasts_s = 2.0

    def begin(self, played: PlayedRun, node: str, pid: int) -> None:
        """Stop it."""
        self._pid = pid
        os.kill(pid, signal.SIGSTOP)

    def end(self) -> None:
        """Let it go on, if it is there."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGCONT)


class Hog(Fault):
    """Four busy processes for each core."""

    name, nodes = "CPU hog", (CORES,)

    def begin(self, played: PlayedRun, node: str, pid: int) -> None:
        """Start them."""
        command = [sys.executable, "-c", _HOG]
        count = HOGS_PER_CORE * (os.cpu_count() or 1)
        self._hogs = [subprocess.Popen(command) for _ in range(count)]

    def end(self) -> None:
        """End them."""
        for process in self._hogs:
            process.kill()
            process.wait()


class Memory(Fault):
    """A process gets 4 MiB more memory than it has, and no more (RLIMIT_AS)."""

    name, nodes = "memory", NODES

    def begin(self, played: PlayedRun, node: str, pid: int) -> None:
        """Set the limit."""
        process = psutil.Process(pid)
        limit = process.memory_info().vms + ROOM
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))


class FileSize(Fault):
    """No file of a process may grow beyond 4 KiB (RLIMIT_FSIZE): a disk that is full for it."""

    name, nodes = "file size", ("recorder", "learner", "supervisor", UP)

    def begin(self, played: PlayedRun, node: str, pid: int) -> None:
        """Set the limit."""
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, 4096))
