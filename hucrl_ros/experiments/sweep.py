"""Many trainings side by side, each in a process of its own; a stopped sweep goes on later."""

import fcntl
import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hucrl_ros.config.task_file import find_description, known_tasks
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.errors import BundleError, ConfigError, RunError
from hucrl_ros.experiments.grid import Cell
from hucrl_ros.experiments.statistics import Row, read_rows
from hucrl_ros.experiments.workers import Workers
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.processes import Exit
from hucrl_ros.run.summary import EpisodeSummary, read_summary

POLL_S = 0.1
"""[s] Between two looks at the processes."""
LOGS = "logs"
PARTIAL = ".partial"
"""Suffix of the folder of a cell that isn't finished."""


class Sweep:
    """Runs cells, each in a process of its own, and keeps what is finished.

    A cell's folder gets its name when its training has finished; what a killed sweep leaves
    behind is a folder with the suffix `PARTIAL`, in which the next one goes on.
    """

    def __init__(self, folder: Path, cells: Sequence[Cell], joined: Iterable[Path] = ()) -> None:
        """Look at what is finished already.

        Args:
            folder: Where the runs lie.
            cells: What to train.
            joined: Tables of runs that were made elsewhere and aren't made again; of a run that
                lies in the folder its own rows count.

        Raises:
            ConfigError: a run of that name had other settings, or a table can't be read, has a
                run that is none of the cells, or not each of its episodes once.
        """
        self.folder = folder
        self.cells = tuple(cells)
        self._joined = _by_cell(joined, self.cells)
        for cell in self.finished:
            if not _is_of(self.run_of(cell), cell):
                raise _others(self.run_of(cell))

    @property
    def finished(self) -> tuple[Cell, ...]:
        """Cells with a finished training in the folder."""
        return tuple(cell for cell in self.cells if self.run_of(cell).summary.is_file())

    @property
    def missing(self) -> tuple[Cell, ...]:
        """Cells that neither lie in the folder nor were joined."""
        known = {*(cell.name for cell in self.finished), *self._joined}
        return tuple(cell for cell in self.cells if cell.name not in known)

    def run_of(self, cell: Cell) -> RunFolder:
        """Where a cell's finished training lies."""
        return RunFolder(self.folder / cell.name)

    @property
    def logs(self) -> Path:
        """Folder of the logs, one file for each training."""
        return self.folder / LOGS

    def run(self, workers: Workers, report: Callable[[Cell, Exit | None], None]) -> list[Exit]:
        """Train every cell that isn't finished.

        No training goes on when it returns, however it does.

        Args:
            workers: Where they are trained.
            report: Called with each cell that ends; None: it has finished.

        Returns:
            The trainings that failed.

        Raises:
            RunError: another sweep works in the same folder.
            ConfigError: a training of that name was begun with other settings.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder):
            todo = {cell.name: cell for cell in self.missing}
            for cell in self.missing:
                if _is_others(RunFolder(self._partial(cell)), cell):
                    raise _others(RunFolder(self._partial(cell)))
            waiting, failures = list(todo), list[Exit]()
            try:
                while waiting or workers.running():
                    while waiting and workers.has_room():
                        name = waiting.pop(0)
                        workers.start(name, self._prepared(todo[name]))
                    time.sleep(POLL_S)
                    failures += self._collect(workers, todo, report)
                failures += self._collect(workers, todo, report)
            finally:
                workers.stop()
        return failures

    def _partial(self, cell: Cell) -> Path:
        return self.folder / (cell.name + PARTIAL)

    def _prepared(self, cell: Cell) -> Path:
        """A folder to train in: a new run's, or one that was begun with the same settings."""
        partial = self._partial(cell)
        if not _was_begun(RunFolder(partial), cell):
            shutil.rmtree(partial, ignore_errors=True)
            RunFolder.create(partial, cell.config, cell.described)
        elif RunFolder(partial).config != cell.config:
            RunFolder(partial).change(cell.config)
        return partial

    def _collect(
        self, workers: Workers, cells: dict[str, Cell], report: Callable[[Cell, Exit | None], None]
    ) -> list[Exit]:
        """Give finished runs their names; returns the others that ended."""
        failures = []
        for exit_ in workers.ended():
            cell = cells[exit_.name]
            if exit_.code == 0:
                self._partial(cell).rename(self.run_of(cell).root)
                report(cell, None)
            else:
                failures.append(exit_)
                report(cell, exit_)
        return failures

    def rows(self) -> list[Row]:
        """One row for each episode of what is finished or joined, in the order of the cells."""
        finished = {cell.name for cell in self.finished}
        return [
            row
            for cell in self.cells
            for row in (
                _rows_of(cell, self.run_of(cell))
                if cell.name in finished
                else self._joined.get(cell.name, ())
            )
        ]


def _by_cell(tables: Iterable[Path], cells: Sequence[Cell]) -> dict[str, list[Row]]:
    """Rows of tables by the names of their cells; of a run in two of them the last one's count."""
    names = {_swept(cell): cell.name for cell in cells}
    episodes = {cell.name: cell.config.episodes for cell in cells}
    found: dict[str, list[Row]] = {}
    for path in tables:
        of_path: dict[str, list[Row]] = {}
        for row in read_rows(path):
            key = (row.task, row.strategy, row.action_penalty, row.setting, row.value, row.seed)
            if key not in names:
                told = ", ".join(str(part) for part in key if part != "")
                raise ConfigError(f"{path}: has a run that the sweep doesn't ask for: {told}")
            of_path.setdefault(names[key], []).append(row)
        for name, rows in of_path.items():
            found_in = sorted(row.episode for row in rows)
            expected = list(range(episodes[name]))
            if found_in != expected:
                raise ConfigError(
                    f"{path}: {name}: {len(found_in)} episodes, the last {found_in[-1]}; expected "
                    f"{len(expected)}, from 0 to {expected[-1]}, each once"
                )
        found |= of_path
    return found


def _swept(cell: Cell) -> tuple[str, str, float, str, str, int]:
    """What tells a cell's rows from those of others."""
    of = cell.config
    return of.task, of.strategy, of.action_penalty, cell.setting, cell.value, of.seed


def _others(run: RunFolder) -> ConfigError:
    return ConfigError(
        f"{run.root}: was made with other settings; choose another folder by --runs, or delete "
        "this one"
    )


def _is_others(run: RunFolder, cell: Cell) -> bool:
    """Whether a begun training has other settings; not where nobody can read them."""
    try:
        return run.config_path.is_file() and not _is_of(run, cell)
    except (ConfigError, RunError):
        return False


def _was_begun(run: RunFolder, cell: Cell) -> bool:
    if not run.config_path.is_file():
        return False
    try:
        run.require_order()
        return _is_of(run, cell)
    except (ConfigError, RunError):
        return False


def _is_of(run: RunFolder, cell: Cell) -> bool:
    # On which device a run was learned doesn't matter.
    config = cell.config.model_copy(update={"device": run.config.device})
    return run.config == config and _same_robot(run, cell)


def _same_robot(run: RunFolder, cell: Cell) -> bool:
    if cell.config.task in known_tasks():  # played as this program describes it now
        return True
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
            return_=math.nan if episode.cut else episode.return_,
            promised_return=episode.predicted_return,
            model_error=_model_error(run, episode.index),
            fit_s=episode.fit_s,
            search_s=episode.search_s,
            wall_s=summary.wall_s,
            cpu_s=summary.cpu_s,
            **_kept(episode),
        )
        for episode in summary.episodes
    ]


def _kept(episode: EpisodeSummary) -> dict[str, Any]:
    """How well it kept within constraints, where the robot has some."""
    if episode.outside is None:
        return {}
    return {
        "steps": episode.steps,
        "filtered": episode.changed,
        "outside": sum(episode.outside.values()),
        "deepest": max((episode.deepest or {}).values(), default=0.0),
    }


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
