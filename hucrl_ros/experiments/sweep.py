"""Many trainings side by side, each in a process of its own; a stopped sweep goes on later."""

import fcntl
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hucrl_ros.description import find_description
from hucrl_ros.errors import BundleError, ConfigError, RunError
from hucrl_ros.experiments.cells import Cell
from hucrl_ros.experiments.children import child_environment
from hucrl_ros.experiments.statistics import Row
from hucrl_ros.processes import Exit, ProcessGroup
from hucrl_ros.runs import RunFolder
from hucrl_ros.runtime.manifest import read_manifest
from hucrl_ros.summary import read_summary

POLL_S = 0.1
"""[s] Between two looks at the processes."""
TRAIN_CELL = "hucrl_ros.experiments.train_cell"
LOGS = "logs"
PARTIAL = ".partial"
"""Suffix of the folder of a cell that isn't finished."""


class Sweep:
    """Runs cells, each in a process of its own, and keeps what is finished.

    A cell's folder gets its name when its training has finished; what a killed sweep leaves
    behind is a folder with the suffix `PARTIAL`, which the next one starts anew.
    """

    def __init__(self, folder: Path, cells: Sequence[Cell], module: str = TRAIN_CELL) -> None:
        """Look at what is finished already.

        Args:
            folder: Where the runs lie.
            cells: What to train.
            module: Python module that trains in the run's folder that it gets as argument.

        Raises:
            ConfigError: a finished run of that name had other settings.
        """
        self._folder = folder
        self._module = module
        self.cells = tuple(cells)
        for cell in self.finished:
            run = self.run_of(cell)
            if run.config != cell.config or not _same_robot(run, cell):
                raise ConfigError(
                    f"{self.run_of(cell).root}: was made with other settings; "
                    "choose another folder, or delete this one"
                )

    @property
    def finished(self) -> tuple[Cell, ...]:
        """Cells with a finished training."""
        return tuple(cell for cell in self.cells if self.run_of(cell).summary.is_file())

    def run_of(self, cell: Cell) -> RunFolder:
        """Where a cell's finished training lies."""
        return RunFolder(self._folder / cell.name)

    def run(self, workers: int, report: Callable[[Cell, Exit | None], None]) -> list[Exit]:
        """Train every cell that isn't finished.

        No process is left when it returns, however it does.

        Args:
            workers: Trainings at the same time.
            report: Called with each cell that ends; None: it has finished.

        Returns:
            The trainings that failed.

        Raises:
            RunError: another sweep works in the same folder.
        """
        (self._folder / LOGS).mkdir(parents=True, exist_ok=True)
        with _locked(self._folder):
            finished = self.finished
            todo = {cell.name: cell for cell in self.cells if cell not in finished}
            waiting, failures = list(todo), []
            environment = child_environment(OMP_NUM_THREADS="1")
            group = ProcessGroup(self._folder / LOGS, environment)
            try:
                while waiting or group.alive():
                    while waiting and len(group.alive()) < workers:
                        name = waiting.pop(0)
                        group.start(name, self._command(todo[name]))
                    time.sleep(POLL_S)
                    failures += self._collect(group, todo, report)
                failures += self._collect(group, todo, report)
            finally:
                group.stop()
        return failures

    def _command(self, cell: Cell) -> list[str]:
        partial = self._folder / (cell.name + PARTIAL)
        shutil.rmtree(partial, ignore_errors=True)
        RunFolder.create(partial, cell.config, cell.described)
        return [sys.executable, "-m", self._module, str(partial.absolute())]

    def _collect(
        self,
        group: ProcessGroup,
        cells: dict[str, Cell],
        report: Callable[[Cell, Exit | None], None],
    ) -> list[Exit]:
        """Give finished runs their names; returns the others that ended."""
        failures = []
        for exit_ in group.ended():
            cell = cells[exit_.name]
            if exit_.code == 0:
                partial = self._folder / (cell.name + PARTIAL)
                partial.rename(self.run_of(cell).root)
                report(cell, None)
            else:
                failures.append(exit_)
                report(cell, exit_)
        return failures

    def rows(self) -> list[Row]:
        """One row for each episode of the finished cells, in the order of the cells."""
        return [row for cell in self.finished for row in _rows_of(cell, self.run_of(cell))]


def _same_robot(run: RunFolder, cell: Cell) -> bool:
    stored = find_description(run.robot, cell.config.task)
    if stored is None or cell.described is None:
        return stored is cell.described
    return stored.same_as(cell.described)


def _rows_of(cell: Cell, run: RunFolder) -> list[Row]:
    summary = read_summary(run.summary)
    return [
        Row(
            task=summary.task,
            strategy=summary.strategy,
            action_penalty=summary.action_penalty,
            setting=cell.setting,
            value=cell.value,
            seed=summary.seed,
            episode=episode.index,
            return_=episode.return_,
            promised_return=episode.promised_return,
            model_error=_model_error(run, episode.index),
            fit_s=episode.fit_s,
            search_s=episode.search_s,
            wall_s=summary.wall_s,
            cpu_s=summary.cpu_s,
        )
        for episode in summary.episodes
    ]


def _model_error(run: RunFolder, episode: int) -> float | None:
    try:
        return read_manifest(run.bundle(episode)).report.model_error
    except BundleError:
        return None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(f"{folder}: another sweep works there") from None
        yield
