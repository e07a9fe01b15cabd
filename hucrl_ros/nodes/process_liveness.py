"""Tells one process, at once and without doubt, that another process has ended.

DDS can't: its liveliness lease, if it is short enough to matter, also runs out on a process that
is merely starved of CPU (measured: twice a second with 25 ms on a loaded machine). The kernel
closes a dead process's sockets the moment it ends, whatever killed it, and never before.

A killed process still has to take itself apart before its sockets close, which takes 10 ms for a
large one and longer on a loaded machine; so the watcher also looks whether it has begun to.

Both processes must share a machine (and a network namespace). The names lie in Linux's abstract
socket namespace, which leaves no files behind.
"""

import logging
import signal
import socket
import struct
from pathlib import Path

logger = logging.getLogger(__name__)

BACKLOG = 1024
"""Watchers in the life of a process: nobody accepts them, so those that left still count."""
_PF_EXITING = 0x4


class ProcessLiveness:
    """Held by the process that is watched; it ends with the process."""

    def __init__(self, name: str) -> None:
        """Let others watch this process.

        Args:
            name: What the watchers ask for; a name in use is left alone with a warning.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(_address(name))
        except OSError as error:
            logger.warning(
                "process liveness %r: %s; is another controller running?", name, error.strerror
            )
            return
        self._socket.listen(BACKLOG)
        self._socket.setblocking(False)

    def close(self) -> None:
        """Let the watchers know that this process is done."""
        self._socket.close()


class ProcessWatcher:
    """Held by the process that watches."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._socket: socket.socket | None = None
        self._pid = 0

    @property
    def connected(self) -> bool:
        """Whether the end of the watched process would be noticed."""
        return self._socket is not None

    def connect(self) -> bool:
        """Watch the present process of that name; False where this machine has none."""
        if self.connected and not self.ended():
            return True
        watcher = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        watcher.setblocking(False)
        try:
            watcher.connect(_address(self._name))
        except OSError:
            watcher.close()
            return False
        self._socket = watcher
        credentials = watcher.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        self._pid = struct.unpack("iII", credentials)[0]
        return True

    def ended(self) -> bool:
        """Whether the process has ended since `connect`; True once, then it is forgotten."""
        if self._socket is None:
            return False
        try:
            self._socket.recv(1)  # nobody sends: it would block, or the other end is gone
        except BlockingIOError:
            if not _is_ending(self._pid):
                return False
        except OSError:
            pass
        self.close()
        return True

    def close(self) -> None:
        """Watch no longer."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def liveness_name(domain_id: int, topic: str) -> str:
    """The name for the process of the node that publishes `topic` (resolved) in a domain."""
    return f"hucrl_ros/{domain_id}{topic}"


def _is_ending(pid: int) -> bool:
    """Whether a process can't be saved: it was sent SIGKILL, or is taking itself apart."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False  # of another namespace, or gone: its sockets tell
    # See proc(5); the name, in parentheses, may hold anything.
    fields = stat.rpartition(")")[2].split()
    flags, pending = int(fields[6]), int(fields[28])
    return bool(flags & _PF_EXITING or pending & 1 << (signal.SIGKILL - 1))


def _address(name: str) -> bytes:
    return b"\0" + name.encode()
