"""What somebody on the network can make of the watchdog: nothing, beside a real controller."""

import math
import signal

import hostile_bytes
import pytest
from bench import Bench, Process, short_bundle
from manifest_factory import write_manifest
from rcl_interfaces.msg import ParameterEvent
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String
from test_watchdog import MANY_STEPS, WATCHDOG, Robot

from hucrl_ros.nodes.setting_parameters import limits_message
from hucrl_ros.nodes.topics import LATCHED, MEASURED, STREAM

pytestmark = pytest.mark.ros

ALONE = ("joint_states", "controller/limits")
"""Topics that only the watchdog hears; all others the bench as well."""
DEAD = "the controller's process has ended"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return short_bundle(tmp_path_factory.mktemp("bundles") / "bundle_001", MANY_STEPS)


@pytest.fixture
def robot(ros_domain, bundle, tmp_path):
    with Bench(tmp_path) as bench:
        robot = Robot(bench, bundle, tmp_path, "real_time")
        try:
            robot.start_controller()
            yield robot
        finally:
            robot.close()


def forger(bench, kind, topic, qos, listeners):
    """A publisher that all subscriptions of that topic have met."""
    publisher = bench.node.create_publisher(kind, topic, qos)
    assert bench.wait(lambda: publisher.get_subscription_count() == listeners)
    return publisher


def test_a_forged_end_of_the_episode_ends_no_watch(robot):
    bench = robot.bench
    assert robot.run_until(lambda: len(bench.commands) >= 3)
    active = forger(bench, Bool, "controller/active", LATCHED, 2)
    active.publish(Bool(data=False))
    assert bench.wait(lambda: bench.active[-1] is False)
    assert bench.health("watchdog")["armed"] == "True"
    robot.controller.end(signal.SIGKILL)
    assert robot.run_until(lambda: bench.commands.count(WATCHDOG) >= 3)
    active.publish(Bool(data=False))
    active.publish(Bool(data=True))
    bench.spin_for(0.5)
    sent = bench.commands.count(WATCHDOG)
    assert robot.run_until(lambda: bench.commands.count(WATCHDOG) >= sent + 3), "also afterwards"
    assert DEAD in robot.last_trip()[1]


@pytest.mark.parametrize("forged", [0.0, math.nan])
def test_forged_commands_do_not_keep_it_quiet(robot, forged):
    bench = robot.bench
    assert robot.run_until(lambda: len(bench.commands) >= 3)
    commands = forger(bench, Float64MultiArray, "controller/commands", STREAM, 2)
    robot.controller.popen.send_signal(signal.SIGSTOP)

    def forge():
        commands.publish(Float64MultiArray(data=[forged]))
        robot.run(0.01)
        return bench.commands.count(WATCHDOG) >= 5

    assert bench.wait(forge)
    assert robot.last_trip()[1].startswith("no command ")
    health = bench.health("watchdog")
    assert int(health["foreign_commands"]) > 0
    assert "/harness" in health["strangers"] and "controller/commands" in health["strangers"]
    assert (
        len(robot.watchdog.lines("/controller/commands: besides our nodes publishes /harness"))
        == 1
    )
    robot.controller.popen.send_signal(signal.SIGCONT)
    assert robot.run_until(lambda: robot.last_senders(4) == {""})


def test_forged_bundles_and_limits_are_not_believed(robot, tmp_path):
    bench = robot.bench
    known = bench.health("watchdog")["bundle"]
    other = str(write_manifest(tmp_path / "other", 1))
    forger(bench, String, "controller/bundle", LATCHED, 2).publish(String(data=other))
    limits = forger(bench, ParameterEvent, "controller/limits", LATCHED, 1)
    limits.publish(limits_message({"safety.effort_limits": [1e-9]}))
    bench.spin_for(1.0)
    assert bench.health("watchdog")["bundle"] == known
    assert not robot.watchdog.lines("can't stand by")


def test_whatever_the_bytes_are_it_stands_by(ros_domain, tmp_path):
    watchdog = Process("watchdog", tmp_path / "watchdog.log", mode="real_time")
    attacks = (
        ("controller/bundle", String, LATCHED, hostile_bytes.strings),
        ("controller/commands", Float64MultiArray, STREAM, hostile_bytes.commands),
        ("joint_states", JointState, MEASURED, hostile_bytes.joint_states),
        ("controller/limits", ParameterEvent, LATCHED, hostile_bytes.limits),
        ("controller/active", Bool, LATCHED, hostile_bytes.flags),
    )
    try:
        with Bench(tmp_path) as bench:
            for topic, kind, qos, messages in attacks:
                bench.health("watchdog")
                publisher = bench.node.create_publisher(kind, topic, qos)
                listeners = 1 if topic in ALONE else 2
                assert bench.wait(
                    lambda publisher=publisher, listeners=listeners: (
                        publisher.get_subscription_count() >= listeners
                    )
                )
                for raw in messages():
                    publisher.publish(raw)
                    bench.spin_for(0.02)
                bench.health("watchdog")
            known = str(write_manifest(tmp_path / "bundle", 1))
            bundle = bench.node.create_publisher(String, "controller/bundle", LATCHED)
            assert bench.wait(lambda: bundle.get_subscription_count() == 2)
            bundle.publish(String(data=known))
            assert bench.wait(lambda: bench.health("watchdog")["bundle"] == known)
        assert watchdog.popen.poll() is None
    finally:
        watchdog.clean_up()
    assert "Traceback" not in watchdog.text()
