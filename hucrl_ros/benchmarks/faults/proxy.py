"""A TCP connection between two machines, which is bad while a file is there.

As a program: `python -m hucrl_ros.benchmarks.faults.proxy PORT TARGET_PORT KIND SWITCH`.
"""

import random
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

HOST = "127.0.0.1"
CUT, CORRUPTED = "cut", "corrupted bytes"
POLL_S = 0.05
CHUNK = 4096


class Proxy:
    """Passes bytes on in both directions; cut: none while it is bad; else damaged ones."""

    def __init__(self, port: int, target: int, kind: str, switch: Path) -> None:
        self._listener = socket.create_server((HOST, port))
        self._target, self._kind, self._switch = target, kind, switch
        self._draw = random.Random(0)

    def serve(self) -> None:
        """Take connections until the process ends."""
        while True:
            near, _ = self._listener.accept()
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        with suppress(OSError), near, socket.create_connection((HOST, self._target)) as far:
            back = threading.Thread(target=self._pass, args=(far, near), daemon=True)
            back.start()
            self._pass(near, far)
            back.join()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(CHUNK):
                target.sendall(self._treated(content))
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _treated(self, content: bytes) -> bytes:
        if self._kind == CUT:
            while self._switch.exists():
                time.sleep(POLL_S)
            return content
        return damaged(content, self._draw) if self._switch.exists() else content


def damaged(content: bytes, draw: random.Random) -> bytes:
    """With one byte changed."""
    place = draw.randrange(len(content))
    return b"".join(
        (content[:place], bytes([content[place] ^ draw.randint(1, 255)]), content[place + 1 :])
    )


if __name__ == "__main__":
    port, target, kind, switch = sys.argv[1:]
    Proxy(int(port), int(target), kind, Path(switch)).serve()
