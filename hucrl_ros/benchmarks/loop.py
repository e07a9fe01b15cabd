"""Latency and jitter from joint state to command, between two processes over DDS.

`run_trial` runs a controller and other nodes as processes, for `hucrl bench delay` too.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hucrl_ros.benchmarks import Output, report
from hucrl_ros.benchmarks.results import LoopRow
from hucrl_ros.benchmarks.synthetic import make_arm, untrained_bundle
from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.controller.manifest import MANIFEST, dump_manifest, read_manifest
from hucrl_ros.errors import RunError
from hucrl_ros.experiments.workers import child_environment
from hucrl_ros.run.node_list import CONTROLLER, NodeSpec, Value
from hucrl_ros.run.processes import ProcessGroup
from hucrl_ros.run.session import Domain

NODES = "hucrl_ros.benchmarks.nodes"
"""Package of the nodes that only benchmarks start."""
POLL_S = 0.05
START_S = 180.0
"""[s] For all nodes to start, meet and load: compiling takes a while at the first time."""


def run_trial(
    nodes: Sequence[NodeSpec],
    controller: Mapping[str, Value],
    seconds: float,
    load: int = 0,
    killed: bool = False,
    beside: Mapping[str, Sequence[str]] = MappingProxyType({}),
    look: Callable[[Mapping[str, int]], None] = lambda pids: None,
) -> dict[str, Any]:
    """Play with a controller and `nodes`; returns what the last of those writes into its file.

    That one gets two more parameters: `out`, the file, and `pid`, the controller's process.

    Args:
        nodes: What to start beside it.
        controller: Parameters of the controller.
        seconds: What the trial takes besides starting [s].
        load: Busy processes beside it.
        killed: The last of `nodes` kills the controller.
        beside: Name and command of other processes, which are ended when the trial is over.
        look: Called now and then with the number of every process, by its name.

    Raises:
        RunError: a process ended in another way, or the trial doesn't end.
    """
    with tempfile.TemporaryDirectory(prefix="hucrl-bench-") as scratch, Domain() as domain:
        folder = Path(scratch)
        environment = child_environment(
            ROS_DOMAIN_ID=str(domain.number),
            ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST",
            ROS_LOG_DIR=scratch,
            HUCRL_PARENT_PID=str(os.getpid()),
        )
        environment.pop("ROS_LOCALHOST_ONLY", None)
        group = ProcessGroup(folder, environment)
        try:
            *others, last = nodes
            commands = {**beside, CONTROLLER: NodeSpec(CONTROLLER, parameters=controller).command}
            commands |= {node.name: node.command for node in others}
            pids = {name: group.start(name, command) for name, command in commands.items()}
            out = folder / "out.json"
            own = ["-p", f"out:={out}", "-p", f"pid:={pids[CONTROLLER]}"]
            pids[last.name] = group.start(last.name, [*last.command, *own])
            with _busy(load):
                deadline = time.monotonic() + START_S + seconds
                look_on = partial(look, pids)
                _wait(group, last.name, deadline, CONTROLLER if killed else "", look_on)
            result: dict[str, Any] = json.loads(out.read_text())
            return result
        finally:
            group.stop()


def _wait(
    group: ProcessGroup, last: str, deadline: float, killed: str, look: Callable[[], None]
) -> None:
    while True:
        look()
        for end in group.ended():
            if end.name == last and end.code == 0:
                return
            if end.name == killed and end.code == -signal.SIGKILL:
                continue
            raise RunError(end.description)
        if time.monotonic() > deadline:
            raise RunError(f"{last}: still runs, though its episode should long be over")
        time.sleep(POLL_S)


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """A background load: so many processes compute meanwhile."""
    busy = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
    command = [sys.executable, "-c", busy]
    # Each in a session of its own: the kernel's automatic groups would count them as one.
    load = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for process in load:
            process.kill()
            process.wait()


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
    background_load: bool,
    priority: int,
    settings: Mapping[str, Any],
    output: Output,
) -> None:
    """Print the table; the arguments are the options of `hucrl bench loop`."""
    rows: list[LoopRow] = []
    output.say(report.LOOPS.header)
    with tempfile.TemporaryDirectory(prefix="hucrl-loop-") as scratch:
        folder = Path(scratch)
        original = bundle or untrained(task, folder / "untrained")
        for number, rate in enumerate(rates):
            copy = paced(original, folder / f"paced_{number}", rate, round(seconds * rate))
            for name in planning:
                changes = {**settings, **PLANNING[name]}
                raw = play_loop(copy, priority, background_load, changes)
                played = read_manifest(copy).task
                rows.append(LoopRow.of(played, rate, name, priority, background_load, raw))
                output.say(report.LOOPS.line(rows[-1]))
    report.finish(output, rows, lambda folder: report.write_loops(folder, rows, output))


def untrained(task: str, folder: Path) -> Path:
    """A bundle of random networks."""
    made = make_arm(0.1) if task == "arm" else task
    model = ModelSettings(kind="probabilistic_ensemble", layers=LAYERS[task])
    return untrained_bundle(folder, made, model).path


def paced(bundle: Path, copy: Path, rate: float, steps: int) -> Path:
    """A copy of a bundle whose robot runs at `rate` [Hz] for `steps` control periods.

    Its model was learned at another rate, but takes as long to compute.
    """
    shutil.copytree(bundle, copy)
    manifest = read_manifest(bundle).model_copy(update={"period": 1 / rate, "steps": steps})
    (copy / MANIFEST).write_text(dump_manifest(manifest))
    return copy


def play_loop(
    bundle: Path, priority: int, background_load: bool, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """An episode of joint states in and commands out; what the node `loop_source` measured.

    Args:
        bundle: Its manifest says task, rate and number of states.
        priority: SCHED_FIFO priority of both processes; 0: ordinary scheduling.
        background_load: Keep one core busy beside them.
        settings: Of the controller, by dotted key.

    Raises:
        RunError: the controller refuses, or a process ends early.
    """
    manifest = read_manifest(bundle)

    own: dict[str, Value] = {"bundle": str(bundle), "priority": priority}
    source = NodeSpec("loop_source", parameters=own, package=NODES)
    controller: dict[str, Value] = {
        "task": manifest.task,
        "mode": "real_time",
        "bundle": str(bundle),
        "control.realtime_priority": priority,
        "control.lock_memory": priority > 0,
        **settings,
    }
    return run_trial([source], controller, manifest.steps * manifest.period, background_load)
