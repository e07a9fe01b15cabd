"""How soon the safe command comes after the controller was killed or stopped."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hucrl_ros.benchmarks import Output, report
from hucrl_ros.benchmarks.loop import NODES, paced, run_trial, untrained
from hucrl_ros.benchmarks.page import browsers, in_a_run, served
from hucrl_ros.benchmarks.results import WatchdogRow
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.run.node_list import NodeSpec, Value

FOR_EVER = 1_000_000
"""Steps of an episode that only the signal ends."""
SIGNALS = ("SIGSTOP", "SIGKILL")
EACH_S = 3.0
"""[s] For one signal and what comes of it."""


def run(
    bundle: Path | None,
    task: str,
    kills: int,
    stops: int,
    load: int,
    priority: int,
    looking: int,
    port: int,
    seed: int,
    output: Output,
) -> None:
    """Print the table; the arguments are the options of `hucrl bench watchdog`."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="hucrl-watchdog-") as scratch:
        original = bundle or untrained(task, Path(scratch) / "untrained")
        rate = 1 / read_manifest(original).period
        if looking:
            copy = in_a_run(original, Path(scratch) / "run", FOR_EVER)
        else:
            copy = paced(original, Path(scratch) / "bundle", rate, FOR_EVER)
        played = read_manifest(copy).task
        page = served(port) if looking else {}
        for kill in range(kills):
            share = stops // kills + (kill < stops % kills)
            with browsers(looking, port):
                raw = play(copy, share, load, priority, seed + kill, page)
            for name, times in raw.items():
                if name in SIGNALS:
                    found.setdefault(name, []).extend(times)
    rows = [
        WatchdogRow.of(played, rate, name, load, priority, looking, np.array(times))
        for name, times in found.items()
        if times
    ]
    output.say(report.WATCHDOGS.header, *map(report.WATCHDOGS.line, rows))
    report.finish(output, rows, lambda folder: report.write_watchdogs(folder, rows, output))


def play(
    bundle: Path,
    stops: int,
    load: int,
    priority: int,
    seed: int,
    beside: Mapping[str, Sequence[str]],
) -> Mapping[str, Any]:
    """Stop a controller some times, then kill it; what the node `watchdog_source` measured.

    Args:
        bundle: Its manifest says task and rate.
        stops: How often the controller is stopped before.
        load: Busy processes beside it.
        priority: SCHED_FIFO priority of all processes; 0: ordinary scheduling.
        seed: Of the moments.
        beside: Name and command of other processes.

    Raises:
        RunError: the controller refuses, or a process ends early.
    """
    shared: dict[str, Value] = {
        "task": read_manifest(bundle).task,
        "mode": "real_time",
        "control.realtime_priority": priority,
        "safety.outage_periods": float(FOR_EVER),  # stopped, an episode would end by itself
    }
    nodes = (
        NodeSpec("watchdog", parameters=shared),
        NodeSpec(
            "watchdog_source",
            parameters={
                "bundle": str(bundle), "stops": stops, "seed": seed, "priority": priority
            },
            package=NODES,
        ),
    )  # fmt: skip
    controller = {**shared, "bundle": str(bundle), "control.lock_memory": priority > 0}
    return run_trial(nodes, controller, EACH_S * (stops + 1), load, killed=True, beside=beside)
