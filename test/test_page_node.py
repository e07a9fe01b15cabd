"""What of the page talks to ROS, over real DDS."""

import os
import socket
from unittest.mock import MagicMock
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import psutil
import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter
from ros_harness import Harness, tick_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String
from waiting import PATIENCE
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from hucrl_ros.cli.watch import page_beside
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.controller_topics import to_tick
from hucrl_ros.nodes.topics import LATCHED, STREAM
from hucrl_ros.page.heard import Counts, Heard
from hucrl_ros.page.nodes import listener, watch
from hucrl_ros.page.nodes.listener import Joined
from hucrl_ros.page.wishes import (
    CONTROLS,
    NEXT_BUNDLE,
    NEXT_GOAL,
    PAUSE,
    STRATEGY,
    Setting,
    Stop,
    Wishes,
)
from hucrl_ros.robots import describe
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.progress import Phase

pytestmark = pytest.mark.ros


@pytest.fixture
def harness(ros_domain, tmp_path):
    with Harness(tmp_path) as harness:
        yield harness


@pytest.fixture
def page(harness, ros_domain):
    """The page's node; `until` spins it together with the harness."""
    joined = Joined(Heard(describe("pendulum").robot.spec), Wishes(), ros_domain, {})

    def until(condition):
        def done():
            joined.spin(0.01)
            joined.heard.fetch()
            return condition()

        harness.spin_until(done)

    joined.until = until
    yield joined
    joined.close()


def refuse_bad(parameters):
    bad = [p for p in parameters if p.value == "bundle_999"]
    return SetParametersResult(successful=not bad, reason="next.bundle = bundle_999: not there")


def stand_in(harness, name, **parameters):
    """A node of that name with these parameters."""
    node = Node(name, context=harness._context)
    for key, value in parameters.items():
        node.declare_parameter(
            key.replace("__", "."), value, ParameterDescriptor(dynamic_typing=True)
        )
    node.add_on_set_parameters_callback(refuse_bad)
    harness._executor.add_node(node)
    return node


def test_what_is_published_is_heard(harness, page):
    heard, node = page.heard, harness.node
    states = node.create_publisher(JointState, topics.JOINT_STATES, STREAM)
    ticks = node.create_publisher(Float64MultiArray, topics.TICKS, STREAM)
    active = node.create_publisher(Bool, topics.ACTIVE, LATCHED)
    bundle = node.create_publisher(String, topics.LOADED_BUNDLE, LATCHED)
    tripped = node.create_publisher(DiagnosticStatus, topics.TRIPPED, LATCHED)
    report = node.create_publisher(DiagnosticStatus, topics.LEARNER_REPORT, LATCHED)
    active.publish(Bool(data=True))
    bundle.publish(String(data="/runs/x/bundles/bundle_003"))
    tripped.publish(DiagnosticStatus(level=DiagnosticStatus.ERROR, message="no command"))
    half = [KeyValue(key="progress", value="0.5")]
    report.publish(DiagnosticStatus(message="fitting", values=half))
    message = JointState(name=["pendulum_joint"], position=[0.5], velocity=[1.5])
    message.header.stamp.sec = 1

    def told():
        states.publish(message)
        ticks.publish(tick_message(message, 7, [0.25]))
        now = heard.now
        return now.state is not None and now.step == 7 and now.bundle is not None and now.active

    page.until(told)
    page.until(lambda: heard.now.phase == "fitting 50%")
    page.until(lambda: [e.text for e in heard.events()] == ["no command"])
    assert heard.now.tripped == "no command"
    tripped.publish(DiagnosticStatus(level=DiagnosticStatus.OK, message="armed"))
    page.until(lambda: not heard.now.tripped)
    health = node.create_publisher(DiagnosticArray, topics.DIAGNOSTICS, 10)
    values = [KeyValue(key="phase", value=Phase.PAUSED.value)]
    paused = DiagnosticStatus(name="/supervisor", values=values)

    def told_of_the_pause():
        health.publish(DiagnosticArray(status=[paused]))
        return heard.now.phase == Phase.PAUSED.value

    page.until(told_of_the_pause)
    others = [KeyValue(key="phase", value=Phase.RUNNING.value)]
    health.publish(
        DiagnosticArray(
            status=[
                DiagnosticStatus(name="/lab/supervisor", values=others),
                DiagnosticStatus(name="/lab/watchdog", level=DiagnosticStatus.ERROR, message="no"),
                DiagnosticStatus(name="/recorder", level=DiagnosticStatus.WARN, message="slow"),
            ]
        )
    )
    page.until(lambda: [e.text for e in heard.events()][-1] == "slow")
    assert heard.now.phase == Phase.PAUSED.value, "another run's goes on"
    assert "no" not in [e.text for e in heard.events()]
    assert heard.now.state.tolist() == [0.5, 1.5]
    assert heard.now.bundle.name == "bundle_003"


def test_of_a_run_that_is_resumed_nothing_is_told_that_was_before(ros_domain):
    """As of one whose nodes were killed in an episode: none of them has said that it was over."""
    heard, wishes = Heard(describe("pendulum").robot.spec), Wishes()
    message = JointState()
    heard.active(True)
    heard.bundle("/runs/x/bundles/bundle_003")
    heard.supervisor(Phase.RUNNING.value)
    heard.tick(to_tick(tick_message(message, 41, [0.25])))
    heard.note("watchdog tripped", "no command")
    Joined(heard, wishes, ros_domain, {}).close()
    now = heard.now
    assert (now.active, now.phase, now.bundle, now.step) == (False, "", None, -1)
    assert now.counts == Counts()
    assert not len(heard.ticks()["step"])
    heard.note("watchdog tripped", "no command")
    assert len(heard.events()) == 2
    heard.tick(to_tick(tick_message(message, 0, [0.25])))
    assert heard.now.counts.ticks == 1


def test_a_stop_that_nobody_hears_is_said_to_be_in_vain(harness, page):
    answers = []
    page.wishes.add(Stop(True, answers.append))
    page.until(lambda: answers)
    assert answers == ["nobody hears /stop"]
    harness.listen(Bool, topics.STOP)

    def heard():
        page.wishes.add(Stop(True, answers.append))
        return answers[-1] == ""

    page.until(heard)


def test_stop_is_published(harness, page):
    heard = harness.listen(Bool, topics.STOP)
    page.until(lambda: harness.node.count_publishers(topics.STOP) > 0)

    def stopped():
        page.wishes.add(Stop(True))
        return bool(heard)

    page.until(stopped)
    assert heard[0].data is True


def test_controls_are_the_nodes_parameters(harness, page):
    supervisor = stand_in(harness, "supervisor", next__bundle="", pause=False)
    simulator = stand_in(harness, "simulator", next__goal=[])
    wishes = page.wishes
    page.until(lambda: wishes.standing(NEXT_GOAL) is not None)
    page.until(lambda: wishes.standing(PAUSE) is not None)
    assert wishes.standing(NEXT_GOAL) == ()
    assert wishes.standing(NEXT_BUNDLE) == ""
    assert wishes.standing(STRATEGY) is None, "no learner is there"
    answers = []
    for control, value in (
        (PAUSE, True),
        (NEXT_BUNDLE, "bundle_999"),
        (NEXT_BUNDLE, "bundle_001"),
        (NEXT_GOAL, (1.0, 2.0, 3.0)),
        (STRATEGY, "greedy"),
    ):
        before = len(answers)
        wishes.add(Setting(control, value, answers.append))
        page.until(lambda: len(answers) > before)  # noqa: B023 - called at once
        assert (wishes.standing(control) == value) == (not answers[-1]), "known at once"
    assert answers == [
        "",
        "next.bundle = bundle_999: not there",
        "",
        "",
        "the node learner isn't there",
    ]
    assert supervisor.get_parameter("pause").value is True
    assert supervisor.get_parameter("next.bundle").value == "bundle_001"
    assert list(simulator.get_parameter("next.goal").value) == [1.0, 2.0, 3.0]
    page.until(lambda: wishes.standing(PAUSE) is True)
    page.until(lambda: wishes.standing(NEXT_GOAL) == (1.0, 2.0, 3.0))
    simulator.set_parameters([Parameter("next.goal", value=[4, 5, 6])])
    page.until(lambda: wishes.standing(NEXT_GOAL) == (4.0, 5.0, 6.0))
    for node in (supervisor, simulator):
        harness._executor.remove_node(node)
        node.destroy_node()


def test_nodes_that_hang_cost_no_more_and_more_memory(harness, page, monkeypatch):
    monkeypatch.setattr(listener, "MOST_ASKED", 8)
    names = {control.node for control in CONTROLS}
    hung = [Node(name, context=harness._context) for name in names]  # nobody spins them
    getters = page._node._getters.values()
    page.until(lambda: all(client.service_is_ready() for client in getters))
    for _ in range(20):
        page._node._look()
    assert sum(len(client._pending_requests) for client in getters) == 8
    for node in hung:
        harness._executor.add_node(node)
    page.until(lambda: not any(client._pending_requests for client in getters))
    for node in hung:
        harness._executor.remove_node(node)
        node.destroy_node()


def test_a_page_beside_a_run_serves_and_ends_with_it(ros_domain, run_folder, tmp_path, capsys):
    with page_beside(run_folder.root, tmp_path / "page.log", port=0):
        address, token = (line.split()[1] for line in capsys.readouterr().out.splitlines())
        assert address.startswith("http://127.0.0.1:")
        assert len(token) == 32
        assert urlopen(address).status == 200
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{address}%2e%2e/index.html")
    with pytest.raises(URLError):
        urlopen(address)


def test_browsers_of_another_version_hold_up_no_page(ros_domain, run_folder, tmp_path, capsys):
    version = Subprotocol(f"viser-v{2**12 * '0'}")
    with page_beside(run_folder.root, tmp_path / "page.log", port=0):
        address = capsys.readouterr().out.split()[1]
        there = address.replace("http", "ws")
        for _ in range(2 * 2**16 // len(version)):  # more than what a pipe holds
            browser = connect(there, subprotocols=[version], open_timeout=PATIENCE)
            with pytest.raises(ConnectionClosed):
                browser.recv(PATIENCE)
        assert urlopen(address, timeout=PATIENCE).status == 200


def test_no_thread_of_a_page_takes_a_processor_away(ros_domain, run_folder, tmp_path):
    with page_beside(run_folder.root, tmp_path / "page.log", port=0):
        (page,) = [c for c in psutil.Process().children() if "watch" in c.cmdline()]
        threads = [thread.id for thread in page.threads()]
        assert len(threads) > 1
        assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_BATCH}


def test_a_run_goes_on_without_a_page_that_cannot_be(run_folder, tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with page_beside(run_folder.root, tmp_path / "page.log", port=port):
            said = capsys.readouterr().out
    assert (
        said == f"no page: hucrl watch: --host 127.0.0.1 --port {port}: Address already in use\n"
    )


def test_only_a_run_that_is_played_here_is_followed(harness, ros_domain, run_folder, tmp_path):
    publisher = harness.node.create_publisher(String, topics.LOADED_BUNDLE, LATCHED)
    stranger = RunFolder.create(tmp_path / "stranger", run_folder.config)
    said = []

    def say(line):
        said.append(line)
        publisher.publish(String(data=str(run_folder.bundle(0))))

    with run_folder.locked(domain=ros_domain):
        stranger.lock.write_text(run_folder.lock.read_text())
        publisher.publish(String(data=str(stranger.bundle(0))))
        found = watch._run(None, ros_domain, False, say)
    assert found.root == run_folder.root
    assert said == [f"not followed: {stranger.root}: {watch.NOT_PLAYED}"]


def test_a_page_leaves_the_domain_when_its_run_is_over(monkeypatch):
    """There may be another run in it by now, as of `ROS_DOMAIN_ID=7 hucrl watch`."""
    joined, looks = [], iter([False] * 3 + [True] * 9)

    class Ended:
        def __bool__(self):
            return next(looks)

    monkeypatch.setattr(watch, "Joined", lambda *given: joined.append(given))
    monkeypatch.setattr(watch, "LOOK_S", 0.0)
    page = MagicMock()
    page.run.player, page.run.played_in.return_value = None, False
    watch._listen(page, 7, Ended())
    assert joined == [] and page.panel.playing is False
