"""No message ends a node: what makes no sense is left out, counted and told in a line."""

import itertools
import math

import pytest

pytest.importorskip("rclpy", reason="nodes are of ROS 2")

from bench import short_bundle
from hostile import harmless, is_one_line
from hostile_messages import of_type
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as some
from lone_node import alone
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.serialization import serialize_message

from hucrl_ros.config.schema import Config
from hucrl_ros.controller.topics import RECORDED
from hucrl_ros.nodes import controller, homing, recorder, simulator, supervisor
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

    def __init__(self, places):
        folder, self.bundle, count = places
        self.run = folder / f"run_{next(count)}"

    def ready(self, node):
        """Bring it there."""

    def holds(self, node):
        """Look at it."""
        assert node.exit_code is None


class RealController(Subject):
    make, mode = controller.Controller, "real_time"

    def parameters(self):
        return {"mode": self.mode, "bundle": str(self.bundle)}

    def ready(self, node):
        assert node.on_configure(None) is TransitionCallbackReturn.SUCCESS
        assert node.on_activate(None) is TransitionCallbackReturn.SUCCESS

    def holds(self, node):
        super().holds(node)
        for message in node.sent.get("controller/commands", ()):
            assert len(message.data) == 1 and abs(message.data[0]) <= 1.0


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
        for message in node.sent.get("controller/commands", ()):
            assert len(message.data) == 1 and abs(message.data[0]) <= 1.0


class Simulates(Subject):
    make = simulator.Simulator

    def parameters(self):
        return {"mode": "lockstep"}

    def holds(self, node):
        super().holds(node)
        assert all(map(math.isfinite, node.sent["joint_states"][-1].position))


class Supervises(Subject):
    make = supervisor.Supervisor

    def parameters(self):
        return {"run": str(RunFolder.create(self.run, Config()).root)}

    def ready(self, node):
        node._progress.enter(Phase.RUNNING)

    def holds(self, node):
        super().holds(node)
        node._show()
        node._look()


SUBJECTS = (RealController, LockstepController, Recorded, Homes, Simulates, Supervises)


@pytest.fixture(autouse=True)
def no_second_process(monkeypatch):
    """The one that stops the robot should homing end; it is not heard of here."""

    class NoStopper:
        ready = True

        def __init__(self, *unused):
            pass

        def hold(self):
            return True

        def release(self):
            pass

        dismiss = release

    monkeypatch.setattr(homing, "Stopper", NoStopper)


def heard_by(node):
    """Messages to a node, each with its topic."""
    strategies = []
    for topic, kind in node.kinds.items():
        of_kind = of_type(kind or _message_class(TYPES[topic]))
        if kind is None:  # as it came
            of_kind = of_kind.map(serialize_message) | some.binary(max_size=200)
        strategies.append(of_kind.map(lambda message, topic=topic: (topic, message)))
    return some.lists(some.one_of(strategies), min_size=1, max_size=MESSAGES)


@pytest.mark.fuzz
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda kind: kind.__name__)
def test_no_message_ends_a_node(subject, places):
    subject = subject(places)
    with alone(subject.make, **subject.parameters()) as node:
        subject.ready(node)

        @examples(max_examples=60)
        @given(heard=heard_by(node))
        def hear(heard):
            for topic, message in heard:
                if topic not in node.heard:
                    continue
                lines = len(node.lines)
                with harmless():
                    node.heard[topic](message)
                assert all(map(is_one_line, node.lines[lines:])), node.lines[lines:]
            with harmless():
                for timer in list(node.timers):
                    timer.ring()
            subject.holds(node)
            subject.ready_again(node) if hasattr(subject, "ready_again") else None

        hear()
