"""What the supervisor knows of the other nodes, by what they say."""

from collections import deque
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="what is heard are ROS 2's messages")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
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


def test_a_stop_is_passed_on_once_and_so_is_letting_it_go_on(node, clients):
    """`ros2 topic pub --once` leaves when one of those who listen has heard it."""
    told = []
    clients._stop.publish = lambda message: told.append(message.data)
    for said in (True, True, False, False, True):
        node.heard["stop"](Bool(data=said))
    assert told == [True, False, True] and clients.stops == 2
    clients.hold()
    assert told == [True, False, True] and clients.stopped and clients.stops == 2
    node.heard["stop"](Bool(data=False))
    clients.hold()
    assert told[3:] == [False, True] and clients.stopped and clients.stops == 3


@pytest.mark.parametrize(
    ("said", "stopped"),
    [([True, False], False), ([True, False, True], True), ([True] * 5 + [False] * 5, False)],
)
def test_its_own_word_on_a_stop_is_no_news(node, clients, said, stopped):
    """Those who let it go on at once have done so before the word on their stop is back."""
    coming = deque(said)
    clients._stop.publish = lambda message: coming.append(message.data)
    for _ in range(30):
        if coming:
            node.heard["stop"](Bool(data=coming.popleft()))
    assert not coming, "it goes on for ever"
    assert clients.stopped is stopped


def test_a_word_of_its_own_that_never_came_back_hides_no_later_stop(clock, node, clients):
    for said in (True, False):
        node.heard["stop"](Bool(data=said))
    clock.now += 1.1 * module.ECHO_S
    node.heard["stop"](Bool(data=True))
    assert clients.stopped
