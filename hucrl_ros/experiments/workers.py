"""Where the trainings of a sweep run: processes on this machine, or a Ray cluster."""

import importlib
import io
import logging
import os
import shutil
import socket
import sys
import tempfile
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from hucrl_ros.errors import ConfigError, RunError, one_line
from hucrl_ros.run.processes import Exit, ProcessGroup

TRAIN = "hucrl_ros.experiments.train"
"""Python module that trains in the run's folder that it gets as argument."""


class LocalWorkers:
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
        """Begin to train in the folder `run`, which holds the settings."""
        self._group.start(name, [sys.executable, "-m", self._module, str(run.absolute())])

    def running(self) -> tuple[str, ...]:
        """Names of the processes that run."""
        return self._group.alive()

    def ended(self) -> list[Exit]:
        """Processes that have ended since the last call; those with code 0 have filled `run`."""
        return self._group.ended()

    def stop(self) -> None:
        """End the processes."""
        self._group.stop()


def child_environment(**changes: str) -> dict[str, str]:
    """This process's environment with `changes`; Python finds the same packages in it."""
    search_path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {**os.environ, "PYTHONPATH": search_path, **changes}


LOCAL = "local"
"""Address of a cluster that is started on this machine and ends with the sweep."""
PATIENCE_S = 5.0
"""[s] Longest wait for a connection to the address."""
RETRIES = 3
"""How often a training is begun anew because its worker died."""


class Trained(NamedTuple):
    """What comes back from a worker."""

    code: int
    log: str
    run: bytes
    """The run's folder, packed; empty where the training failed."""


def train_packed(run: bytes, module: str) -> Trained:
    """Train in a temporary folder, on whatever machine of the cluster this is.

    Args:
        run: The run's folder with its settings, packed.
        module: Python module whose `main` trains in the folder that it gets.
    """
    log = io.StringIO()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        _unpack(run, folder)
        with redirect_stdout(log), redirect_stderr(log):
            try:
                code = importlib.import_module(module).main(folder) or 0
            except SystemExit as end:  # Ray would take it for the wish to end its worker.
                log.write(f"{end}\n")
                code = 1
        return Trained(code, log.getvalue(), b"" if code else _packed(folder))


class RayWorkers:
    """The processors of a Ray cluster, one for each training.

    Settings travel there and the run's folder comes back, so no disk need be shared; this
    package must be installed on each machine. Ray begins a training anew where its worker dies.
    """

    def __init__(self, address: str, logs: Path, module: str = TRAIN) -> None:
        """Connect.

        Args:
            address: Of the cluster, or `LOCAL`.
            logs: Folder of the logs, one file for each training.
            module: Python module that trains.

        Raises:
            ConfigError: Ray isn't installed.
            RunError: there is no cluster at the address.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError:
            raise ConfigError(
                "--ray: Ray is not installed; pip install 'ray', the version in "
                "requirements-dev.txt"
            ) from None
        self._ray, self._logs, self._module = ray, logs, module
        self._tasks: dict[Any, tuple[str, Path]] = {}
        """Name and run's folder of each training that isn't over."""
        _refuse_closed_port(address)
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        own = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        try:
            ray.init(address, **quiet, **(own if address == LOCAL else {}))
        except (ConnectionError, ValueError, RuntimeError) as error:
            line = f"--ray {address}: no Ray cluster there: {one_line(error)}"
            raise RunError(line) from None
        logs.mkdir(parents=True, exist_ok=True)
        # A worker for each training: nothing that one leaves behind reaches the next.
        self._train = ray.remote(num_cpus=1, max_calls=1, max_retries=RETRIES)(train_packed)

    def has_room(self) -> bool:
        """Whether the cluster, as large as it is now, has a processor left."""
        return len(self._tasks) < int(self._ray.cluster_resources().get("CPU", 0))

    def start(self, name: str, run: Path) -> None:
        """Send a training away."""
        self._tasks[self._train.remote(_packed(run), self._module)] = (name, run)

    def running(self) -> tuple[str, ...]:
        """Names of the trainings that aren't over."""
        return tuple(name for name, _ in self._tasks.values())

    def ended(self) -> list[Exit]:
        """Trainings that have ended since the last call."""
        if not self._tasks:
            return []
        over, _ = self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        return [self._collect(task, *self._tasks.pop(task)) for task in over]

    def _collect(self, task: Any, name: str, run: Path) -> Exit:  # noqa: ANN401
        try:
            trained: Trained = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            trained = Trained(1, f"{error}\n", b"")
        with (self._logs / f"{name}.log").open("a", encoding="utf-8") as log:
            log.write(trained.log)
        if trained.code == 0:
            _replace(run, trained.run)
        words = [line.strip() for line in trained.log.splitlines() if line.strip()]
        return Exit(name, trained.code, words[-1] if words else "")

    def stop(self) -> None:
        """Call off whatever runs, and leave the cluster."""
        for task in self._tasks:
            self._ray.cancel(task, force=True)
        self._ray.shutdown()


Workers = LocalWorkers | RayWorkers
"""Where trainings run side by side."""


def _refuse_closed_port(address: str) -> None:
    """Refuse HOST:PORT where nobody listens; Ray would try for minutes.

    Raises:
        RunError: nobody does.
    """
    host, colon, port = address.rpartition(":")
    if not colon or "//" in host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), PATIENCE_S).close()
    except (OSError, OverflowError) as error:
        raise RunError(f"--ray {address}: no Ray cluster there: {error}") from None


def _packed(folder: Path) -> bytes:
    """All files of a folder."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as files:
        for path in sorted(folder.rglob("*")):
            files.write(path, path.relative_to(folder))
    return archive.getvalue()


def _replace(folder: Path, archive: bytes) -> None:
    """Put a training in the place of the folder that was sent.

    A kill between two renames leaves neither there: that is when the training comes once more.
    """
    arriving = folder.with_name(f".{folder.name}")
    shutil.rmtree(arriving, ignore_errors=True)
    arriving.mkdir()
    _unpack(archive, arriving)
    sent = folder.with_name(f".{folder.name}.sent")
    shutil.rmtree(sent, ignore_errors=True)
    folder.rename(sent)
    arriving.rename(folder)
    shutil.rmtree(sent)


def _unpack(archive: bytes, folder: Path) -> None:
    """Put files into a folder, in the place of those of the same name.

    Whatever their names are, they stay within it; of tar files Python 3.11.2, Debian 12's, can't
    promise that.
    """
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        files.extractall(folder)
