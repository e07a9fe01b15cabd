"""Two nodes for `hucrl doctor`: one asks, the other answers, and the round trip is measured."""

import json
import statistics
import sys
import time

import rclpy
from rclpy.node import Node
from std_msgs.msg import UInt32

from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.topics import STEADY

QUESTION, ANSWER = "doctor/question", "doctor/answer"
ROUND_TRIPS = 50
PATIENCE_S = 30.0
"""[s] Until the asking node gives up."""
PERIOD_S = 0.02
"""[s] Between two questions."""


class Answerer(Node):
    """Sends each question back."""

    exit_code: int | None = None

    def __init__(self) -> None:
        super().__init__("doctor_answerer")
        self._publisher = self.create_publisher(UInt32, ANSWER, 10)
        self.create_subscription(UInt32, QUESTION, self._answer, 10)

    def close(self) -> None:
        """Nothing to do."""

    def _answer(self, question: UInt32) -> None:
        self._publisher.publish(question)


class Asker(Node):
    """Asks until it has `ROUND_TRIPS` answers, then prints what it measured as JSON."""

    exit_code: int | None = None

    def __init__(self) -> None:
        super().__init__("doctor_asker")
        self._begin = time.monotonic()
        self._asked: dict[int, float] = {}
        self._answered: list[float] = []
        self._round_trips: list[float] = []
        self._publisher = self.create_publisher(UInt32, QUESTION, 10)
        self.create_subscription(UInt32, ANSWER, self._hear, 10)
        self.create_timer(PERIOD_S, self._ask, clock=STEADY)

    def close(self) -> None:
        """Nothing to do."""

    def _ask(self) -> None:
        now = time.monotonic()
        if now - self._begin > PATIENCE_S:
            sys.stderr.write(f"no answer through DDS within {PATIENCE_S:.0f} s\n")
            self.exit_code = 1
            return
        number = len(self._asked)
        self._asked[number] = now
        self._publisher.publish(UInt32(data=number))

    def _hear(self, answer: UInt32) -> None:
        now = time.monotonic()
        self._answered.append(now)
        self._round_trips.append(now - self._asked[answer.data])
        if len(self._answered) == ROUND_TRIPS:
            self._report()
            self.exit_code = 0

    def _report(self) -> None:
        milliseconds = [1e3 * value for value in self._round_trips]
        measured = {
            "rmw": rclpy.get_rmw_implementation_identifier(),
            "discovery_s": self._answered[0] - self._begin,
            "p50_ms": statistics.median(milliseconds),
            "max_ms": max(milliseconds),
        }
        sys.stdout.write(json.dumps(measured) + "\n")


ROLES: dict[str, type[Asker] | type[Answerer]] = {"ask": Asker, "answer": Answerer}


def main() -> int:
    """Run the role that the first argument names."""
    role = ROLES.get(sys.argv[1] if len(sys.argv) > 1 else "")
    if role is None:
        sys.stderr.write(f"probe: expected one of {', '.join(ROLES)}\n")
        return 2
    return run_node(role, sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
