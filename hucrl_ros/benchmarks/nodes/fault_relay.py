"""For `hucrl fault`: a bad network between the robot's driver and the controller."""

import copy
import heapq
import math
import random
import sys
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from rclpy.node import Node
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from hucrl_ros.benchmarks.faults.line import JUMPS, KINDS, Line
from hucrl_ros.controller.topics import COMMANDS, JOINT_STATES
from hucrl_ros.nodes.parameters import own_parameter
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.topics import MEASURED, STEADY, STREAM

LOOK_PERIOD = 0.002
"""[s] Between two looks at messages that are late."""


class FaultRelay(Node):
    """Passes joint states and commands on, badly while a file is there.

    The driver's topics are `raw/joint_states` and `raw/commands`. Parameters: `kind`, one of
    `line.KINDS`; `switch`, the file; `begun`, another one, made when the first message passes;
    `seed`.
    """

    def __init__(self) -> None:
        super().__init__("fault_relay")
        self.exit_code: int | None = None
        kind = own_parameter(self, "kind", KINDS[0])
        self._switch = Path(own_parameter(self, "switch", "switch"))
        self._begun = Path(own_parameter(self, "begun", "begun"))
        self._draw = random.Random(own_parameter(self, "seed", 0))
        self._passes = False
        self._late: list[tuple[float, int, Publisher, Any]] = []
        self._number = count()
        self._jump = JUMPS.get(kind)
        states: Line[JointState] = Line(kind, self._draw, self._damaged_state)
        commands: Line[Float64MultiArray] = Line(kind, self._draw, self._damaged_command)
        self._relay(JointState, f"raw/{JOINT_STATES}", JOINT_STATES, states)
        self._relay(Float64MultiArray, COMMANDS, "raw/commands", commands)
        self.create_timer(LOOK_PERIOD, self._send, clock=STEADY)

    def close(self) -> None:
        """Nothing is kept."""

    def _relay(self, kind: type[Any], source: str, target: str, line: Line[Any]) -> None:
        publisher = self.create_publisher(kind, target, STREAM)

        def take(message: Any) -> None:  # noqa: ANN401
            now = time.monotonic()
            for delay, passed in line.take(message, self._switch.exists()):
                heapq.heappush(self._late, (now + delay, next(self._number), publisher, passed))
            self._send()

        self.create_subscription(kind, source, take, MEASURED)

    def _send(self) -> None:
        while self._late and self._late[0][0] <= time.monotonic():
            _, _, publisher, message = heapq.heappop(self._late)
            publisher.publish(message)
            if not self._passes:
                self._begun.touch()
                self._passes = True

    def _damaged_state(self, message: JointState) -> JointState:
        bad = copy.deepcopy(message)
        if self._jump is not None:
            bad.header.stamp.sec = max(bad.header.stamp.sec + self._jump, 0)
            return bad
        what = self._draw.choice(("nan", "infinite", "name", "length", "stamp"))
        if what == "nan":
            bad.position = [math.nan] * len(bad.position)
        elif what == "infinite":
            bad.velocity = [math.inf] * len(bad.velocity)
        elif what == "name":
            bad.name = ["somebody_else"] * len(bad.name)
        elif what == "length":
            bad.position = []
        else:
            bad.header.stamp.sec = 2**31 - 1
        return bad

    def _damaged_command(self, message: Float64MultiArray) -> Float64MultiArray:
        if self._jump is not None:
            return message  # it has no stamp
        bad = copy.deepcopy(message)
        bad.data = self._draw.choice(([math.nan], [], [0.0, 0.0], [-math.inf]))
        return bad


main = partial(run_node, FaultRelay)

if __name__ == "__main__":
    sys.exit(main())
