"""A robot on a test bench: joint states by hand, ears for controller and watchdog."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import rclpy
import torch
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.executors import SingleThreadedExecutor
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String

from hucrl_ros.config import (
    ExplorationSettings,
    ModelSettings,
    PlannerSettings,
    SafetySettings,
    SearchSettings,
)
from hucrl_ros.exploration import make_step
from hucrl_ros.export.bundle import BundleExporter
from hucrl_ros.models import Ensemble
from hucrl_ros.nodes.qos import LATCHED, STREAM
from hucrl_ros.nodes.tick_message import from_message
from hucrl_ros.runtime.manifest import BundleFields
from hucrl_ros.search.base import Actors
from hucrl_ros.tasks import PendulumSwingUp

PATIENCE = 20.0
"""[s] Discovery takes seconds on a loaded machine."""
STEPS = 12
_numbers = itertools.count()
PERIOD = PendulumSwingUp.robot.spec.period
TRANSITIONS = {
    "configure": Transition.TRANSITION_CONFIGURE,
    "activate": Transition.TRANSITION_ACTIVATE,
    "deactivate": Transition.TRANSITION_DEACTIVATE,
    "cleanup": Transition.TRANSITION_CLEANUP,
}


class BundleMaker:
    """Untrained bundles of the pendulum; the first takes seconds, the next ones don't."""

    def __init__(self, steps=STEPS):
        generator = torch.Generator().manual_seed(0)
        self.task = PendulumSwingUp(0.2)
        self.task.steps = steps
        model = Ensemble(self.task, ModelSettings(heads=2, layers=(8,)), generator)
        step = make_step("optimistic", model, ExplorationSettings())
        search = SearchSettings(policy_layers=(8,), critic_layers=(8,))
        actors = Actors(self.task, step.hallucination_dim, search, generator)
        self.planner = PlannerSettings(particles=8, horizon=5, elites=2, iterations=1)
        self._exporter = BundleExporter(self.task, step, actors, self.planner.horizon, 0.99)

    def make(self, path, episode=1, random=False, **safety):
        fields = BundleFields(
            strategy="optimistic",
            seed=0,
            episode=episode,
            random=random,
            beta=1.0,
            planner=self.planner,
            safety=SafetySettings(**safety),
            data_hash="",
            versions={},
            revision="test",
        )
        self._exporter.write(path, fields, None)
        return path


class Process:
    """A node as a process of its own."""

    def __init__(self, node, log, program=(), **parameters):
        self.log = log
        self._seen = 0
        program = program or ("-m", f"hucrl_ros.nodes.{node}")
        arguments = []
        for name, value in parameters.items():
            arguments += ["-p", f"{name.replace('__', '.')}:={value}"]
        root = Path(__file__).resolve().parents[1]
        path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
        with log.open("ab") as output:
            self.popen = subprocess.Popen(
                [sys.executable, *program, "--ros-args", *arguments],
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONPATH": path},
            )

    def text(self):
        """What it has logged since `forget`."""
        return self.log.read_text()[self._seen :]

    def lines(self, text):
        return [line for line in self.text().splitlines() if text in line]

    def forget(self):
        self._seen = len(self.log.read_text())

    def end(self, number=signal.SIGTERM):
        """Send a signal and return the exit code."""
        self.popen.send_signal(number)
        return self.popen.wait(10)

    def clean_up(self):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()


class Bench:
    """The other end of the controller's and the watchdog's topics."""

    def __init__(self):
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        name = f"bench_{next(_numbers)}"  # names are shared by all contexts of a process
        self.node = rclpy.create_node(name, context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.commands, self.ticks, self.active = [], [], []
        self.bundles, self.tripped, self.diagnostics = [], [], []
        node = self.node
        self.states = node.create_publisher(JointState, "joint_states", STREAM)
        self.bundle = node.create_publisher(String, "bundle", LATCHED)
        listen = node.create_subscription
        listen(Float64MultiArray, "controller/commands", self._on_command, STREAM)
        listen(
            Float64MultiArray,
            "controller/ticks",
            lambda m: self.ticks.append(from_message(m)),
            STREAM,
        )
        listen(Bool, "controller/active", lambda m: self.active.append(m.data), LATCHED)
        listen(String, "controller/bundle", lambda m: self.bundles.append(m.data), LATCHED)
        listen(DiagnosticStatus, "watchdog/tripped", self.tripped.append, LATCHED)
        listen(DiagnosticArray, "/diagnostics", lambda m: self.diagnostics.extend(m.status), 10)
        self.client = node.create_client(ChangeState, "controller/change_state")
        self.stamp_ns = 1_000_000_000

    def _on_command(self, message):
        label = message.layout.dim[0].label if message.layout.dim else ""
        self.commands.append((label, list(message.data)))

    def forget(self):
        for heard in (self.commands, self.ticks, self.bundles, self.tripped, self.diagnostics):
            heard.clear()

    def close(self):
        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)

    def spin(self, seconds=0.0):
        end = time.monotonic() + seconds
        while True:
            self.executor.spin_once(timeout_sec=max(min(end - time.monotonic(), 0.01), 0.0))
            if time.monotonic() >= end:
                return

    def wait(self, condition, patience=PATIENCE):
        """Spin until the condition holds; False if it never does."""
        end = time.monotonic() + patience
        while not condition():
            if time.monotonic() > end:
                return False
            self.executor.spin_once(timeout_sec=0.02)
        return True

    def meet(self, process):
        """Wait until a controller has been found by all its topics."""
        node = self.node
        assert self.wait(lambda: self.states.get_subscription_count() > 0), process.text()
        assert self.wait(lambda: node.count_subscribers("joint_states") > 0)
        assert self.wait(lambda: node.count_publishers("controller/ticks") > 0)
        assert self.wait(lambda: self.active == [False])

    def transition(self, name):
        assert self.wait(self.client.service_is_ready), "no controller"
        request = ChangeState.Request(transition=Transition(id=TRANSITIONS[name]))
        for _ in range(10):
            # A killed controller's service seems ready for a while: it takes the request along.
            future = self.client.call_async(request)
            if self.wait(future.done, PATIENCE / 5):
                return future.result().success
        raise AssertionError(f"no answer to {name}")

    def publish(self, names=("pendulum_joint",), position=(3.0,), velocity=(0.0,), advance=PERIOD):
        """Publish a joint state `advance` [s] after the last one."""
        self.stamp_ns += round(advance * 1e9)
        message = JointState(name=list(names), position=list(position), velocity=list(velocity))
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(self.stamp_ns, 10**9)
        self.states.publish(message)

    def ask(self, **state):
        """Publish a joint state and return its command, or None if none comes."""
        count = len(self.commands)
        self.publish(**state)
        return self.commands[count][1] if self.wait(lambda: len(self.commands) > count) else None

    def offer(self, path):
        """Publish a bundle's path."""
        self.bundle.publish(String(data=str(path)))

    def load(self, path):
        """Publish a bundle's path and wait until the controller has it."""
        self.offer(path)
        assert self.wait(lambda: self.bundles[-1:] == [str(path)]), self.bundles

    def health(self, name):
        """The newest diagnostics of a node as a dictionary, after a fresh one has come."""
        self.diagnostics.clear()
        found = []
        assert self.wait(
            lambda: bool(found.extend(s for s in self.diagnostics if s.name == name) or found)
        )
        status = found[-1]
        values = {value.key: value.value for value in status.values}
        return {"level": status.level, "message": status.message, **values}
