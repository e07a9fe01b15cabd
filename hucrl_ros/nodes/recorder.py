"""Node `recorder`: one bag an episode."""

import math
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.task import Future
from std_srvs.srv import SetBool

from hucrl_ros.bags.messages import deserialize
from hucrl_ros.controller.topics import RECORDED, RecordedTopic
from hucrl_ros.errors import BagError, MessageError
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.diagnostics import DiagnosticsPublisher, Health, Level, Refusals
from hucrl_ros.nodes.parameters import own_run, read_config, robot_of_run
from hucrl_ros.nodes.realtime import go_before_others
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.setting_parameters import SettingParameters
from hucrl_ros.nodes.topics import ARCHIVE, ARCHIVE_LATCHED, MEASURED_ARCHIVE, STEADY
from hucrl_ros.run.recording import Recording

POLL_PERIOD = 0.05
"""[s] Between two looks at what is awaited."""
COMPLETION_TIMEOUT = 5.0
"""[s] Longest wait, when told to close, for the last messages of the episode."""
PUBLISHERS_TIMEOUT = 10.0
"""[s] Longest wait, when told to open, for the publishers of an episode and a joint state."""
AFTERMATH = 30.0
"""[s] From an episode's end until its bag, which waits for another try, takes no more of what
comes all the time: a robot that was stopped may stand for a night."""
CEASELESS = (topics.JOINT_STATES, topics.OBJECT_POSE, topics.COMMANDS)
LATCHED_BEFORE = {
    topic.name: topic.type
    for topic in RECORDED
    if topic.name in (topics.GOAL, topics.SETUP, topics.ACTIVE)
}
"""Types of what a bag begins with: the newest goal and, within an episode, who plays it."""
AWAITED_PUBLISHERS = (topics.JOINT_STATES, topics.COMMANDS, topics.TICKS)


class Recorder(Node):
    """Records episodes into a run, see `docs/contracts.md`.

    Parameters: the settings of a run (it uses `mode` and `control.realtime_priority`) and `run`,
    the run's folder.

    An episode counts as finished only if `~/record` False closes it after the controller said
    that it is no longer active. Otherwise (this node is stopped, the controller died) its bag
    is closed as `episode_<n>_interrupted_<i>`; after a kill it stays cut off until the next
    recording moves it there.

    A goal holds until there is another one, so each bag begins with the newest goal. One that is
    opened within an episode begins with what the controller said when that began.
    """

    def __init__(self) -> None:
        super().__init__("recorder", automatically_declare_parameters_from_overrides=True)
        self.exit_code: int | None = None
        config = read_config(self, own=("run",))
        SettingParameters(self, config, ("task", "mode", "control.realtime_priority"))
        self._lockstep = config.mode == "lockstep"
        if not self._lockstep:
            go_before_others(config.control)
        self._run = own_run(self)
        self._recording: Recording | None = None
        self._latched: dict[str, bytes] = {}
        self._epoch_ns = 0
        self._hears_states = False
        self._ended_at = math.inf
        """[s] When the controller said that the episode in the open bag is over."""
        self._failure = ""
        self._written = 0
        self._busy = False
        self._refused = Refusals(self)
        self._awaited: list[tuple[Callable[[], bool], float, Future]] = []
        self._recorded = {
            topic.name: self.create_subscription(
                _message_class(topic.type),
                topic.name,
                partial(self._on_message, topic.name),
                _delivery(topic, self._lockstep),
                raw=True,
            )
            for topic in RECORDED
        }
        self._topics = {name: each.topic_name for name, each in self._recorded.items()}
        self.create_service(SetBool, topics.RECORD, self._on_record)
        robot = robot_of_run(self, config.task)
        self._diagnostics = DiagnosticsPublisher(self, self._health, robot.name if robot else "")
        self.create_timer(POLL_PERIOD, self._poll, clock=STEADY)

    def close(self) -> None:
        """Close the bag of an episode that is still being recorded, with all that has come."""
        data: bytes
        for name, subscription in self._recorded.items():
            for data in topics.waiting(subscription):
                self._on_message(name, data)
        self._interrupt()

    def _on_message(self, name: str, data: bytes) -> None:
        if name in LATCHED_BEFORE:
            self._remember(name, data)
        elif name == topics.JOINT_STATES:
            self._hears_states = True
        recording = self._recording
        if recording is None:
            return
        if name in CEASELESS and time.monotonic() > self._ended_at + AFTERMATH:
            return
        was_active = recording.controller_active
        try:
            recording.add(name, data, self._now_ns())
        except MessageError as error:
            self._refused.note(name, error)
        except BagError as error:
            self._fail(error)
        else:
            self._written += 1
            if recording.controller_active:
                self._ended_at = math.inf
            elif was_active:
                self._ended_at = time.monotonic()

    def _now_ns(self) -> int:
        """Time since the epoch, in which nobody sets the clock while a bag is open [ns]."""
        return self._epoch_ns + time.monotonic_ns()

    def _remember(self, name: str, data: bytes) -> None:
        """Have it for the next bag; one that can't be read would spoil that."""
        try:
            message = deserialize(data, LATCHED_BEFORE[name])
        except MessageError:
            return  # while a bag is open, that is told
        self._latched[name] = data
        if name == topics.ACTIVE and not message.data:
            del self._latched[name]

    async def _on_record(
        self, request: SetBool.Request, response: SetBool.Response
    ) -> SetBool.Response:
        if self._busy:
            response.message = "still busy with another request"
            return response
        self._busy = True
        try:
            response.message = await (self._open() if request.data else self._finish())
            response.success = True
        except Exception as error:  # One that leaves a coroutine would end this process.
            response.message = str(error) or repr(error)
            self.get_logger().error(response.message)
        finally:
            self._busy = False
        return response

    async def _open(self) -> str:
        """Open the next episode's bag; returns its folder."""
        if self._recording is not None:
            self.get_logger().warning("a new episode begins before the last one was closed")
            self._interrupt()
        # A publisher that is known here needn't know this node yet; one that was heard does.
        if not await self._until(
            lambda: self._hears_states and not self._unpublished(), PUBLISHERS_TIMEOUT
        ):
            missing = self._unpublished() or [topics.JOINT_STATES]
            self.get_logger().warning(f"nobody publishes {' or '.join(missing)} yet")
        self._failure, self._ended_at = "", math.inf
        self._recording = Recording(self._run, self._topics, self._lockstep)
        self._epoch_ns = time.time_ns() - time.monotonic_ns()
        for name, data in self._latched.items():
            if name == topics.GOAL or topics.ACTIVE in self._latched:
                self._recording.add(name, data, self._now_ns())
        return str(self._recording.folder)

    async def _finish(self) -> str:
        """Close the bag; returns its folder."""
        recording = self._recording
        if recording is None:
            raise BagError(self._failure or "no bag is open")
        await self._until(lambda: recording.complete, COMPLETION_TIMEOUT)
        if recording is not self._recording:
            raise BagError(self._failure or f"{recording.folder}: closed in the meantime")
        if recording.controller_active:
            folder = self._interrupt()
            raise BagError(f"{folder}: interrupted: the controller never said that it ended")
        self._recording = None
        return str(recording.finish())

    def _interrupt(self) -> str:
        recording, self._recording = self._recording, None
        if recording is None:
            return ""
        self._hears_states = False  # perhaps they have ceased: the next one waits for them
        try:
            folder = recording.interrupt()
        except BagError as error:
            self._recording = recording
            self._fail(error)
            return str(recording.folder)
        self.get_logger().warning(f"episode {recording.episode} was interrupted; kept as {folder}")
        return str(folder)

    def _fail(self, error: BagError) -> None:
        """Give up a bag that can't be written; what is in the file stays."""
        self.get_logger().error(f"recording stops: {error}")
        self._failure = str(error)
        if self._recording is not None:
            self._recording.abandon()
            self._recording = None

    def _poll(self) -> None:
        if self._recording is not None:
            try:
                self._recording.flush()
            except BagError as error:
                self._fail(error)
        now = time.monotonic()
        waiting = self._awaited
        self._awaited = []
        for condition, deadline, future in waiting:
            if (held := condition()) or now > deadline:
                future.set_result(held)
            else:
                self._awaited.append((condition, deadline, future))

    async def _until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait, without keeping the executor from its work; False after `timeout` [s]."""
        future = Future(executor=self.executor)
        self._awaited.append((condition, time.monotonic() + timeout, future))
        return bool(await future)

    def _unpublished(self) -> list[str]:
        # Publishers are counted by the name that a topic really has.
        real = self.resolve_topic_name
        return [name for name in AWAITED_PUBLISHERS if not self.count_publishers(real(name))]

    def _health(self) -> Health:
        recording = self._recording
        return Health(
            level=Level.ERROR if self._failure else Level.OK,
            message=self._failure or ("recording" if recording else "waiting"),
            values={
                "bag": recording.folder if recording else "",
                "messages": recording.message_count if recording else 0,
                "written": self._written,
                "refused_messages": self._refused.count,
            },
        )


def _delivery(topic: RecordedTopic, lockstep: bool) -> QoSProfile:
    if topic.latched:
        return ARCHIVE_LATCHED
    measured = topic.name in (topics.JOINT_STATES, topics.OBJECT_POSE) and not lockstep
    return MEASURED_ARCHIVE if measured else ARCHIVE


def _message_class(kind: str) -> Any:  # noqa: ANN401
    """The class of a type's name, e.g. `std_msgs/msg/Bool`."""
    package, _, name = kind.split("/")
    return getattr(import_module(f"{package}.msg"), name)


main = partial(run_node, Recorder)

if __name__ == "__main__":
    sys.exit(main())
