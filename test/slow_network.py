"""A network that lies between two machines: it can be held up in mid-transfer, and cut."""

import contextlib
import socket
import threading


class Network:
    """Passes connections on to a port of this machine; use it as a context manager."""

    def __init__(self, target, held="", after=0):
        """Hold answers to requests that name `held` once `after` bytes of them have passed."""
        self._target, self._held, self._after = target, held, after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.is_holding, self.is_open = threading.Event(), threading.Event()
        self.requests = []
        """First bytes of each, with its head."""

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *unused):
        self.is_open.set()
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        with contextlib.suppress(OSError), near:
            head = near.recv(65536)
            self.requests.append(head.decode(errors="replace"))
            with socket.create_connection(("127.0.0.1", self._target)) as far:
                far.sendall(head)
                back = threading.Thread(target=self._pass, args=(near, far), daemon=True)
                back.start()
                passed, held = 0, bool(self._held) and self._held.encode() in head
                while content := far.recv(4096):
                    near.sendall(content)
                    passed += len(content)
                    if held and passed > self._after and not self.is_open.is_set():
                        self.is_holding.set()
                        self.is_open.wait()
                near.shutdown(socket.SHUT_WR)

    def _pass(self, source, target):
        with contextlib.suppress(OSError):
            while content := source.recv(65536):
                target.sendall(content)
