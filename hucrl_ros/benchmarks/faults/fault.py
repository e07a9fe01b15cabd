"""What every fault has in common, and every bad line."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hucrl_ros.benchmarks.faults.played_run import UP, PlayedRun
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.node_list import CONTROLLER, SIMULATOR, SUPERVISOR

NODES = (SIMULATOR, "recorder", "watchdog", CONTROLLER, "learner", SUPERVISOR)
EVERYBODY = (*NODES, UP)
LOCKSTEP, REAL_TIME = "lockstep", "real_time"
MODES = (LOCKSTEP, REAL_TIME)


class Place(NamedTuple):
    """Where a fault is tried."""

    run: RunFolder
    scratch: Path
    """For logs and switches; outside of the run's folder."""
    domain: int
    """ROS domain of the run."""


class Fault(ABC):
    """Something that goes wrong; one object for one time."""

    name: str
    nodes: tuple[str, ...]
    """Whom it can hit."""
    modes: tuple[str, ...] = MODES
    lasts_s: float = 0.0
    """[s] From `begin` to `end`; 0: `end` comes when the session is over."""
    on_robot = False
    """Runs are played with `--no-simulator`."""
    awaited: tuple[str, ...] = ()
    """Nodes after whose loss, in an episode in real time, the safe command must come."""

    def problem(self) -> str:
        """Why it can't be tried here; empty: it can."""
        return ""

    @contextmanager
    def ground(self, folder: Path) -> Iterator[None]:
        """Prepare the folder in which the run will lie."""
        yield

    @contextmanager
    def beside(self, place: Place) -> Iterator[tuple[str, ...]]:
        """Start what it needs beside the run; yields options of `hucrl up`."""
        yield ()

    @abstractmethod
    def begin(self, played: PlayedRun, node: str, pid: int) -> None:
        """Let it happen to a node's process."""

    def end(self) -> None:  # noqa: B027  # most faults leave nothing to put right
        """Put things right again, as far as that is possible."""


class BadLine(Fault):
    """A process between two others that is bad while a file, its switch, is there."""

    def switch(self, place: Place) -> Path:
        """The file, which isn't there yet."""
        self._switch = place.scratch / "bad"
        self._switch.unlink(missing_ok=True)
        return self._switch

    def begin(self, played: PlayedRun, node: str, pid: int) -> None:
        """Let it be bad."""
        self._switch.touch()

    def end(self) -> None:
        """Let it be good again."""
        self._switch.unlink(missing_ok=True)
