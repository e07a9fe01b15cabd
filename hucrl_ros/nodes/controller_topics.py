"""The controller's topics: its terms as messages, what it hears in an episode, what it says."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped
from numpy.typing import NDArray
from rcl_interfaces.msg import ParameterEvent
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.serialization import deserialize_message
from rclpy.timer import Timer
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, MultiArrayDimension, MultiArrayLayout, String

from hucrl_ros.controller.pace import Pace
from hucrl_ros.controller.setup import Setup
from hucrl_ros.controller.state_reader import (
    FRAME,
    JointReading,
    Pose,
    PoseBuffer,
    PoseHistory,
    StateReader,
)
from hucrl_ros.controller.ticks import (
    NANOSECONDS,
    TickRecord,
    decode_tick,
    encode_tick,
    tick_labels,
)
from hucrl_ros.controller.timing import LOCKSTEP_PATIENCE
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.process_liveness import ProcessLiveness
from hucrl_ros.nodes.setting_parameters import limits_message
from hucrl_ros.nodes.told_publisher import ToldPublisher
from hucrl_ros.nodes.topics import (
    ARCHIVE,
    ARRIVAL_WAIT,
    LATCHED,
    LOCKSTEP_ARRIVAL_WAIT,
    MEASURED,
    NEWEST,
    STEADY,
    STREAM,
)


def nanoseconds(stamp: Time) -> int:
    """A stamp in nanoseconds."""
    return int(stamp.sec) * NANOSECONDS + int(stamp.nanosec)


def to_reading(message: JointState) -> JointReading:
    """Names, positions, velocities and stamp, as they came."""
    stamp_ns = nanoseconds(message.header.stamp)
    return JointReading(message.name, message.position, message.velocity, stamp_ns)


def to_pose(message: PoseStamped) -> Pose:
    """When a body was where; how it was turned doesn't count."""
    stamp_ns, place = nanoseconds(message.header.stamp), message.pose.position
    return Pose(stamp_ns, message.header.frame_id, (place.x, place.y, place.z))


def pose_message(position: Sequence[float], stamp_ns: int) -> PoseStamped:
    """The message of a body at `position` `(3,)` [m] in the world's frame, not turned."""
    message = PoseStamped()
    message.header.frame_id = FRAME
    stamp, place = message.header.stamp, message.pose.position
    stamp.sec, stamp.nanosec = divmod(stamp_ns, NANOSECONDS)
    place.x, place.y, place.z = (float(value) for value in position)
    message.pose.orientation.w = 1.0
    return message


def listen_for_poses(
    node: Node, poses: PoseBuffer, lockstep: bool, heard: Callable[[], None] = lambda: None
) -> None:
    """Put what is published of object and goal into `poses`, and call `heard` each time."""

    def take_into(history: PoseHistory) -> Callable[[PoseStamped], None]:
        def take(message: PoseStamped) -> None:
            history.add(to_pose(message))
            heard()

        return take

    object_, goal = take_into(poses.object), take_into(poses.goal)
    delivery = STREAM if lockstep else MEASURED
    node.create_subscription(PoseStamped, topics.OBJECT_POSE, object_, delivery)
    node.create_subscription(PoseStamped, topics.GOAL, goal, LATCHED)


@lru_cache(maxsize=64)
def tick_layout(labels: tuple[str, ...]) -> MultiArrayLayout:
    """The layout whose labels name the fields; built once, as it is that of most ticks."""
    return MultiArrayLayout(
        dim=[MultiArrayDimension(label=name, size=1, stride=1) for name in labels]
    )


def tick_message(
    tick: TickRecord, decided: Mapping[str, float] = MappingProxyType({})
) -> Float64MultiArray:
    """The message of a tick, and of what time decided in it."""
    layout = tick_layout((*tick_labels(len(tick.action)), *decided))
    return Float64MultiArray(layout=layout, data=[*encode_tick(tick), *decided.values()])


def to_tick(message: Float64MultiArray) -> TickRecord:
    """The tick of a message.

    Raises:
        MessageError: it is no tick.
    """
    return decode_tick([dimension.label for dimension in message.layout.dim], message.data)


class Heard(NamedTuple):
    """A joint state."""

    reading: JointReading
    received: float
    """When it came, by the steady clock [s]."""


class ControllerInputs:
    """Gives each joint state on when the poses that belong to it are there; tells of silence.

    Topics keep no order among each other. In lockstep a joint state waits for its object's pose,
    the first of an episode for its goal as well, so that an episode doesn't depend on what came
    first. In real time nothing waits: the newest pose counts, as far as it isn't too old. There
    joint states may come faster than commands go, so only those that are due are given on.

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
        self._pace = Pace()
        self._timer: Timer | None = None
        listen_for_poses(node, self.poses, lockstep, self._on_place)
        heard = self._on_joint_state if lockstep else self._on_newest
        delivery = NEWEST if lockstep else MEASURED
        self._states = node.create_subscription(JointState, topics.JOINT_STATES, heard, delivery)

    @property
    def overtaken(self) -> int:
        """Joint states of this episode that a newer one had overtaken on their way."""
        return self._pace.overtaken

    def set_period(self, period: float, stale_periods: float) -> None:
        """Joint states should come every `period` [s]; so many without one are silence."""
        limit = stale_periods * period
        self._patience = max(limit, LOCKSTEP_PATIENCE) if self._lockstep else limit
        if period == self._period and self._timer is not None:
            return
        if self._timer is not None:
            self._node.destroy_timer(self._timer)
        self._period = period
        self._timer = self._node.create_timer(period, self._on_timer, clock=STEADY)
        if self._reader is None:
            self._timer.cancel()

    def begin(self, reader: StateReader) -> None:
        """An episode begins; `reader` reads its states. Only after `set_period`."""
        assert self._timer is not None
        self._reader, self._held = reader, None
        self._stale = False
        self._last = self._looked = time.monotonic()
        self._pace.start()
        self._timer.reset()

    def wrong_rate(self) -> str:
        """Why joint states as they come can't be controlled; empty if they can, or in lockstep."""
        return self._pace.problem(self._period)

    @property
    def outage(self) -> str:
        """Why the episode can't go on; empty if it can, or in lockstep."""
        return self._pace.outage

    def end(self) -> None:
        """The episode is over."""
        self._reader = self._held = None
        self._pace = Pace()
        if self._timer is not None:
            self._timer.cancel()

    def _on_joint_state(self, message: JointState) -> None:
        """One in lockstep."""
        if self._reader is None:
            return
        heard = Heard(to_reading(message), time.monotonic())
        stamp_ns = heard.reading.stamp_ns
        if not self._reader.lacks(stamp_ns):
            self._give_on(heard)
        elif self._held is None or self._held.reading.stamp_ns != stamp_ns:
            self._held = heard

    def _on_newest(self, message: JointState) -> None:
        """One in real time, and all that have come since, as during a tick: the newest counts."""
        due: Heard | None = None
        for heard in (message, *topics.waiting(self._states)):
            stamp_ns = nanoseconds(heard.header.stamp)
            if self._pace.is_overtaken(stamp_ns, self._period):
                continue
            new = self._pace.see(stamp_ns)
            if self._reader is None:
                continue
            reading = to_reading(heard)
            self._reader.joints.see(reading)
            if new:
                self._last, self._stale = time.monotonic(), False
            if self._pace.is_due(stamp_ns, self._period):
                due = Heard(reading, time.monotonic())
        if due is not None:
            self._pace.answered(due.reading.stamp_ns, self._period)
            self._give_on(due)

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
    """Publishers of commands, ticks, activity and limits; hears who commands in their place."""

    def __init__(self, node: Node, liveness: ProcessLiveness, lockstep: bool) -> None:
        sent = ARCHIVE if lockstep else STREAM
        self._lockstep, self._liveness = lockstep, liveness
        self._commands = ToldPublisher(node, Float64MultiArray, topics.COMMANDS, sent, liveness)
        self._ticks = node.create_publisher(Float64MultiArray, topics.TICKS, ARCHIVE)
        self._activity = ToldPublisher(node, Bool, topics.ACTIVE, LATCHED, liveness)
        self._limits = ToldPublisher(node, ParameterEvent, topics.LIMITS, LATCHED, liveness)
        self._setup = node.create_publisher(String, topics.SETUP, LATCHED)

    def prepare(self, action_dim: int) -> None:
        """The ticks to come have so many efforts."""
        tick_layout(tick_labels(action_dim))

    def command(self, command: NDArray[np.float64] | None) -> None:
        """Publish a command `(q,)`; None: there is no position to hold."""
        if command is not None:
            self._commands.publish(Float64MultiArray(data=command.tolist()))

    def others(self) -> NDArray[np.float64] | None:
        """The last command `(q,)` that the watchdog has sent since; None: it hasn't."""
        told = [raw for topic, raw in self._liveness.heard() if topic == topics.COMMANDS]
        return np.array(deserialize_message(told[-1], Float64MultiArray).data) if told else None

    def tick(self, record: TickRecord, decided: Mapping[str, float]) -> None:
        """Publish what a tick did, and what time decided in it."""
        self._ticks.publish(tick_message(record, decided))

    def setup(self, setup: Setup) -> None:
        """Publish what the ticks to come are computed with."""
        self._setup.publish(String(data=setup.model_dump_json()))

    def began(self) -> None:
        """Publish that an episode is under way."""
        self._activity.publish(Bool(data=True))

    def ended(self, patience: Duration = LOCKSTEP_ARRIVAL_WAIT) -> None:
        """Publish that none is under way; in lockstep when its readers have all of the last one.

        Topics keep no order among each other: a reader that was held up would hear of the end
        while ticks are still being sent to it again. The watchdog, which waits for commands, is
        told at once. In real time nothing waits.

        Args:
            patience: Longest wait for a reader.
        """
        message = Bool(data=False)
        self._activity.tell(message)
        if self._lockstep:
            self._await(patience, self._ticks, self._commands)
        self._activity.publish(message, told=False)

    def limits(self, limits: Mapping[str, object]) -> None:
        """Publish all limits that were tightened so far, by dotted keys."""
        self._limits.publish(limits_message(limits))

    def await_arrival(self) -> None:
        """Wait a moment for what was sent; to be called before the process ends."""
        self._await(ARRIVAL_WAIT, self._commands, self._activity)

    def _await(self, patience: Duration, *publishers: Publisher | ToldPublisher) -> None:
        """Wait until all readers have what was published; who is held up is waited for once."""
        for publisher in publishers:
            if not publisher.wait_for_all_acked(patience):
                return
