"""Runs a controller and other nodes as processes, in a ROS domain of their own."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

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
    nodes: Callable[[int], Sequence[NodeSpec]],
    controller: Mapping[str, Value],
    seconds: float,
    background_load: bool = False,
) -> dict[str, Any]:
    """What the last of `nodes` writes into its file.

    Args:
        nodes: Given the controller's process number, what to start beside it.
        controller: Parameters of the controller.
        seconds: What the trial takes besides starting [s].
        background_load: Keep one core busy beside it.

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
            node = NodeSpec(CONTROLLER, parameters=controller)
            pid = group.start(node.name, node.command)
            last, out = "", folder / "out.json"
            started = nodes(pid)
            for node in started:
                last = node.name
                told = ["-p", f"out:={out}"] if node is started[-1] else []
                group.start(node.name, [*node.command, *told])
            with _busy_core() if background_load else nullcontext():
                _wait(group, last, time.monotonic() + START_S + seconds)
            result: dict[str, Any] = json.loads(out.read_text())
            return result
        finally:
            group.stop()


def _wait(group: ProcessGroup, last: str, deadline: float) -> None:
    while True:
        for end in group.ended():
            if end.name == last and end.code == 0:
                return
            raise RunError(end.description)
        if time.monotonic() > deadline:
            raise RunError(f"{last}: still runs, though its episode should long be over")
        time.sleep(POLL_S)


@contextmanager
def _busy_core() -> Iterator[None]:
    """A background load: one core is busy meanwhile."""
    load = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        load.kill()
        load.wait()
