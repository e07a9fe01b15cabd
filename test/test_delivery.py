"""Whoever isn't heard because of QoS is named, on the terminal of a run too; over real DDS."""

import re
import signal
import time

import pytest
import rclpy
from quick_run import Up, quick_arguments
from rclpy.context import Context
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from ros_harness import Harness
from std_msgs.msg import Bool, Float64MultiArray

from hucrl_ros.nodes import topics
from hucrl_ros.nodes.delivery import undelivered
from hucrl_ros.run.summary import read_summary

pytestmark = pytest.mark.ros

BEST_EFFORT = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
VOLATILE = QoSProfile(depth=1, durability=DurabilityPolicy.VOLATILE)


class Other:
    """A node of somebody else's, as in another process."""

    def __init__(self, domain=None, namespace=None):
        self._context = Context()
        rclpy.init(args=[], context=self._context, domain_id=domain)
        self.node = Node("driver", context=self._context, namespace=namespace)

    def __enter__(self):
        return self.node

    def __exit__(self, *error):
        self.node.destroy_node()
        rclpy.try_shutdown(context=self._context)


@pytest.fixture
def harness(ros_domain, tmp_path):
    with Harness(tmp_path) as harness:
        yield harness


def found(harness, names=("harness",)):
    return undelivered(harness.node, names)


def test_a_best_effort_publisher_and_a_reliable_subscription_are_both_named(harness):
    harness.listen(Float64MultiArray, topics.COMMANDS)
    with Other() as driver:
        driver.create_publisher(Float64MultiArray, topics.COMMANDS, BEST_EFFORT)
        harness.spin_until(lambda: found(harness))
        (line,) = found(harness)
        assert line.startswith(
            "/controller/commands: nothing comes from /driver to /harness: incompatible QoS: "
        )
        assert "reliable" in line.lower() and "best effort" in line.lower()
        assert found(harness, ("recorder",)) == [], "no end of it is the recorder's"
    harness.spin_until(lambda: not found(harness))


def test_a_latched_topic_that_somebody_publishes_otherwise_is_named(harness):
    harness.node.create_subscription(Bool, topics.ACTIVE, lambda message: None, topics.LATCHED)
    with Other(namespace="left") as driver:
        driver.create_publisher(Bool, f"/{topics.ACTIVE}", VOLATILE)
        harness.spin_until(lambda: found(harness))
        assert "from /left/driver to /harness" in found(harness)[0]


def test_what_goes_together_is_no_trouble(harness):
    harness.node.create_subscription(
        Float64MultiArray, topics.COMMANDS, lambda message: None, topics.MEASURED
    )
    with Other() as driver:
        for qos in (BEST_EFFORT, topics.STREAM):
            driver.create_publisher(Float64MultiArray, topics.COMMANDS, qos)
        driver.create_publisher(Bool, "bystander", BEST_EFFORT)
        driver.create_subscription(Bool, "bystander", lambda message: None, topics.STREAM)
        harness.spin_until(lambda: harness.node.count_publishers(topics.COMMANDS) == 2)
        harness.spin_until(lambda: harness.node.count_subscribers("bystander") == 1)
        assert found(harness) == []


def test_a_run_says_on_its_terminal_who_is_not_heard(ros_domain, tmp_path):
    arguments = [*quick_arguments(), "--lockstep", "--no-figures", "--episodes", "30"]
    with Up("pendulum", *arguments, out=tmp_path / "run") as process:
        process.wait_for_line("ROS_DOMAIN_ID")
        domain = int(re.search(r"ROS_DOMAIN_ID=(\d+)", process.stdout)[1])
        with Other(domain) as driver:
            driver.create_publisher(Float64MultiArray, topics.COMMANDS, BEST_EFFORT)
            process.wait_for_line("! /controller/commands: nothing comes from /driver to /")
        process.signal(signal.SIGINT)
        assert process.end() == 130
    events = read_summary(process.run.summary).events
    assert any("nothing comes from /driver to /simulator" in event for event in events)
    assert len(events) == len(set(events)), "each is told once"


def test_a_recorder_that_stands_still_misses_nothing_in_lockstep(tmp_path):
    """Physics doesn't wait for it: hundreds of messages are under way when it goes on."""
    random = quick_arguments(exploration__random_episodes=1)
    arguments = ("pendulum", "--episodes", "1", "--no-figures", *random)
    with Up(*arguments, out=tmp_path / "run") as up:
        up.wait_for_line("running")
        recorder = up.node("recorder")
        recorder.suspend()
        time.sleep(3.0)  # what is tried, not what is waited for
        recorder.resume()
        assert up.end() == 0
    summary = read_summary(up.run.summary)
    assert summary.episodes[0].steps == 400
    assert summary.events == ()
