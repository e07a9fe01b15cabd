"""The controller's topics: what it hears in an episode, and what it publishes."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Point
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.timer import Timer
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, ColorRGBA, Float64MultiArray, MultiArrayLayout
from visualization_msgs.msg import Marker, MarkerArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.controller.state_reader import JointReading, PoseBuffer, StateReader
from hucrl_ros.controller.ticks import NANOSECONDS, TickRecord
from hucrl_ros.controller.watch import LOCKSTEP_PATIENCE, RateCheck
from hucrl_ros.nodes import conversions, topics
from hucrl_ros.nodes.conversions import tick_layout, tick_message
from hucrl_ros.nodes.topics import ARRIVAL_WAIT, LATCHED, NEWEST, STREAM

Trajectory = NDArray[np.float32]
PLAN_PERIOD = 0.1
"""[s] Shortest time between two plans."""
PLAN_LIFETIME = Duration(sec=1)
PLAN_FRAME = "plan"
"""Frame whose x is a joint's position [rad or m] and y its velocity [rad/s or m/s]."""
LINE_WIDTH = 0.02
OPTIMISTIC = ColorRGBA(r=1.0, g=0.55, b=0.0, a=1.0)
EXPECTED = ColorRGBA(r=0.1, g=0.45, b=0.8, a=1.0)


class Heard(NamedTuple):
    """A joint state."""

    reading: JointReading
    received: float
    """When it came, by the steady clock [s]."""


class ControllerInputs:
    """Gives each joint state on when the poses that belong to it are there; tells of silence.

    Topics keep no order among each other. In lockstep a joint state waits for its object's pose,
    the first of an episode for its goal as well, so that an episode doesn't depend on what came
    first. In real time nothing waits: the newest pose counts, as far as it isn't too old.

    Silence is judged by the steady clock. In real time only a new stamp ends it, and it is told
    every period. In lockstep a repetition ends it as well, and it is told once: physics stands
    still without commands, and each further one would move the simulator by a step that nobody
    asked for. A joint state whose poses don't come is given on as it is after that time.
    """

    def __init__(
        self,
        node: Node,
        lockstep: bool,
        hear: Callable[[Heard], bool],
        miss: Callable[[float], None],
    ) -> None:
        """Subscribe; nothing is told before `begin`.

        Args:
            node: The controller.
            lockstep: Whether physics waits for each command.
            hear: Takes a joint state; returns whether it was a new one.
            miss: Is told of silence, and for how long it has lasted [s].
        """
        self.poses = PoseBuffer()
        """What was heard of object and goal, at any time."""
        self._node, self._lockstep = node, lockstep
        self._hear, self._miss = hear, miss
        self._reader: StateReader | None = None
        self._held: Heard | None = None
        self._stale = False
        self._period = self._patience = self._last = self._looked = 0.0
        self._rate = RateCheck()
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer: Timer | None = None
        conversions.listen_for_poses(node, self.poses, self._on_place)
        node.create_subscription(JointState, topics.JOINT_STATES, self._on_joint_state, NEWEST)

    def set_period(self, period: float, stale_periods: float) -> None:
        """Joint states should come every `period` [s]; so many without one are silence."""
        limit = stale_periods * period
        self._patience = max(limit, LOCKSTEP_PATIENCE) if self._lockstep else limit
        if period == self._period and self._timer is not None:
            return
        if self._timer is not None:
            self._node.destroy_timer(self._timer)
        self._period = period
        self._timer = self._node.create_timer(period, self._on_timer, clock=self._steady)
        if self._reader is None:
            self._timer.cancel()

    def begin(self, reader: StateReader) -> None:
        """An episode begins; `reader` reads its states. Only after `set_period`."""
        assert self._timer is not None
        self._reader, self._held = reader, None
        self._stale = False
        self._last = self._looked = time.monotonic()
        self._timer.reset()

    def wrong_rate(self) -> str:
        """Why joint states as they come can't be controlled; empty if they can, or in lockstep."""
        return self._rate.problem(self._period)

    def end(self) -> None:
        """The episode is over."""
        self._reader = self._held = None
        self._rate = RateCheck()
        if self._timer is not None:
            self._timer.cancel()

    def _on_joint_state(self, message: JointState) -> None:
        received = time.monotonic()
        if not self._lockstep:
            stamp = message.header.stamp
            self._rate.see(stamp.sec * NANOSECONDS + stamp.nanosec)
        if self._reader is None:
            return
        reading = conversions.to_reading(message)
        if not self._lockstep or not self._reader.lacks(reading.stamp_ns):
            self._give_on(Heard(reading, received))
        elif self._held is None or self._held.reading.stamp_ns != reading.stamp_ns:
            self._held = Heard(reading, received)

    def _on_place(self) -> None:
        if self._held is None or self._reader is None:
            return
        if not self._reader.lacks(self._held.reading.stamp_ns):
            self._give_on(self._held)

    def _give_on(self, heard: Heard) -> None:
        self._held = None
        new = self._hear(heard)
        if new or self._lockstep:
            # Not when it came: what came during a long tick is still to be read.
            self._last, self._stale = time.monotonic(), False

    def _on_timer(self) -> None:
        now = time.monotonic()
        if self._lockstep:  # while this process was held up, it heard nobody
            self._last = min(self._last + max(now - self._looked - self._period, 0.0), now)
        self._looked = now
        silence = now - self._last
        if self._reader is None or silence <= self._patience:
            return
        if self._held is not None:
            self._give_on(self._held)
        elif not (self._lockstep and self._stale):
            self._stale = True
            self._miss(silence)


class ControllerOutputs:
    """Publishers of commands, ticks and activity."""

    def __init__(self, node: Node) -> None:
        self._commands = node.create_publisher(Float64MultiArray, topics.COMMANDS, STREAM)
        self._ticks = node.create_publisher(Float64MultiArray, topics.TICKS, STREAM)
        self._activity = node.create_publisher(Bool, topics.ACTIVE, LATCHED)
        self._layout = MultiArrayLayout()

    @property
    def activity_topic(self) -> str:
        """Resolved name of the topic that says whether an episode is under way."""
        return str(self._activity.topic_name)

    def prepare(self, action_dim: int) -> None:
        """The ticks to come have so many efforts."""
        self._layout = tick_layout(action_dim)

    def command(self, effort: NDArray[np.float64]) -> None:
        """Publish efforts `(q,)` [N m or N]."""
        self._commands.publish(Float64MultiArray(data=effort.tolist()))

    def tick(self, record: TickRecord) -> None:
        """Publish what a tick did."""
        self._ticks.publish(tick_message(record, self._layout))

    def activity(self, active: bool) -> None:
        """Publish whether an episode is under way."""
        self._activity.publish(Bool(data=active))

    def await_arrival(self) -> None:
        """Wait a moment for what was sent; to be called before the process ends."""
        for publisher in (self._commands, self._activity):
            publisher.wait_for_all_acked(ARRIVAL_WAIT)


class PlanPublisher:
    """Publishes planned trajectories in the phase plane, one line a joint, while somebody looks.

    Namespace `optimistic`: with the hallucinated efforts; `expected`: without them.
    """

    def __init__(self, node: Node) -> None:
        self._publisher = node.create_publisher(MarkerArray, topics.PLAN, 1)
        self._next = 0.0
        self._joints = 0

    def prepare(self, spec: RobotSpec) -> None:
        """The plans to come are this robot's."""
        self._joints = len(spec.joint_names)

    def due(self) -> bool:
        """Whether a plan is wanted now."""
        return time.monotonic() >= self._next and self._publisher.get_subscription_count() > 0

    def publish(self, optimistic: Trajectory, expected: Trajectory | None) -> None:
        """Publish trajectories `(H + 1, p)`."""
        self._next = time.monotonic() + PLAN_PERIOD
        markers = plan_markers("optimistic", optimistic, self._joints, OPTIMISTIC)
        if expected is not None:
            markers += plan_markers("expected", expected, self._joints, EXPECTED)
        self._publisher.publish(MarkerArray(markers=markers))


def plan_markers(
    namespace: str, states: Trajectory, joints: int, color: ColorRGBA
) -> list[Marker]:
    """A trajectory `(H + 1, p)` as one line for each of the `joints`."""
    markers = []
    for joint in range(joints):
        marker = Marker(
            ns=namespace,
            id=joint,
            type=Marker.LINE_STRIP,
            action=Marker.ADD,
            color=color,
            lifetime=PLAN_LIFETIME,
            points=[Point(x=float(s[joint]), y=float(s[joints + joint])) for s in states],
        )
        marker.header.frame_id = PLAN_FRAME
        marker.scale.x = LINE_WIDTH
        marker.pose.orientation.w = 1.0
        markers.append(marker)
    return markers
