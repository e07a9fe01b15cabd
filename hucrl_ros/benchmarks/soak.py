"""Hours of control with swaps and learning beside it: what grows, and what the machine takes."""

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hucrl_ros.benchmarks import Output, bare_loop, learning_load, soak_report
from hucrl_ros.benchmarks.bare_loop import BareLoop
from hucrl_ros.benchmarks.loop import NODES, paced, run_trial, untrained
from hucrl_ros.benchmarks.process_samples import Sampler
from hucrl_ros.benchmarks.soak_results import PaceRow, Soak, growths
from hucrl_ros.benchmarks.watchdog import FOR_EVER
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.run.node_list import NodeSpec, Value

RATES = {"pendulum": 80.0, "arm": 50.0}
"""[Hz] Of joint states, by task."""
LEARNED = {"pendulum": "pendulum", "arm": "reacher"}
"""What is learned beside it, by task."""
SAMPLES = 500
"""Of each process, at most."""
SOONEST_S = 1.0
"""[s] Between two samples."""


def run(
    task: str,
    rate: float | None,
    minutes: float,
    swap_s: float,
    learning: bool,
    priority: int,
    settings: Mapping[str, Any],
    output: Output,
) -> None:
    """Print the tables; the arguments are the options of `hucrl bench soak`."""
    rate = rate or RATES[task]
    sampler = Sampler(max(60 * minutes / SAMPLES, SOONEST_S))
    with tempfile.TemporaryDirectory(prefix="hucrl-soak-") as scratch:
        folder = Path(scratch)
        original = untrained(task, folder / "untrained")
        steps = round(60 * minutes * rate)
        bundles = tuple(paced(original, folder / name, rate, steps) for name in ("one", "other"))
        beside = {"bare loop": bare_loop.command(folder / "bare.npz", 1 / rate, priority)}
        if learning:
            beside["learner"] = learning_load.command(LEARNED[task], folder)
        raw = play(bundles, swap_s, priority, settings, beside, sampler)
        bare = BareLoop.read(folder / "bare.npz")
    published, answered = (np.array(raw[key], float) for key in ("published", "answered"))
    begin, end = float(published[0]), float(np.nanmax(published))
    bare, period = bare.during(begin, end), 1 / rate
    sampler.keep(begin, end)
    paces = [
        PaceRow.of("command after joint state", period, published, answered - published, bare),
        PaceRow.of("bare loop", period, bare.due, bare.late, bare),
    ]
    loads = [when for when, path in raw["heard"] if path in raw["bundles"]]
    found = Soak(
        task=task,
        rate=rate,
        minutes=minutes,
        priority=priority,
        realtime=bare.realtime,
        swaps=len(loads),
        refused=unanswered(raw["offered"], loads, end - swap_s),
        stolen_s=round(float(raw["stolen_s"]), 3),
        paces=paces,
        growths=growths(sampler.times, sampler.samples),
    )
    soak_report.show(found, sampler, published, answered - published, bare, output)


def unanswered(offered: Sequence[float], loads: Sequence[float], before: float) -> int:
    """Bundles that were offered, the last one `before` then, and not loaded until the next was.

    Args:
        offered: When each was [s].
        loads: When one was loaded [s].
        before: A later one needn't have been loaded yet [s].
    """
    ends = [*offered[1:], math.inf]
    return sum(
        begin <= before and not any(begin <= load < end for load in loads)
        for begin, end in zip(offered, ends, strict=True)
    )


def play(
    bundles: tuple[Path, ...],
    swap_s: float,
    priority: int,
    settings: Mapping[str, Any],
    beside: Mapping[str, list[str]],
    sampler: Sampler,
) -> dict[str, Any]:
    """One long episode; what the node `soak_source` measured, and `bundles`.

    Args:
        bundles: Two that are swapped; their manifests say task, rate and number of states.
        swap_s: Time between two swaps [s].
        priority: SCHED_FIFO priority of all processes but the learner; 0: ordinary scheduling.
        settings: Of the controller, by dotted key.
        beside: Other processes: names and commands.
        sampler: Looks at all of them.

    Raises:
        RunError: the controller refuses, or a process ends early.
    """
    manifest = read_manifest(bundles[0])
    shared: dict[str, Value] = {
        "task": manifest.task,
        "mode": "real_time",
        "control.realtime_priority": priority,
        "safety.outage_periods": float(FOR_EVER),  # a machine that stands still ends no soak
    }
    names = [str(path) for path in bundles]
    source: dict[str, Value] = {
        "bundle": names[0], "offered": names[1], "swap_s": swap_s, "priority": priority
    }  # fmt: skip
    nodes = (
        NodeSpec("watchdog", parameters=shared),
        NodeSpec("soak_source", parameters=source, package=NODES),
    )
    locked = {"control.lock_memory": priority > 0}
    controller = {**shared, "bundle": names[0], **locked, **settings}
    # Twice: a robot that is held up publishes later, and the episode counts joint states.
    seconds = 2 * manifest.steps * manifest.period
    raw = run_trial(nodes, controller, seconds, beside=beside, look=sampler.look)
    return {**raw, "bundles": names}
