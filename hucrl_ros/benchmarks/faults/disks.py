"""Faults of disks, on a small file system of their own that only root can mount."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hucrl_ros.benchmarks.faults.fault import Fault
from hucrl_ros.benchmarks.faults.played_run import PlayedRun

SIZE = 64 * 2**20
"""[bytes] Of the file system."""
DISK = "disk"
_BLOCK = b"\0" * 2**16


class _Disk(Fault):
    nodes = (DISK,)

    def problem(self) -> str:
        """Why it can't be tried here."""
        if os.geteuid() != 0:
            return "only root can mount a small disk"
        return "" if shutil.which("mount") else "there is no command `mount`"

    @contextmanager
    def ground(self, folder: Path) -> Iterator[None]:
        """Mount it."""
        self._folder = folder
        folder.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
        try:
            yield
        finally:
            while folder.is_mount():  # once more where it was made read-only
                subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


class FullDisk(_Disk):
    """No byte is left on it."""

    name = "full disk"

    def begin(self, played: PlayedRun, node: str, pid: int) -> None:
        """Fill it."""
        with (self._folder / "ballast").open("wb", buffering=0) as file:
            try:
                while file.write(_BLOCK):
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def end(self) -> None:
        """Give the space back."""
        (self._folder / "ballast").unlink()


class ReadOnlyDisk(_Disk):
    """Nothing can be written on it any more, as after an error of the hardware.

    Files that are open for writing keep the kernel from making it read-only, so every process
    but the recorder meets it at its next file.
    """

    name = "read-only disk"

    def begin(self, played: PlayedRun, node: str, pid: int) -> None:
        """Have the kernel refuse writes."""
        self._remount("ro")

    def end(self) -> None:
        """Have it take them again."""
        self._remount("rw")

    def _remount(self, how: str) -> None:
        # A bind mount of the folder can be read-only while files on it are open for writing.
        if how == "ro":
            self._mount("--bind", str(self._folder), str(self._folder))
            self._mount("-o", "remount,bind,ro", str(self._folder))
        else:
            self._mount("-o", "remount,bind,rw", str(self._folder))

    def _mount(self, *words: str) -> None:
        subprocess.run(["mount", *words], check=True, capture_output=True)
