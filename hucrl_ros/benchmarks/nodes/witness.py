"""For `hucrl fault`: writes down every command that comes to the robot, and when it came.

It takes part in nothing: it only subscribes, so that no fault is hidden from whoever reads on.
"""

import json
import math
import sys
import time
from functools import partial
from pathlib import Path

from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from hucrl_ros.benchmarks.faults.sightings import Kind, sighting
from hucrl_ros.controller.topics import COMMANDS, JOINT_STATES, TICKS
from hucrl_ros.errors import MessageError
from hucrl_ros.nodes.controller_topics import nanoseconds, to_tick
from hucrl_ros.nodes.parameters import own_parameter
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.topics import ARCHIVE, MEASURED_ARCHIVE, STEADY

WRITE_PERIOD = 0.05
"""[s] Between two writes to the file."""
NO_NUMBER = -1


class Witness(Node):
    """Appends a record to a file for each command, tick and joint state that it hears.

    Parameters: `out`, the file; `limits`, largest size of each entry of a command, as JSON;
    `stepped`: joint states are reliable, as in lockstep.
    """

    def __init__(self) -> None:
        super().__init__("witness")
        self.exit_code: int | None = None
        self._limits: list[float] = json.loads(own_parameter(self, "limits", "[]"))
        out = own_parameter(self, "out", "witness.bin")
        self._file = Path(out).open("ab")  # noqa: SIM115  # until the node closes
        measured = ARCHIVE if own_parameter(self, "stepped", True) else MEASURED_ARCHIVE
        self.create_subscription(JointState, JOINT_STATES, self._on_state, measured)
        self.create_subscription(Float64MultiArray, TICKS, self._on_tick, ARCHIVE)
        self.create_subscription(Float64MultiArray, COMMANDS, self._on_command, ARCHIVE)
        self.create_timer(
            WRITE_PERIOD, lambda: self._file.flush(), clock=STEADY
        )  # rclpy wants a signature

    def close(self) -> None:
        """Write what is left."""
        self._file.close()

    def _write(self) -> None:
        self._file.flush()

    def _on_command(self, message: Float64MultiArray) -> None:
        command = message.data
        within = len(command) == len(self._limits) and all(
            math.isfinite(entry) and abs(entry) <= limit
            for entry, limit in zip(command, self._limits, strict=True)
        )
        kind = Kind.COMMAND if within and any(command) else Kind.SAFE if within else Kind.UNSAFE
        self._note(kind, NO_NUMBER, NO_NUMBER)

    def _on_tick(self, message: Float64MultiArray) -> None:
        try:
            tick = to_tick(message)
        except MessageError:
            return
        self._note(Kind.TICK, tick.stamp_ns, tick.step)

    def _on_state(self, message: JointState) -> None:
        self._note(Kind.STATE, nanoseconds(message.header.stamp), NO_NUMBER)

    def _note(self, kind: Kind, stamp_ns: int, step: int) -> None:
        self._file.write(sighting(time.monotonic(), kind, stamp_ns, step))


main = partial(run_node, Witness)

if __name__ == "__main__":
    sys.exit(main())
