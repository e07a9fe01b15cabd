"""Latency and jitter from joint state to command, between two processes over DDS."""

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hucrl_ros.benchmarks import Output

LAYERS = {"pendulum": (64, 64), "arm": (200, 200)}
"""Hidden units of each head's layers, for bundles made here."""
PLANNING: dict[str, dict[str, Any]] = {
    "off": {"planner.algorithm": "policy", "planner.horizon": 1},
    "on": {},
}
"""Settings of the controller."""


def run(
    bundle: Path | None,
    task: str,
    rates: Sequence[float],
    planning: Sequence[str],
    seconds: float,
    hog: bool,
    priority: int,
    settings: Mapping[str, Any],
    output: Output,
) -> None:
    """Print the table.

    Args:
        bundle: Its folder; None: one of random networks is made.
        task: Of that one.
        rates: Of joint states [Hz].
        planning: Keys of `PLANNING`.
        seconds: How long each is measured [s].
        hog: Whether to keep one core busy beside it.
        priority: Of SCHED_FIFO; 0: none.
        settings: Of the controller.
        output: Where the table goes.
    """
    from hucrl_ros.benchmarks import loop_report as report
    from hucrl_ros.benchmarks.loop_trial import LoopTrial, paced
    from hucrl_ros.runtime.manifest import read_manifest

    rows: list[report.Row] = []
    with tempfile.TemporaryDirectory(prefix="hucrl-loop-") as scratch:
        folder = Path(scratch)
        original = bundle or _untrained(task, folder / "untrained")
        task = read_manifest(original).task
        for rate, name in itertools.product(rates, planning):
            copy = folder / f"{rate:g}"
            if not copy.exists():
                paced(original, copy, rate, round(seconds * rate))
            trial = LoopTrial(copy, task, priority, hog, {**settings, **PLANNING[name]})
            row = report.Row.of(task, rate, name, priority, hog, trial.run())
            if not output.as_json:
                print(*report.text_table([row])[bool(rows) :], sep="\n", flush=True)
            rows.append(row)
    if output.as_json:
        print(report.as_json(rows))
    if output.folder is not None:
        files = report.write(output.folder, rows, output.command, output.machine)
        if not output.as_json:
            print(*files, sep="\n")


def _untrained(task: str, folder: Path) -> Path:
    """A bundle of random networks."""
    from hucrl_ros.benchmarks.arm import Arm
    from hucrl_ros.benchmarks.synthetic import untrained_bundle
    from hucrl_ros.config import ModelSettings

    made = Arm(0.1) if task == "arm" else task
    return untrained_bundle(folder, made, ModelSettings(layers=LAYERS[task])).path
