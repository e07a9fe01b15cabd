"""The page's node: hears what is published of a run, and sets parameters on request."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.client import Client
from rclpy.context import Context
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import MessageInfo, Subscription
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String

from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.errors import MessageError
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.controller_topics import to_pose, to_reading, to_tick
from hucrl_ros.nodes.diagnostics import speaker
from hucrl_ros.nodes.runner import make_executor
from hucrl_ros.nodes.topics import LATCHED
from hucrl_ros.page.heard import WATCHDOG, Heard
from hucrl_ros.page.wishes import CONTROLS, Control, Setting, Stop, Value, Wishes
from hucrl_ros.run.node_list import SUPERVISOR, enclave_of

NAME = "page"
LOSSY = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""A publisher doesn't wait for who listens so."""
EACH = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)
"""The same, with room for what comes between two pictures."""
Hear = Callable[[Any, MessageInfo], None]
LOOK_PERIOD = 1.0
"""[s] Between two looks at which controls there are."""
MOST_ASKED = 100
"""Questions to nodes whose answers are waited for."""


class PageNode(Node):
    """Fills a `Heard`; does what is in `Wishes`.

    What a robot says often is fetched for each picture: to wake up for each message took a
    quarter of the page's processor time.
    """

    _often: tuple[Subscription[Any], ...] = ()

    def __init__(self, heard: Heard, wishes: Wishes, context: Context) -> None:
        super().__init__(NAME, context=context)
        self._heard, self._wishes = heard, wishes
        delivery = EACH if heard.derives else LOSSY
        self._often: tuple[Subscription[Any], ...] = (
            self.create_subscription(PoseStamped, topics.OBJECT_POSE, self._on_object, EACH),
            self.create_subscription(JointState, topics.JOINT_STATES, self._on_state, delivery),
            self.create_subscription(Float64MultiArray, topics.TICKS, self._on_tick, EACH),
        )
        self.create_subscription(PoseStamped, topics.GOAL, self._on_goal, LATCHED)
        self.create_subscription(Bool, topics.ACTIVE, self._on_active, LATCHED)
        self.create_subscription(String, topics.LOADED_BUNDLE, self._on_bundle, LATCHED)
        self.create_subscription(
            DiagnosticStatus, topics.LEARNER_REPORT, self._on_learner, LATCHED
        )
        self.create_subscription(DiagnosticStatus, topics.TRIPPED, self._on_tripped, LATCHED)
        self.create_subscription(DiagnosticArray, topics.DIAGNOSTICS, self._on_diagnostics, EACH)
        self._stop = self.create_publisher(Bool, topics.STOP, 1)
        self._setters: dict[str, Client] = {}
        self._getters: dict[str, Client] = {}
        for name in {control.node for control in CONTROLS}:
            self._setters[name] = self.create_client(SetParameters, f"{name}/set_parameters")
            self._getters[name] = self.create_client(GetParameters, f"{name}/get_parameters")
        self._asked: deque[tuple[Client, Future]] = deque()
        self.create_timer(LOOK_PERIOD, self._look, clock=topics.STEADY)

    @property
    def subscriptions(self) -> Iterator[Subscription[Any]]:
        """Those that wake the executor."""
        return (each for each in super().subscriptions if each not in self._often)

    def fetch(self) -> None:
        """Hear what was said often since the last call."""
        for subscription in self._often:
            handle, hear = subscription.handle, cast(Hear, subscription.callback)
            with handle:
                while (taken := handle.take_message(subscription.msg_type, False)) is not None:
                    hear(*taken)

    def obey(self) -> None:
        """Do what was wished since the last call."""
        for wish in self._wishes.taken():
            if isinstance(wish, Stop):
                self._stop.publish(Bool(data=wish.stopped))
                heard = self._stop.get_subscription_count() > 0
                wish.answer("" if heard else f"nobody hears {self._stop.topic_name}")
            else:
                self._set(wish)

    def _set(self, setting: Setting) -> None:
        control, client = setting.control, self._setters[setting.control.node]
        if not client.service_is_ready():
            setting.answer(f"the node {control.node} isn't there")
            return
        wanted = Parameter(name=control.parameter, value=_encoded(control, setting.value))
        request = SetParameters.Request(parameters=[wanted])
        self._ask(client, request, partial(self._answer, setting))

    def _answer(self, setting: Setting, future: Future) -> None:
        answer = future.result()
        if answer is None or not answer.results:
            setting.answer(f"the node {setting.control.node} gave no answer")
            return
        result = answer.results[0]
        if result.successful:
            self._wishes.stands_at(setting.control, setting.value)  # known before the next look
        setting.answer("" if result.successful else result.reason or "refused")

    def _look(self) -> None:
        """Which controls there are, and what they stand at."""
        for control in CONTROLS:
            client = self._getters[control.node]
            if not client.service_is_ready():
                self._wishes.stands_at(control, None)
                continue
            request = GetParameters.Request(names=[control.parameter])
            self._ask(client, request, partial(self._told, control))

    def _ask(self, client: Client, request: object, take: Callable[[Future], None]) -> None:
        """Ask a node; one that hangs is waited for by the newest questions alone."""
        if len(self._asked) == MOST_ASKED:
            asked, oldest = self._asked.popleft()
            asked.remove_pending_request(oldest)
        future = client.call_async(request)
        future.add_done_callback(take)
        self._asked.append((client, future))

    def _told(self, control: Control, future: Future) -> None:
        answer = future.result()
        values = answer.values if answer is not None else []  # none where it isn't declared
        self._wishes.stands_at(control, _decoded(control, values[0]) if values else None)

    def _on_state(self, message: JointState, info: MessageInfo) -> None:
        self._heard.joint_state(to_reading(message), _waited(info))

    def _on_object(self, message: PoseStamped, info: MessageInfo) -> None:
        self._heard.object_at(to_pose(message))

    def _on_goal(self, message: PoseStamped) -> None:
        self._heard.goal_at(to_pose(message))

    def _on_tick(self, message: Float64MultiArray, info: MessageInfo) -> None:
        try:
            self._heard.tick(to_tick(message), _waited(info))
        except MessageError as error:
            self._heard.note("controller/ticks", str(error))

    def _on_active(self, message: Bool) -> None:
        self._heard.active(bool(message.data))

    def _on_bundle(self, message: String) -> None:
        self._heard.bundle(message.data)

    def _on_learner(self, message: DiagnosticStatus) -> None:
        told = {pair.key: pair.value for pair in message.values}
        self._heard.learner(message.message, told.get("progress", ""))
        if message.level == DiagnosticStatus.ERROR:
            self._heard.note("learner", message.message)

    def _on_tripped(self, message: DiagnosticStatus) -> None:
        if message.level == DiagnosticStatus.ERROR:
            self._heard.note(WATCHDOG, message.message)
        else:
            self._heard.calm(WATCHDOG)

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            name = speaker(self, status)
            if not name:  # a node of another run, or of the driver
                continue
            if name == SUPERVISOR:
                self._heard.supervisor({x.key: x.value for x in status.values}.get("phase", ""))
            if status.level == DiagnosticStatus.OK:
                self._heard.calm(name)
            else:
                self._heard.note(name, status.message)


def _waited(info: MessageInfo) -> float:
    """Seconds since a message came."""
    now = time.time_ns()
    came = info["received_timestamp"] or now  # not every DDS tells it
    return max(now - came, 0) / NANOSECONDS


def _encoded(control: Control, value: Value) -> ParameterValue:
    if control.kind == "switch":
        return ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=bool(value))
    if control.kind == "text":
        return ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=str(value))
    assert isinstance(value, tuple)
    return ParameterValue(type=ParameterType.PARAMETER_DOUBLE_ARRAY, double_array_value=value)


def _decoded(control: Control, value: ParameterValue) -> Value | None:
    """The parameter's value; None where it has another type."""
    if control.kind == "switch" and value.type == ParameterType.PARAMETER_BOOL:
        return bool(value.bool_value)
    if control.kind == "text" and value.type == ParameterType.PARAMETER_STRING:
        return str(value.string_value)
    if control.kind == "numbers" and value.type == ParameterType.PARAMETER_DOUBLE_ARRAY:
        return tuple(value.double_array_value)
    if control.kind == "numbers" and value.type == ParameterType.PARAMETER_INTEGER_ARRAY:
        return tuple(map(float, value.integer_array_value))
    # Of what an empty list is one rclpy can't know; it says of bytes.
    empty = value.type == ParameterType.PARAMETER_BYTE_ARRAY and not value.byte_array_value
    return () if control.kind == "numbers" and empty else None


class Joined:
    """A `PageNode` in a ROS domain, spun by whoever calls `spin`."""

    def __init__(
        self, heard: Heard, wishes: Wishes, domain: int, remappings: Mapping[str, str]
    ) -> None:
        words = [word for a, b in remappings.items() for word in ("-r", f"{a}:={b}")]
        self.heard, self.wishes = heard, wishes
        self._context = Context()
        # What becomes of signals is for the command to decide.
        rclpy.init(
            args=["--ros-args", "--disable-external-lib-logs", *enclave_of(NAME), *words],
            context=self._context,
            domain_id=domain,
            signal_handler_options=SignalHandlerOptions.NO,
        )
        self._node = PageNode(heard, wishes, self._context)
        self._executor = make_executor(self._context)
        self._executor.add_node(self._node)
        heard.begin_session()
        heard.fetch_by(self._node.fetch)
        wishes.connect(True)

    def spin(self, seconds: float) -> None:
        """Hear what comes seldom, in that time or until something has come; do what is wished."""
        self._executor.spin_once(timeout_sec=seconds)
        self._node.obey()

    def close(self) -> None:
        """Leave the domain."""
        self.wishes.connect(False)
        self.heard.fetch_by(None)
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()
