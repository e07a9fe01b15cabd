"""No message ends a node: what makes no sense is left out, counted and told in a line."""

import itertools
import math

import pytest

pytest.importorskip("rclpy", reason="nodes are of ROS 2")

from bench import short_bundle
from diagnostic_msgs.msg import DiagnosticStatus
from hostile import harmless, is_one_line
from hostile_messages import FLOATS, STAMPS, of_type
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as some
from lone_node import alone
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from hucrl_ros.config.schema import Config
from hucrl_ros.controller.topics import RECORDED
from hucrl_ros.nodes import controller, homing, recorder, simulator, supervisor, topics
from hucrl_ros.nodes.recorder import _message_class
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.progress import Phase

TYPES = {topic.name: topic.type for topic in RECORDED}
MESSAGES = 12
"""Heard in an example."""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A bundle and folders of runs."""
    folder = tmp_path_factory.mktemp("hostile")
    bundle = short_bundle(folder / "bundle_001", steps=10**6, episode=1)
    return folder, bundle, itertools.count()


class Subject:
    """A node in the state in which it listens most, and what must hold of it."""

    unheard = ()
    """Periods of timers that look at the network."""

    def __init__(self, places):
        folder, self.bundle, count = places
        self.run = folder / f"run_{next(count)}"

    def ready(self, node):
        """Bring it there."""

    def holds(self, node):
        """Look at it."""
        assert node.exit_code is None

    def again(self, node):
        """Bring it there again."""

    def obeys(self, topic, message):
        """Whether the message makes sense, so that it does what it says."""
        return False


class RealController(Subject):
    make, mode = controller.Controller, "real_time"

    def parameters(self):
        return {"mode": self.mode, "bundle": str(self.bundle)}

    def ready(self, node):
        assert node.on_configure(None) is TransitionCallbackReturn.SUCCESS
        assert node.on_activate(None) is TransitionCallbackReturn.SUCCESS

    def holds(self, node):
        super().holds(node)
        commands = node.sent.get("controller/commands", [])
        assert all(len(m.data) == 1 and abs(m.data[0]) <= 1.0 for m in commands)
        commands.clear()

    def again(self, node):
        node.on_deactivate(None)
        node.heard["stop"](Bool(data=False))
        assert node.on_activate(None) is TransitionCallbackReturn.SUCCESS


class LockstepController(RealController):
    mode = "lockstep"


class Recorded(Subject):
    make = recorder.Recorder

    def parameters(self):
        return {"run": str(RunFolder.create(self.run, Config()).root)}

    def ready(self, node):
        node._recording = recorder.Recording(node._run, node._topics, stepped=True)

    def holds(self, node):
        super().holds(node)
        assert node._recording is not None and not node._failure, "it goes on recording"


class Homes(Subject):
    make = homing.Homing
    unheard = (homing.GRAPH_PERIOD,)

    def parameters(self):
        config = Config.model_validate({"mode": "real_time", "driver": {"reset": "home"}})
        return {
            "run": str(RunFolder.create(self.run, config).root),
            "mode": "real_time",
            "driver__reset": "home",
        }

    def ready(self, node):
        assert node._begun() == ""
        node._moving = True

    def holds(self, node):
        super().holds(node)
        commands = node.sent.get("controller/commands", [])
        assert all(len(m.data) == 1 and abs(m.data[0]) <= 1.0 for m in commands)
        commands.clear()

    def again(self, node):
        if node._answer is None:
            node._active = node._stopped = False
            self.ready(node)


class Simulates(Subject):
    make = simulator.Simulator

    def parameters(self):
        return {"mode": "lockstep"}

    def holds(self, node):
        super().holds(node)
        assert all(map(math.isfinite, node.sent["joint_states"][-1].position))


class Supervises(Subject):
    make = supervisor.Supervisor
    unheard = (supervisor.ADVANCE_PERIOD, supervisor.DELIVERY_PERIOD)

    def parameters(self):
        return {"run": str(RunFolder.create(self.run, Config()).root)}

    def ready(self, node):
        node._progress.enter(Phase.RUNNING)

    def holds(self, node):
        super().holds(node)
        node._show()
        if (report := node._others.report) is not None:
            assert isinstance(report.progress, float)

    def obeys(self, topic, message):
        """Whoever says that the learner has failed is believed, and the run ends."""
        return topic == topics.LEARNER_REPORT and message.level == DiagnosticStatus.ERROR


SUBJECTS = (RealController, LockstepController, Recorded, Homes, Simulates, Supervises)


@pytest.fixture(autouse=True)
def no_second_process(monkeypatch):
    """The one that stops the robot should homing end; it is not heard of here."""

    class NoStopper:
        def __init__(self, *unused):
            pass

        def meets(self, listeners):
            return True

        def hold(self):
            return True

        def release(self):
            pass

        dismiss = release

    monkeypatch.setattr(homing, "Stopper", NoStopper)


@some.composite
def joint_states(draw):
    """Those of the right joint: what is in them gets further."""
    values = [draw(FLOATS) for _ in range(2)]
    message = JointState(
        name=["pendulum_joint"],
        position=[values[0]],
        velocity=[values[1]],
        effort=[draw(FLOATS)] * draw(some.integers(0, 1)),
    )
    stamp = message.header.stamp
    stamp.sec, stamp.nanosec = draw(STAMPS)
    return message


def heard_by(node):
    """Messages to a node, each with its topic."""
    strategies = []
    for topic, kind in node.kinds.items():
        of_kind = of_type(kind or _message_class(TYPES[topic]))
        if kind is None:  # as it came
            of_kind = of_kind.map(serialize_message) | some.binary(max_size=200)
        if topic == "joint_states" and kind is not None:
            of_kind |= joint_states()
        strategies.append(of_kind.map(lambda message, topic=topic: (topic, message)))
    return some.lists(some.one_of(strategies), min_size=1, max_size=MESSAGES)


@pytest.mark.fuzz
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda kind: kind.__name__)
def test_no_message_ends_a_node(subject, places):
    subject = subject(places)
    with alone(subject.make, **subject.parameters()) as node:
        subject.ready(node)

        @examples(max_examples=15)
        @given(heard=heard_by(node))
        def hear(heard):
            for topic, message in heard:
                if topic not in node.heard or subject.obeys(topic, message):
                    continue
                lines = len(node.lines)
                with harmless():
                    node.heard[topic](message)
                assert all(map(is_one_line, node.lines[lines:])), node.lines[lines:]
            with harmless():
                for timer in list(node.timers):
                    if timer.period not in subject.unheard:
                        timer.ring()
            subject.holds(node)
            subject.again(node)

        hear()
