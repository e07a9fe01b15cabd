"""A `hucrl up` that is watched, and hurt, from outside."""

import os
import re
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from hucrl_ros.experiments.workers import child_environment
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.processes import Exit, ProcessGroup
from hucrl_ros.run.progress import Phase

POLL_S = 0.02
"""[s] Between two looks."""
UP = "hucrl up"
"""The process that starts the nodes, where others are named by their node."""
STARTING = "start"
PHASES = {
    Phase.WAITING: STARTING,
    Phase.LOADING: "bundle",
    Phase.RESETTING: "reset",
    Phase.RUNNING: "episode",
    Phase.FITTING: "learning",
    Phase.SEARCHING: "learning",
    Phase.EXPORTING: "bundle",
    Phase.JUDGING: "bundle",
    Phase.AWAY: "learning",
    Phase.FINISHED: "end",
    Phase.STOPPED: "end",
}
"""What the parts of a run are called here, by what the supervisor tells."""
_TOLD = re.compile(r"^(?:episode \d+ \(\d+ of \d+\): )?(.*?)(?: after \d+ of \d+ episodes)?$")


class PlayedRun(AbstractContextManager["PlayedRun"]):
    """`hucrl up --resume` on a run, as a process; its end is the end of all that it started."""

    def __init__(
        self,
        run: RunFolder,
        domain: int,
        log: Path,
        words: tuple[str, ...] = (),
    ) -> None:
        """Start it.

        Args:
            run: A run that was prepared, and perhaps begun.
            domain: ROS domain that nobody else uses.
            log: Folder for what it prints.
            words: Further options.
        """
        log.mkdir(parents=True, exist_ok=True)
        own = {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
        self.run = run
        self.begin = time.monotonic()
        self.begin_epoch = time.time()
        # A file of its own: where none may grow beyond some size, there is room in it.
        name = f"up_{len(list(log.glob('up_*.log'))):03d}"
        self._log = log / f"{name}.log"
        self._exit: Exit | None = None
        self._group = ProcessGroup(log, child_environment(**own))
        command = [sys.executable, "-m", "hucrl_ros", "up", run.config.task, *words]
        command += ["--no-figures", "--resume", "--out", str(run.root)]
        self._pid = self._group.start(name, command)

    def __exit__(self, *error: object) -> None:
        self._group.stop()

    @property
    def output(self) -> str:
        """What the user has seen so far."""
        return self._log.read_bytes().decode(errors="replace")

    @property
    def phase(self) -> str:
        """Which part of the run it plays, one of `PHASES`."""
        for line in reversed(self.output.splitlines()):
            told = _TOLD.match(line)
            for phase, name in PHASES.items():
                if told and told[1] == phase.value:
                    return name
        return STARTING

    def pid(self, name: str) -> int | None:
        """The process of a node, or of `hucrl up` itself; None: it doesn't run."""
        if name == UP:
            return self._pid if self.exit() is None else None
        try:
            children = psutil.Process(self._pid).children()
            found = [c.pid for c in children if f"hucrl_ros.nodes.{name}" in c.cmdline()]
        except psutil.Error:
            return None
        return found[0] if found else None

    def exit(self) -> Exit | None:
        """How it ended; None: it runs."""
        if self._exit is None:
            self._exit = next(iter(self._group.ended()), None)
        return self._exit

    def wait(self, seconds: float) -> Exit | None:
        """Wait for the end, but not longer than that; returns how it ended."""
        deadline = time.monotonic() + seconds
        while self.exit() is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return self.exit()

    def left_over(self) -> list[str]:
        """Names of processes that still work on the run though they shouldn't.

        What this process has started itself, a driver beside the run say, is no such process.
        """
        found = []
        for process in psutil.process_iter(["cmdline", "status", "ppid"]):
            words: list[str] = process.info["cmdline"] or []
            ours = process.info["ppid"] == os.getpid()
            dead = process.info["status"] == psutil.STATUS_ZOMBIE
            if not (ours or dead) and any(str(self.run.root) in word for word in words):
                found.append(next((w for w in words if w.startswith("hucrl_ros.")), words[0]))
        return found

    def wait_until_gone(self, seconds: float) -> list[str]:
        """Wait until nothing works on the run; returns what still does after that time."""
        deadline = time.monotonic() + seconds
        while (left := self.left_over()) and time.monotonic() < deadline:
            time.sleep(5 * POLL_S)
        return left
