"""A robot on a test bench: joint states by hand, ears for controller and watchdog."""

import signal
import subprocess
import sys
import time

from bundle_factory import write_bundle
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from ros_harness import REPOSITORY, Harness, child_environment
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String
from waiting import PATIENCE

from hucrl_ros.nodes.controller_topics import to_tick
from hucrl_ros.nodes.topics import ARCHIVE, LATCHED, STREAM
from hucrl_ros.robots import make_robot

ANSWER_S = 5.0
"""[s] For a service's answer, before it is asked again."""
COMPILE_S = 600.0
"""[s] A controller that compiles for its first bundle doesn't answer, for minutes where other
processes are busy."""
STEPS = 12
PERIOD = make_robot("pendulum").spec.period
TRANSITIONS = {
    "configure": (Transition.TRANSITION_CONFIGURE, "inactive"),
    "activate": (Transition.TRANSITION_ACTIVATE, "active"),
    "deactivate": (Transition.TRANSITION_DEACTIVATE, "inactive"),
    "cleanup": (Transition.TRANSITION_CLEANUP, "unconfigured"),
}


def short_bundle(path, steps=STEPS, **changes):
    """A bundle whose episodes have so many steps."""
    write_bundle(path, **changes)
    manifest = path / "manifest.yaml"
    text = manifest.read_text()
    assert "\nsteps: 400\n" in text
    manifest.write_text(text.replace("\nsteps: 400\n", f"\nsteps: {steps}\n"))
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
        with log.open("ab") as output:
            self.popen = subprocess.Popen(
                [sys.executable, *program, "--ros-args", *arguments],
                stdout=output,
                stderr=output,
                cwd=REPOSITORY,
                env=child_environment(),
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
        return self.popen.wait(PATIENCE)

    def clean_up(self):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()


class Bench(Harness):
    """The other end of the controller's and the watchdog's topics."""

    def __init__(self, folder):
        super().__init__(folder)
        self.commands, self.ticks, self.active = [], [], []
        self.bundles, self.tripped, self.diagnostics = [], [], []
        node = self.node
        self.states = node.create_publisher(JointState, "joint_states", STREAM)
        self.bundle = node.create_publisher(String, "bundle", LATCHED)
        listen = node.create_subscription
        listen(Float64MultiArray, "controller/commands", self._on_command, ARCHIVE)
        listen(
            Float64MultiArray,
            "controller/ticks",
            lambda m: self.ticks.append(to_tick(m)),
            ARCHIVE,
        )
        listen(Bool, "controller/active", lambda m: self.active.append(m.data), LATCHED)
        listen(String, "controller/bundle", lambda m: self.bundles.append(m.data), LATCHED)
        listen(DiagnosticStatus, "watchdog/tripped", self.tripped.append, LATCHED)
        listen(DiagnosticArray, "/diagnostics", lambda m: self.diagnostics.extend(m.status), 10)
        self.client = node.create_client(ChangeState, "controller/change_state")
        self.asker = node.create_client(GetState, "controller/get_state")
        self.stamp_ns = 1_000_000_000
        self.published = 0

    def _on_command(self, message):
        label = message.layout.dim[0].label if message.layout.dim else ""
        self.commands.append((label, list(message.data)))

    def forget(self):
        for heard in (self.commands, self.ticks, self.bundles, self.tripped, self.diagnostics):
            heard.clear()

    def wait(self, condition, patience=PATIENCE):
        """Spin until the condition holds; False if it never does."""
        end = time.monotonic() + patience
        while not condition():
            if time.monotonic() > end:
                return False
            self._executor.spin_once(timeout_sec=0.02)
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
        future = self.client.call_async(
            ChangeState.Request(transition=Transition(id=TRANSITIONS[name][0]))
        )
        if self.wait(future.done, ANSWER_S):
            return future.result().success
        # DDS loses answers to a client that the service hasn't found yet, and gives requests to
        # a killed controller's service for a while.
        if self.state() == TRANSITIONS[name][1]:
            return True
        return self.transition(name)

    def state(self):
        """Label of the controller's lifecycle state."""
        for _ in range(round(2 * COMPILE_S / ANSWER_S)):
            future = self.asker.call_async(GetState.Request())
            if self.wait(future.done, ANSWER_S / 2):
                return future.result().current_state.label
        raise AssertionError("the controller doesn't tell its state")

    def publish(self, names=("pendulum_joint",), position=(3.0,), velocity=(0.0,), advance=PERIOD):
        """Publish a joint state `advance` [s] after the last one."""
        self.stamp_ns += round(advance * 1e9)
        message = JointState(name=list(names), position=list(position), velocity=list(velocity))
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(self.stamp_ns, 10**9)
        self.states.publish(message)
        self.published += 1

    def ask(self, **state):
        """Publish a joint state and return its command, or None if none comes."""
        count = len(self.commands)
        self.publish(**state)
        return self.commands[count][1] if self.wait(lambda: len(self.commands) > count) else None

    def drive(self, over):
        """Publish joint states at 80 Hz, whatever comes back, until `over()`; returns how many.

        The first one's tick is waited for, as a state lost before it would not be missed, and
        the last one's.
        """
        self.publish()
        assert self.wait(lambda: len(self.ticks) > 0)
        begin, count = time.monotonic() - PERIOD, 1
        while not over():
            self.publish(position=(3.0 + 0.01 * (count % 7),))
            count += 1
            self.wait(lambda due=begin + count * PERIOD: time.monotonic() >= due)
        last_ns = self.stamp_ns
        assert self.wait(lambda: self.ticks and self.ticks[-1].stamp_ns == last_ns)
        return count

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
            lambda: bool(
                found.extend(s for s in self.diagnostics if s.name == f"/{name}") or found
            )
        )
        status = found[-1]
        values = {value.key: value.value for value in status.values}
        named = {"hardware_id": status.hardware_id, "message": status.message}
        return {"level": status.level, **named, **values}
