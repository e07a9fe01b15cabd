"""What one process can tell another on its machine, which nobody on the network can forge.

First, at once and without doubt, that it has ended. DDS can't: its liveliness lease, if it is
short enough to matter, also runs out on a process that is merely starved of CPU (measured: twice
a second with 25 ms on a loaded machine). The kernel closes a dead process's sockets the moment it
ends, whatever killed it, and never before. A killed process still has to take itself apart before
its sockets close, which takes 10 ms for a large one and longer on a loaded machine; so the watcher
also looks whether it has begun to.

Second, what it publishes: anybody who reaches DDS can publish the same, but not through here. In
the same way it hears what its watcher publishes in its place.

Both processes must share a machine (and a network namespace). The names lie in Linux's abstract
socket namespace, which leaves no files behind.
"""

import contextlib
import errno
import logging
import os
import signal
import socket
import struct
from collections import deque
from collections.abc import Iterator

from hucrl_ros.errors import RunError

logger = logging.getLogger(__name__)

BACKLOG = 1024
"""Watchers that wait to be greeted."""
MOST_WATCHERS = 16
"""Watchers that are told anything; the end of the process is seen by others, too."""
MOST_HELD = 1000
"""Words that wait for a watcher which is held up."""
LARGEST = 1 << 16
"""[bytes] Of a word."""
_ROOT = 0
_PF_EXITING = 0x4


class ProcessLiveness:
    """Held by the process that is watched; it ends with the process."""

    def __init__(self, name: str, alone: bool = False) -> None:
        """Let others watch this process.

        Args:
            name: What the watchers ask for.
            alone: Refuse a name in use, under which nobody would watch this process; else it is
                left alone with a warning.

        Raises:
            RunError: it is in use, and `alone` asks for it.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._watchers: list[_Listener] = []
        self._lasting: dict[str, bytes] = {}
        try:
            self._socket.bind(_address(name))
        except OSError as error:
            if alone and error.errno == errno.EADDRINUSE:
                self._socket.close()
                raise RunError(
                    f"{_holder(name)} has the name {name!r}, by which the watchdog knows the "
                    "controller: another controller in this ROS domain, or somebody in its place"
                ) from None
            logger.warning(
                "process liveness %r: %s; is another controller running?", name, error.strerror
            )
            return
        self._socket.listen(BACKLOG)

    def tell(self, topic: str, message: bytes, lasting: bool = False) -> None:
        """Tell all watchers, without waiting for any; to be called before it is published.

        Args:
            topic: Where it will be published.
            message: Its serialised bytes.
            lasting: Whoever comes later is told the last one, and nobody misses one.
        """
        packet = _packet(topic, message)
        if lasting:
            self._lasting[topic] = packet
        self._watchers = [each for each in self._watchers if each.tell(packet, lasting)]

    def greet(self) -> None:
        """Tell new watchers what lasts; to be called now and then."""
        self._watchers = [each for each in self._watchers if each.catch_up()]
        while len(self._watchers) < MOST_WATCHERS:
            try:
                accepted, _ = self._socket.accept()
            except OSError:  # nobody is waiting, or the name was in use
                return
            watcher = _Listener(accepted)
            if _peer(accepted) is None:  # It would take a place of somebody's who acts on it.
                watcher.close()
            elif all(watcher.tell(packet, True) for packet in self._lasting.values()):
                self._watchers.append(watcher)

    def heard(self) -> list[tuple[str, bytes]]:
        """Topics and serialised messages that watchers have told since, without waiting."""
        return [_word(packet) for each in self._watchers for packet in each.heard()]

    def close(self) -> None:
        """Let the watchers know that this process is done."""
        for each in self._watchers:
            each.close()
        self._socket.close()


class _Listener:
    """The end of a watcher's connection in the process that is watched."""

    def __init__(self, accepted: socket.socket) -> None:
        self._socket = accepted
        self._socket.setblocking(False)
        self._held: deque[bytes] = deque(maxlen=MOST_HELD)

    def tell(self, packet: bytes, lasting: bool) -> bool:
        """Send; one that is held up misses what doesn't last. False: it has ended."""
        if lasting or not self._held:
            self._held.append(packet)
        there = self.catch_up()
        if self._held and not lasting and self._held[-1] is packet:
            self._held.pop()
        return there

    def catch_up(self) -> bool:
        """Send what it has missed; False: it has ended."""
        try:
            while self._held:
                self._socket.send(self._held[0])
                self._held.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return False
        return True

    def heard(self) -> Iterator[bytes]:
        """What it has sent, at most so much that a flood holds nobody up."""
        with contextlib.suppress(OSError):  # there is no more, or it has ended
            for _ in range(MOST_HELD):
                if not (packet := self._socket.recv(LARGEST)):
                    return
                yield packet

    def close(self) -> None:
        self._socket.close()


class ProcessWatcher:
    """Held by the process that watches."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._socket: socket.socket | None = None
        self._stat = -1
        self.stopped = False
        """Whether it was stopped (SIGSTOP, Ctrl-Z) when `ended` was asked last."""
        self._heard: list[tuple[str, bytes]] = []

    @property
    def connected(self) -> bool:
        """Whether the end of the watched process would be noticed."""
        return self._socket is not None

    def connect(self) -> bool:
        """Watch the present process of that name.

        Returns:
            False where this machine has none, of the same user or of root.
        """
        if self.connected and not self.ended():
            return True
        watcher = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        watcher.setblocking(False)
        try:
            watcher.connect(_address(self._name))
        except OSError:
            watcher.close()
            return False
        pid = _peer(watcher)
        if pid is None:
            watcher.close()
            return False
        self._socket = watcher
        try:
            # Kept open: a process that gets the number later isn't taken for this one.
            self._stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        except OSError:
            self._stat = -1  # of another namespace: its sockets tell
        return True

    def ended(self) -> bool:
        """Whether the process has ended since `connect`; True once, then it is forgotten."""
        if self._socket is None:
            return False
        ending = self._look()
        if not self._receive() and not ending:
            return False
        self.close()
        return True

    def heard(self) -> list[tuple[str, bytes]]:
        """Topics and serialised messages that it had told when `ended` was asked, once."""
        heard, self._heard = self._heard, []
        return heard

    def tell(self, topic: str, message: bytes) -> None:
        """Tell the process what will be published; one that is held up may miss it."""
        if self._socket is not None:
            with contextlib.suppress(OSError):  # that it has ended, `ended` tells
                self._socket.send(_packet(topic, message))

    def close(self) -> None:
        """Watch no longer."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._stat >= 0:
            os.close(self._stat)
        self._stat, self.stopped = -1, False

    def _receive(self) -> bool:
        """Read what has come; returns whether the other end is gone."""
        while self._socket is not None:
            try:
                packet = self._socket.recv(LARGEST)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                continue  # it ended with words of ours unread; what it told before comes now
            except OSError:
                return True
            if not packet:
                return True
            self._heard.append(_word(packet))
        return False

    def _look(self) -> bool:
        """Whether the process can't be saved: it was sent SIGKILL, or is taking itself apart."""
        if self._stat < 0:
            return False
        try:
            stat = os.pread(self._stat, LARGEST, 0)
        except OSError:
            return False  # gone: its sockets tell
        # See proc(5); the name, in parentheses, may hold anything.
        fields = stat.rpartition(b")")[2].split(None, 29)
        self.stopped = fields[0] == b"T"
        flags, pending = int(fields[6]), int(fields[28])
        return bool(flags & _PF_EXITING or pending & 1 << (signal.SIGKILL - 1))


def liveness_name(domain_id: int, topic: str) -> str:
    """The name for the process of the node that publishes `topic` (resolved) in a domain."""
    return f"hucrl_ros/{domain_id}{topic}"


def _packet(topic: str, message: bytes) -> bytes:
    return topic.encode() + b"\0" + message


def _word(packet: bytes) -> tuple[str, bytes]:
    """Topic and serialised message of a packet."""
    topic, _, message = packet.partition(b"\0")
    return topic.decode(errors="replace"), message


def _holder(name: str) -> str:
    """Who has a name in use, for a message."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        try:
            probe.connect(_address(name))
            pid, user = _credentials(probe)
        except OSError:  # it doesn't listen, or has too much to do
            return "another process"
    return f"process {pid} of the user with the number {user}"


def _peer(connection: socket.socket) -> int | None:
    """The process at the other end; None where it is another user's, who isn't root."""
    pid, user = _credentials(connection)
    return pid if user in (_ROOT, os.geteuid()) or os.geteuid() == _ROOT else None


def _credentials(connection: socket.socket) -> tuple[int, int]:
    """Process and user at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, user, _ = struct.unpack("iII", credentials)
    return int(pid), int(user)


def _address(name: str) -> bytes:
    return b"\0" + name.encode()
