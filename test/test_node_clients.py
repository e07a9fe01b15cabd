"""What the supervisor knows of the other nodes, by what they say."""

from collections import deque
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="what is heard are ROS 2's messages")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_msgs.msg import Transition
from lone_node import LoneNode
from std_msgs.msg import Bool, String

from hucrl_ros.nodes import node_clients as module

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=50.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def node():
    return LoneNode("supervisor")


@pytest.fixture
def clients(node, clock):
    clients = module.NodeClients(node, lambda: setattr(node, "changes", node.changes + 1))
    node.changes = 0
    return clients


def diagnose(node, name, level, message=""):
    status = DiagnosticStatus(name=f"/{name}", level=level, message=message)
    node.heard["/diagnostics"](DiagnosticArray(status=[status]))


def test_nodes_are_missed_until_their_services_and_topics_are_there(node, clients, monkeypatch):
    assert clients.missing() == ["controller"], "it has said nothing yet"
    node.heard["controller/active"](Bool(data=False))
    assert clients.missing() == []
    monkeypatch.setattr(clients.learn, "service_is_ready", lambda: False)
    monkeypatch.setattr(LoneNode, "count_publishers", lambda self, name: 0)
    assert clients.missing() == ["simulator", "watchdog", "learner"]


def test_a_node_is_lost_after_a_long_silence_only(node, clients, clock):
    diagnose(node, "recorder", OK)
    clock.now += 20.0
    diagnose(node, "learner", OK)
    clock.now += module.SILENCE_S - 15.0
    assert clients.silent() == ["recorder"]
    diagnose(node, "recorder", OK)
    assert clients.silent() == []


def test_an_error_counts_until_it_is_forgiven_and_a_warning_never(node, clients):
    diagnose(node, "controller", ERROR, "outage: no new joint state")
    diagnose(node, "controller", WARN, "late")
    diagnose(node, "controller", OK, "ok")
    assert clients.trouble("controller") == "late"
    assert clients.failure("controller") == "outage: no new joint state"
    clients.forgive("controller")
    assert clients.failure("controller") == ""
    assert clients.failure("recorder") == clients.trouble("recorder") == ""


def test_a_trouble_of_hours_ago_is_no_reason_of_what_happens_now(node, clients, clock):
    diagnose(node, "controller", WARN, "no new joint state for 31 ms")
    diagnose(node, "simulator", WARN, "1 commands refused")
    for _ in range(100):
        clock.now += 1.0
        diagnose(node, "controller", OK)
        diagnose(node, "simulator", WARN, "1 commands refused")
    assert clients.trouble("controller") == ""
    assert clients.trouble("simulator") == "1 commands refused", "it says so still"


def test_only_nodes_of_the_own_namespace_are_listened_to(node, clients, clock, monkeypatch):
    monkeypatch.setattr(LoneNode, "get_namespace", lambda self: "/left")
    diagnose(node, "left/controller", ERROR, "mine")
    for other in ("right/controller", "controller", "left/arm/controller", "left/gripper: driver"):
        diagnose(node, other, ERROR, "not mine")
    assert clients.trouble("controller") == clients.failure("controller") == "mine"
    clock.now += 2 * module.SILENCE_S
    assert clients.silent() == ["controller"]


def test_messages_are_counted_and_kept(node, clients):
    for active in (True, False):
        node.heard["controller/active"](Bool(data=active))
    node.heard["controller/bundle"](String(data="runs/a/bundles/bundle_001"))
    values = [KeyValue(key="progress", value="0.5")]
    report = DiagnosticStatus(level=ERROR, message="loss is nan", values=values)
    node.heard["learner/report"](report)
    assert (clients.active, clients.activity_count) == (False, 2)
    assert (clients.loaded, clients.loaded_count) == ("runs/a/bundles/bundle_001", 1)
    assert clients.report == module.LearnerReport("loss is nan", True, {"progress": "0.5"})
    node.heard["watchdog/tripped"](DiagnosticStatus(level=ERROR, message="no command"))
    assert clients.trip == "no command"
    node.heard["watchdog/tripped"](DiagnosticStatus(level=OK, message="armed"))
    assert clients.trip is None
    assert node.changes == 6


def test_only_an_active_controller_is_asked_to_end_its_episode(node, clients):
    clients.deactivate()
    assert node.asked == []
    node.heard["controller/active"](Bool(data=True))
    clients.deactivate()
    (asked,) = node.asked
    assert asked[0] == "controller/change_state"
    assert asked[1].transition.id == Transition.TRANSITION_DEACTIVATE


def test_an_answer_is_a_reason_to_look_again(node, clients):
    future = clients.call(clients.reset, "request")
    assert node.changes == 0
    future.set_result("answer")
    assert (node.changes, future.result()) == (1, "answer")


def test_a_stop_is_passed_on_once_and_letting_go_is_not(node, clients):
    """`ros2 topic pub --once` leaves when one of those who listen has heard it."""
    told = []
    clients._stop.publish = lambda message: told.append(message.data)
    for said in (True, True, False, False, True):
        node.heard["stop"](Bool(data=said))
    assert told == [True, True] and clients.stops == 2
    clients.hold()
    assert told == [True, True] and clients.stopped and clients.stops == 2
    node.heard["stop"](Bool(data=False))
    clients.hold()
    assert told == [True] * 3 and clients.stopped and clients.stops == 3


@given(said=st.lists(st.booleans(), max_size=12), late=st.lists(st.integers(0, 12), min_size=12))
def test_its_own_words_come_back_late_and_undo_no_stop(said, late):
    """However late each comes back, or never: who said stop last finds the robot stopped."""
    node = LoneNode("supervisor")
    clients = module.NodeClients(node, lambda: None)
    coming, own = deque(said), []
    clients._stop.publish = lambda message: own.append([late[len(own) % 12], message.data])
    last = False
    for _ in range(100):
        if coming:
            last = coming.popleft()
            node.heard["stop"](Bool(data=last))
            assert clients.stopped or not last
        for word in [word for word in own if word[0] == 0]:
            node.heard["stop"](Bool(data=word[1]))
        for word in own:
            word[0] -= 1
    assert clients.stopped or not last
    assert len(own) <= 2 * len(said), "it goes on for ever"
