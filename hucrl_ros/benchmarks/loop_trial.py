"""One measurement of the control loop."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hucrl_ros.benchmarks.trials import NODES, run_trial
from hucrl_ros.graph import NodeSpec, Value
from hucrl_ros.runtime.manifest import MANIFEST, dump_manifest, read_manifest


class LoopTrial(NamedTuple):
    """Joint states at a steady rate in, commands out."""

    bundle: Path
    """Its manifest says at what rate, and how many."""
    task: str
    priority: int
    """SCHED_FIFO priority of both processes; 0: ordinary scheduling."""
    hog: bool
    """One core is busy beside them."""
    settings: Mapping[str, Any]
    """Of the controller, by dotted key."""

    def run(self) -> dict[str, Any]:
        """What `nodes.loop_source` has measured."""
        manifest = read_manifest(self.bundle)

        def source(pid: int) -> tuple[NodeSpec, ...]:
            own: dict[str, Value] = {
                "bundle": str(self.bundle),
                "pid": pid,
                "priority": self.priority,
            }
            return (NodeSpec("loop_source", parameters=own, package=NODES),)

        controller: dict[str, Value] = {
            "task": self.task,
            "mode": "real_time",
            "bundle": str(self.bundle),
            "control.realtime_priority": self.priority,
            "control.lock_memory": self.priority > 0,
            **self.settings,
        }
        return run_trial(source, controller, manifest.steps * manifest.period, self.hog)


def paced(bundle: Path, copy: Path, rate: float, steps: int) -> Path:
    """A copy of a bundle whose robot runs at `rate` [Hz] for `steps` control periods.

    Its model knows nothing of that, but takes as long.
    """
    shutil.copytree(bundle, copy)
    manifest = read_manifest(bundle).model_copy(update={"period": 1 / rate, "steps": steps})
    (copy / MANIFEST).write_text(dump_manifest(manifest))
    return copy
