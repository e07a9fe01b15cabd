"""Where the trainings of a sweep run: processes on this machine."""

import os
import sys
from abc import ABC, abstractmethod
from pathlib import Path

from hucrl_ros.run.processes import Exit, ProcessGroup

TRAIN = "hucrl_ros.experiments.train"
"""Python module that trains in the run's folder that it gets as argument."""


class Workers(ABC):
    """Trainings side by side."""

    @abstractmethod
    def has_room(self) -> bool:
        """Whether one more training can begin."""

    @abstractmethod
    def start(self, name: str, run: Path) -> None:
        """Begin to train in the folder `run`, which holds the settings."""

    @abstractmethod
    def running(self) -> tuple[str, ...]:
        """Names of the trainings that aren't over."""

    @abstractmethod
    def ended(self) -> list[Exit]:
        """Trainings that have ended since the last call; those with code 0 have filled `run`."""

    @abstractmethod
    def stop(self) -> None:
        """End whatever runs."""


class LocalWorkers(Workers):
    """Processes on this machine; none outlives this one."""

    def __init__(self, count: int, logs: Path, module: str = TRAIN) -> None:
        """Prepare; nothing is started.

        Args:
            count: Trainings at the same time.
            logs: Folder of the logs, one file for each training.
            module: Python module that trains.
        """
        logs.mkdir(parents=True, exist_ok=True)
        self._count, self._module = count, module
        self._group = ProcessGroup(logs, child_environment(OMP_NUM_THREADS="1"))

    def has_room(self) -> bool:
        """Whether fewer than `count` run."""
        return len(self._group.alive()) < self._count

    def start(self, name: str, run: Path) -> None:
        """Start a process."""
        self._group.start(name, [sys.executable, "-m", self._module, str(run.absolute())])

    def running(self) -> tuple[str, ...]:
        """Names of the processes that run."""
        return self._group.alive()

    def ended(self) -> list[Exit]:
        """Processes that have ended since the last call."""
        return self._group.ended()

    def stop(self) -> None:
        """End the processes."""
        self._group.stop()


def child_environment(**changes: str) -> dict[str, str]:
    """This process's environment with `changes`; Python finds the same packages in it."""
    search_path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {**os.environ, "PYTHONPATH": search_path, **changes}
