"""The planning kernel is compiled once, while the processes that test collect their tests."""

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = "HUCRL_TEST_COMPILES"
"""Environment variable with the file that is locked until the kernel is compiled."""


def begin():
    """Compile in a process of its own; without, each node would do so until one has ended."""
    lock = Path(tempfile.mkdtemp()) / "lock"
    os.environ[LOCK] = str(lock)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        # The lock is the open file's, which the process keeps open until it ends, however it ends.
        return subprocess.Popen([sys.executable, __file__], pass_fds=[file.fileno()])


def wait():
    """Until it is compiled, where somebody began."""
    if LOCK in os.environ:
        with Path(os.environ[LOCK]).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)


def main():
    from bundle_factory import write_bundle

    from hucrl_ros.controller.bundle import load_bundle
    from hucrl_ros.controller.engines.engine import make_engine

    with tempfile.TemporaryDirectory() as folder:
        make_engine(load_bundle(write_bundle(Path(folder) / "bundle")), 16, 6, "compiled", 1)


if __name__ == "__main__":
    main()
