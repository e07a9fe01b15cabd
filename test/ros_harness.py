"""A node in the test's own process, and the processes of the nodes under test."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import rclpy
from rclpy.context import Context
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, MultiArrayDimension
from std_srvs.srv import SetBool, Trigger
from waiting import PATIENCE

from hucrl_ros.controller.ticks import TickRecord, encode_tick, tick_labels
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.runner import PARENT_VARIABLE, make_executor

REPOSITORY = Path(__file__).resolve().parents[1]


class Harness:
    """Use as a context manager; at its end every process that it started is gone."""

    def __init__(self, log_folder: Path) -> None:
        # Of its own, so that a module's harness and a test's don't get in each other's way.
        self._context = Context()
        rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self.node = Node("harness", context=self._context)
        self._executor = make_executor(self._context)
        self._executor.add_node(self.node)
        self._processes: list[subprocess.Popen] = []
        self._logs = log_folder
        # Now: a service forgets an answer to a client that it hasn't found yet.
        self._clients = {
            name: self.node.create_client(kind, name)
            for name, kind in (
                (topics.RESET, Trigger),
                (topics.RECORD, SetBool),
                (topics.LEARN, Trigger),
            )
        }

    def __enter__(self) -> "Harness":
        return self

    def __exit__(self, *unused) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def start(self, name: str, **parameters) -> subprocess.Popen:
        """Start a node of hucrl_ros; its output is in `log(name)`."""
        arguments = [x for k, v in parameters.items() for x in ("-p", f"{k}:={v}")]
        with self._log_path(name).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"hucrl_ros.nodes.{name}", "--ros-args", *arguments],
                cwd=REPOSITORY,
                env=child_environment(),
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process

    def log(self, name: str) -> str:
        """What a node wrote so far; empty where it was never started."""
        path = self._log_path(name)
        return path.read_text() if path.exists() else ""

    def _log_path(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def wait(self, condition: Callable[[], bool], patience: float = PATIENCE) -> bool:
        """Spin until the condition holds; False if it never does."""
        end = time.monotonic() + patience
        while not condition():
            if time.monotonic() > end:
                return False
            self._executor.spin_once(timeout_sec=0.05)
        return True

    def spin_until(self, condition: Callable[[], bool], patience: float = PATIENCE) -> None:
        assert self.wait(condition, patience), "waited in vain"

    def spin_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._executor.spin_once(timeout_sec=0.01)

    def listen(self, message_type, topic: str) -> list:
        """Messages of a topic, appended as they come."""
        heard: list = []
        self.node.create_subscription(message_type, topic, heard.append, topics.STREAM)
        return heard

    def call(self, service_type, name: str, request):
        future = self.call_async(service_type, name, request)
        self.spin_until(future.done)
        return future.result()

    def call_async(self, service_type, name: str, request):
        if name not in self._clients:
            self._clients[name] = self.node.create_client(service_type, name)
        client = self._clients[name]
        self.spin_until(client.service_is_ready)
        return client.call_async(request)

    def reset(self) -> Trigger.Response:
        return self.call(Trigger, topics.RESET, Trigger.Request())

    def record(self, on: bool) -> SetBool.Response:
        return self.call(SetBool, topics.RECORD, SetBool.Request(data=on))


def child_environment() -> dict[str, str]:
    """Has a node end with this process, even if this one is killed."""
    return {PARENT_VARIABLE: str(os.getpid()), **os.environ}


def stop(process: subprocess.Popen, number: int = signal.SIGTERM) -> int:
    """Signal a process and wait for its exit code."""
    process.send_signal(number)
    return process.wait(PATIENCE)


def stamp_ns(message: JointState) -> int:
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


class ScriptedController:
    """Answers each new joint state with the next of the given efforts, and a tick."""

    def __init__(self, node: Node) -> None:
        self._commands = node.create_publisher(Float64MultiArray, topics.COMMANDS, topics.STREAM)
        self._ticks = node.create_publisher(Float64MultiArray, topics.TICKS, topics.STREAM)
        self._active = node.create_publisher(Bool, topics.ACTIVE, topics.LATCHED)
        node.create_subscription(JointState, topics.JOINT_STATES, self._on_state, topics.STREAM)
        self.seen: list[JointState] = []
        """Every message."""
        self.answered: list[JointState] = []
        """Those that got a command, and the one that the last command led to."""
        self._script: list[Sequence[float]] = []
        self.playing = False

    @property
    def matched(self) -> bool:
        """A simulator and a recorder listen."""
        return self._commands.get_subscription_count() >= 2 and all(
            publisher.get_subscription_count() for publisher in (self._ticks, self._active)
        )

    @property
    def is_heard(self) -> bool:
        """A simulator listens."""
        return self._commands.get_subscription_count() >= 1

    def play(self, script: Sequence[Sequence[float]]) -> None:
        """Begin to answer with the efforts of `script`, one entry a joint state."""
        self._script = list(script)
        self.answered = []
        self.playing = True
        self.announce(active=True)

    def announce(self, active: bool) -> None:
        self._active.publish(Bool(data=active))

    def send(self, efforts: Sequence[float]) -> None:
        self._commands.publish(Float64MultiArray(data=list(efforts)))

    def _on_state(self, message: JointState) -> None:
        self.seen.append(message)
        if not self.playing:
            return
        if self.answered and stamp_ns(message) <= stamp_ns(self.answered[-1]):
            return
        self.answered.append(message)
        step = len(self.answered) - 1
        if step == len(self._script):
            self.playing = False
            self.announce(active=False)
            return
        self.send(self._script[step])
        self._ticks.publish(tick_message(message, step, self._script[step]))


def tick_message(message: JointState, step: int, action: Sequence[float]) -> Float64MultiArray:
    stamp = message.header.stamp
    played = (False, False, False, 1, 0.0, 0.0, 0.0, 0.0, math.nan, tuple(action))
    record = TickRecord(stamp.sec, stamp.nanosec, step, 1.0, 0, *played)
    tick = Float64MultiArray(data=encode_tick(record))
    tick.layout.dim = [
        MultiArrayDimension(label=label, size=1) for label in tick_labels(len(action))
    ]
    return tick
