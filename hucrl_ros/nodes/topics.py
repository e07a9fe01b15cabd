"""Names of topics and services, how they are delivered (`docs/contracts.md`), and by what clock.

All names but that of the diagnostics are relative, so that launch files can remap them.
"""

from collections.abc import Iterator
from typing import TypeVar

from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription

from hucrl_ros.controller.topics import ACTIVE as ACTIVE
from hucrl_ros.controller.topics import COMMANDS as COMMANDS
from hucrl_ros.controller.topics import GOAL as GOAL
from hucrl_ros.controller.topics import JOINT_STATES as JOINT_STATES
from hucrl_ros.controller.topics import OBJECT_POSE as OBJECT_POSE
from hucrl_ros.controller.topics import SETUP as SETUP
from hucrl_ros.controller.topics import TICKS as TICKS
from hucrl_ros.controller.topics import TRIPPED as TRIPPED

LOADED_BUNDLE = "controller/bundle"
LIMITS = "controller/limits"
PLAN = "controller/plan"
REGIONS = "regions"
BUNDLE = "bundle"
STOP = "stop"
LEARNER_REPORT = "learner/report"
DIAGNOSTICS = "/diagnostics"

RESET = "simulator/reset"
START = "supervisor/start"
HOME = "homing/home"
RECORD = "recorder/record"
LEARN = "learner/learn"
CHANGE_STATE = "controller/change_state"

REFUSED = "error: "
"""How a message on `LOADED_BUNDLE` begins that isn't the bundle's path."""
ARRIVAL_WAIT = Duration(seconds=0.5)
"""Longest wait of a node that ends until its last messages have arrived: DDS loses what is still
under way when the process that sent it is gone."""

LOCKSTEP_ARRIVAL_WAIT = Duration(seconds=8.0)
"""Longest wait, while physics waits, for a reader that is held up: what it has missed is sent to
it again within a moment of its going on, where Fast DDS is told so (`transport.py`); else 3 s."""

# All are reliable, ROS's default, like keeping the last ones and not telling late readers; but
# what a robot measures is heard of publishers of any kind.
STREAM = QoSProfile(depth=100)
"""Every message arrives, in order."""

NEWEST = QoSProfile(depth=1)
"""For a reader that wants the newest message and no backlog."""

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""A reader that comes late still gets the last message."""

ARCHIVE = QoSProfile(depth=5000)
"""`STREAM` for the recorder, which must lose nothing while a disk or a machine is slow; also for
who publishes ticks, and in lockstep joint states and commands: physics doesn't wait for it. In
real time a robot that was held up gets no such backlog of commands."""

MEASURED = QoSProfile(depth=200, reliability=ReliabilityPolicy.BEST_EFFORT)
"""For what a robot publishes in real time: most drivers are best effort, and a reliable reader
never meets one of those. In lockstep, where each message counts, readers are reliable."""

MEASURED_ARCHIVE = QoSProfile(depth=5000, reliability=ReliabilityPolicy.BEST_EFFORT)
"""`MEASURED` for the recorder."""

ARCHIVE_LATCHED = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""`LATCHED` for the recorder."""

STEADY = Clock(clock_type=ClockType.STEADY_TIME)
"""Of all timers: one of ROS time would stall when a simulated clock steps back."""

Message = TypeVar("Message")


def waiting(subscription: Subscription[Message]) -> Iterator[Message]:
    """Messages that have come and that no callback has seen yet, the oldest first.

    Their bytes, of a subscription with `raw`.
    """
    handle, kind = subscription.handle, subscription.msg_type
    with handle:
        while (taken := handle.take_message(kind, subscription.raw)) is not None:
            yield taken[0]
