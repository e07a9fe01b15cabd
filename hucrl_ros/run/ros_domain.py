"""A ROS domain for each run, so that two runs on one machine don't hear each other."""

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from hucrl_ros.errors import ConfigError, RunError

LARGEST_DOMAIN = 101
"""Beyond it, DDS's ports lie where the kernel hands out ports to anybody."""
LARGEST_WISHED_DOMAIN = 232
"""Beyond it, there are no ports."""
_FIRST_PORT, _PORTS_PER_DOMAIN, _FIRST_UNICAST = 7400, 250, 10
_PROBED = 10
"""Participants whose ports are looked at: the first ones may have ended, and others be left."""


class Domain:
    """A domain id that no other `Domain` on this machine has, until it is closed.

    Domain 0, where everybody's tools live, is used only on request. The lock is a file in the
    folder for temporary files; the kernel releases it when this process ends, however it ends.
    """

    def __init__(self, wished: int | None = None, folder: Path | None = None) -> None:
        """Take the wished domain, or another one where that is taken.

        Args:
            wished: Domain id to try first.
            folder: Folder of the lock files; None: the one for temporary files.

        Raises:
            RunError: all domains are taken.
        """
        folder = folder or Path(tempfile.gettempdir())
        others = (i for i in range(1, LARGEST_DOMAIN + 1) if i != wished)
        candidates = [*([] if wished is None else [wished]), *others]
        for number in candidates:
            # Whoever wishes for a domain may have tools of their own there: its ports don't count.
            if number != wished and not _ports_are_free(number):
                continue
            lock = _lock(folder / f"hucrl_ros_domain_{number}.lock")
            if lock is not None:
                self.number = number
                self._lock = lock
                return
        raise RunError(f"all ROS domains up to {LARGEST_DOMAIN} are in use on this machine")

    def close(self) -> None:
        """Let others have the domain."""
        os.close(self._lock)

    def __enter__(self) -> "Domain":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def wished_domain(text: str | None) -> int | None:
    """The domain that the environment variable ROS_DOMAIN_ID asks for.

    Raises:
        ConfigError: it is no domain id.
    """
    if not text:
        return None
    if not text.isdecimal() or int(text) > LARGEST_WISHED_DOMAIN:
        raise ConfigError(
            f"environment variable ROS_DOMAIN_ID = {text!r}: expected 0 to {LARGEST_WISHED_DOMAIN}"
        )
    return int(text)


def _lock(path: Path) -> int | None:
    """File descriptor that holds the lock, or None where another process has it."""
    for flags in _opening_modes():
        try:
            descriptor = os.open(path, flags, 0o666)
        except OSError:  # Not there yet, or another user's.
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor
    return None


def _opening_modes() -> Iterable[int]:
    # Kernels may refuse O_CREAT for another user's file in a shared folder.
    return (os.O_RDONLY | os.O_CLOEXEC, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC)


def _ports_are_free(domain: int) -> bool:
    """Whether no DDS participant of somebody else has one of the domain's first ports."""
    first = _FIRST_PORT + _PORTS_PER_DOMAIN * domain + _FIRST_UNICAST
    return all(_is_free(first + 2 * participant) for participant in range(_PROBED))


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
