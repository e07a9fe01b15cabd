"""Faults of the network between driver and controller, by a relay between them."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hucrl_ros.benchmarks.faults.fault import REAL_TIME, BadLine, Fault, Place
from hucrl_ros.benchmarks.faults.line import KINDS
from hucrl_ros.benchmarks.faults.played_run import POLL_S
from hucrl_ros.benchmarks.loop import NODES
from hucrl_ros.controller.topics import COMMANDS, JOINT_STATES
from hucrl_ros.errors import RunError
from hucrl_ros.experiments.workers import child_environment
from hucrl_ros.run.node_list import SIMULATOR, NodeSpec
from hucrl_ros.run.processes import ProcessGroup

DRIVER = "driver"
BEGIN_S = 120.0
"""[s] For the driver and the relay to start, on a loaded machine too."""


class _Messages(BadLine):
    """Joint states and commands, both, for two seconds of a robot that waits for nobody."""

    nodes, modes, on_robot = (DRIVER,), (REAL_TIME,), True
    lasts_s = 2.0

    @contextmanager
    def beside(self, place: Place) -> Iterator[tuple[str, ...]]:
        """A driver, and a relay between it and the controller."""
        raw = {JOINT_STATES: f"raw/{JOINT_STATES}", COMMANDS: "raw/commands"}
        begun = place.scratch / "begun"
        begun.unlink(missing_ok=True)
        own = {"kind": self.name, "switch": str(self.switch(place)), "begun": str(begun)}
        environment = child_environment(
            ROS_DOMAIN_ID=str(place.domain),
            ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST",
            ROS_LOG_DIR=str(place.scratch),
            HUCRL_PARENT_PID=str(os.getpid()),
        )
        group = ProcessGroup(place.scratch, environment)
        driver = NodeSpec(SIMULATOR, parameters={"run": str(place.run.root)}, remappings=raw)
        try:
            for node in (NodeSpec("fault_relay", parameters=own, package=NODES), driver):
                group.start(node.name, node.command)
            deadline = time.monotonic() + BEGIN_S
            while not begun.exists():  # Without joint states a run is refused at once.
                if time.monotonic() > deadline:
                    raise RunError(f"{self.name}: no joint state has come, see {place.scratch}")
                time.sleep(POLL_S)
            yield ("--no-simulator",)
        finally:
            group.stop()


MESSAGES: tuple[type[Fault], ...] = tuple(type(k, (_Messages,), {"name": k}) for k in KINDS)
"""One for each way in which a line is bad."""
