"""Processes of a run: each in its own session, watched, and ended within a bounded time."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

FIRST_S = 0.7
"""[s] Head start of the processes that must end before the others."""
GRACE_S = 2.5
"""[s] From the first SIGTERM to SIGKILL."""
KILL_S = 1.0
"""[s] Longest wait for a killed process to disappear."""
POLL_S = 0.02
"""[s] Between two looks at the processes."""
PERSON_IS_READY = "a person is ready"
"""A line to the supervisor, where others name a process that was lost."""
STOPPED = "stopped on request"
"""End of the supervisor's last event where somebody has stopped it."""
GAVE_UP = 3
"""Exit code of a supervisor whose last event in `summary.json` says why the run can't go on."""
_PR_SET_PDEATHSIG = 1
_TAIL_BYTES = 4096
_NO_ROOM = 2**16
"""[bytes] Where a disk has less, nothing can be written, not even why."""


class Exit(NamedTuple):
    """How a process ended."""

    name: str
    code: int
    """Exit code, or the negative number of the signal that killed it."""
    last_line: str
    """Last line of its log, or why it has none; empty where it said nothing or was killed."""

    @property
    def description(self) -> str:
        """For people: `controller was killed by signal 9 (SIGKILL)`."""
        if self.code < 0:
            return f"{self.name} was killed by signal {-self.code} ({_signal_name(-self.code)})"
        line = f": {self.last_line}" if self.last_line else ""
        return f"{self.name} ended with exit code {self.code}{line}"


@dataclass
class _Child:
    name: str
    process: "subprocess.Popen[bytes]"
    log: Path
    log_start: int
    """Size of the log when the process started [bytes]."""
    reported: bool = False


class ProcessGroup:
    """The processes of one run.

    They get SIGTERM if this process dies, however it dies. They are in sessions of their own,
    so that Ctrl-C reaches only this process, which then ends them in the right order.
    """

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        """Prepare; nothing is started.

        Args:
            logs: Folder of the logs, one file for each process.
            environment: Environment variables of all processes.
        """
        self._logs = logs
        self._environment = dict(environment)
        self._children: dict[str, _Child] = {}

    def start(self, name: str, command: Sequence[str], *, foreground: bool = False) -> int:
        """Start a process; returns its PID.

        Args:
            name: Its name, also that of its log.
            command: What to run.
            foreground: Keep this process's standard output (for a live view) and give it a pipe
                as standard input, see `tell`. Otherwise all output goes to the log.
        """
        self._logs.mkdir(exist_ok=True)  # whoever resumes a run may have tidied them away
        path = self._logs / f"{name}.log"
        with path.open("ab") as log:
            start = log.tell()  # before anything is said: a child moves this file's position, too
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if foreground else subprocess.DEVNULL,
                stdout=None if foreground else log,
                stderr=log,
                bufsize=0,
                env=self._environment,
                start_new_session=True,
                preexec_fn=_die_with_parent(os.getpid()),  # no threads here
            )
            self._children[name] = _Child(name, process, path, start)
        return process.pid

    def tell(self, name: str, line: str) -> None:
        """Write a line to the standard input of a process started in the foreground."""
        stdin = self._children[name].process.stdin
        assert stdin is not None, f"{name} has no pipe"
        try:
            stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            return  # It is dead; `ended` reports that.

    def alive(self) -> tuple[str, ...]:
        """Names of the processes that run."""
        return tuple(c.name for c in self._children.values() if c.process.poll() is None)

    def ended(self) -> list[Exit]:
        """Processes that have ended since the last call."""
        found = []
        for child in self._children.values():
            code = child.process.poll()
            if code is not None and not child.reported:
                child.reported = True
                found.append(Exit(child.name, code, _last_line(child.log, child.log_start)))
        return found

    def stop(self, first: Iterable[str] = ()) -> tuple[str, ...]:
        """End all processes; returns the names of those that had to be killed.

        SIGTERM goes to the `first` ones; when they are gone, or after `FIRST_S`, to the others;
        what is still there `GRACE_S` after the beginning gets SIGKILL.
        """
        begin = time.monotonic()
        ahead = [self._children[name] for name in first if name in self._children]
        _signal(ahead, signal.SIGTERM)
        _wait_for(ahead, begin + FIRST_S)
        everybody = list(self._children.values())
        _signal((child for child in everybody if child not in ahead), signal.SIGTERM)
        _wait_for(everybody, begin + GRACE_S)
        killed = self.alive()
        _signal((self._children[name] for name in killed), signal.SIGKILL)
        _wait_for(everybody, time.monotonic() + KILL_S)
        for child in everybody:
            if child.process.stdin is not None:
                child.process.stdin.close()
        return killed


def _wait_for(children: Sequence[_Child], deadline: float) -> None:
    while any(c.process.poll() is None for c in children) and time.monotonic() <= deadline:
        time.sleep(POLL_S)


def _signal(children: Iterable[_Child], number: signal.Signals) -> None:
    """Signal each process that runs, with whatever it started itself (its process group)."""
    for child in children:
        if child.process.poll() is None:
            # Not reaped yet, so its number can't belong to anybody else.
            os.killpg(child.process.pid, number)


def _die_with_parent(parent: int) -> Callable[[], None] | None:
    """For `preexec_fn`: let the kernel send SIGTERM when the parent `parent` is gone."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # It died in the meantime.
            os._exit(1)

    return arrange


def _last_line(log: Path, start: int) -> str:
    """Last line, not blank, of what was logged since `start` [bytes], or why it is missing."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start, end - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError as error:  # whoever needed room has tidied it away
        return f"{log}: {error.strerror}"
    if line := next((line.strip() for line in reversed(lines) if line.strip()), ""):
        return line
    full = shutil.disk_usage(log.parent).free < _NO_ROOM
    return f"no space is left on the disk of {log.parent}" if full else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
