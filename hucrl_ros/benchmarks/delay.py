"""Return against the delay of commands, with and without latency compensation."""

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hucrl_ros.benchmarks import Output

if TYPE_CHECKING:
    from hucrl_ros.benchmarks.delay_report import Row
    from hucrl_ros.runtime.bundle import Bundle
    from hucrl_ros.tasks import Task

MODES = ("never", "auto")
"""Of `control.latency_compensation`."""
TRAINED = "pendulum"
"""The task that is learned first where no bundle is given."""


def run(
    paths: Sequence[Path],
    train_seeds: Sequence[int],
    delays: Sequence[float],
    tick_ms: float,
    seeds: Sequence[int],
    real_time: bool,
    priority: int,
    output: Output,
) -> None:
    """Print the table.

    Args:
        paths: Bundles' folders; empty: `TRAINED` is learned first.
        train_seeds: Of those trainings.
        delays: Of commands [ms].
        tick_ms: Time that a tick takes on the simulated clock [ms].
        seeds: Of the episodes.
        real_time: Through ROS instead, on this machine's clock.
        priority: Of SCHED_FIFO, in real time; 0: none.
        output: Where the table goes.
    """
    from hucrl_ros.benchmarks import delay_report as report  # torch
    from hucrl_ros.experiments.evaluation import open_bundle

    with tempfile.TemporaryDirectory(prefix="hucrl-delay-") as scratch:
        folders = paths or _train(train_seeds, Path(scratch))
        entries = [(path, *open_bundle(path)) for path in folders]
        rows = list(_play(entries, delays, None if real_time else tick_ms, seeds, priority))
    print(*report.table(rows, as_json=output.as_json), sep="\n")
    if output.folder is not None:
        files = report.write(output.folder, rows, output.command, entries[0][2])
        if not output.as_json:
            print(*files, sep="\n")


def _train(seeds: Sequence[int], folder: Path) -> list[Path]:
    """The last bundle of a run with each seed."""
    import torch

    from hucrl_ros.config_files import load_config, task_config_path
    from hucrl_ros.experiments.train import train
    from hucrl_ros.runs import RunFolder

    torch.set_num_threads(1)
    paths = []
    for seed in seeds:
        config = load_config(task_config_path(TRAINED), {"seed": seed})
        run_folder = RunFolder.create(folder / f"seed{seed}", config)
        train(config, run_folder)
        paths.append(run_folder.bundle(config.episodes))
    return paths


def _play(
    entries: "list[tuple[Path, Bundle, Task]]",
    delays: Sequence[float],
    tick_ms: float | None,
    seeds: Sequence[int],
    priority: int,
) -> "Iterator[Row]":
    """A row for each episode; in real time where no time of a tick is given."""
    from hucrl_ros.benchmarks.delay_report import Row
    from hucrl_ros.benchmarks.delay_trial import play_real_time
    from hucrl_ros.config import ControlSettings
    from hucrl_ros.experiments.delayed import play_delayed

    for path, bundle, task in entries:
        name = f"{path.absolute().parents[1].name}/{path.name}"
        for delay, mode, seed in itertools.product(delays, MODES, seeds):
            control = ControlSettings(
                latency_compensation=mode,
                extra_delay=1e-3 * delay,
                realtime_priority=priority,
            )
            if tick_ms is None:
                total, share, taken = play_real_time(bundle, task, seed, control)
            else:
                played = play_delayed(bundle, task, seed, 1e-3 * delay, 1e-3 * tick_ms, control)
                total, share, taken = played.total, played.compensated / task.steps, tick_ms
            yield Row(name, delay, taken, mode, seed, total, share)
