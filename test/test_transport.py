"""Messages travel by UDP: who stops holds up nobody."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from ros_harness import Harness
from std_msgs.msg import Bool

from hucrl_ros.nodes.topics import ARCHIVE
from hucrl_ros.nodes.transport import avoid_shared_memory

FAST_DDS = "rmw_fastrtps_cpp"
LOCAL = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE"

SPACE = {"dds": "http://www.eprosima.com"}


def root_of(profiles):
    return ElementTree.parse(profiles).getroot()


def changed(environment, middleware=FAST_DDS):
    after = dict(environment)
    avoid_shared_memory(after, middleware)
    return after


@pytest.mark.parametrize("before", [LOCAL, {**LOCAL, "ROS_LOCALHOST_ONLY": "1"}])
def test_the_range_of_this_machine_is_told_to_fast_dds_by_our_profile(before):
    after = changed(before)
    assert after.pop("ROS_AUTOMATIC_DISCOVERY_RANGE") == "SYSTEM_DEFAULT"
    root = root_of(after.pop(PROFILES))
    assert [each.text for each in root.iterfind(".//dds:type", SPACE)] == ["UDPv4"]
    assert [each.text for each in root.iterfind(".//dds:address", SPACE)] == ["127.0.0.1"]
    assert not after


@pytest.mark.parametrize("before", [{}, {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}])
def test_other_ranges_stay_and_have_udp(before):
    after = changed(before)
    assert not list(root_of(after.pop(PROFILES)).iterfind(".//dds:participant", SPACE))
    assert after == {**before, "FASTDDS_BUILTIN_TRANSPORTS": "UDPv4"}


@pytest.mark.parametrize("before", [LOCAL, {}])
def test_writers_ask_soon_whether_all_have_it(before):
    (writer,) = root_of(changed(before)[PROFILES]).iterfind(".//dds:data_writer", SPACE)
    assert writer.get("is_default_profile") == "true"
    (period,) = writer.iterfind("dds:times/dds:heartbeat_period/dds:nanosec", SPACE)
    assert int(period.text) == 100_000_000


@pytest.mark.parametrize(
    "theirs",
    [
        {PROFILES: "/theirs.xml"},
        {"FASTRTPS_DEFAULT_PROFILES_FILE": "/theirs.xml"},
        {"FASTDDS_BUILTIN_TRANSPORTS": "LARGE_DATA"},
    ],
)
def test_what_somebody_has_set_is_theirs(theirs):
    assert changed({**LOCAL, **theirs}) == {**LOCAL, **theirs}


def test_another_middleware_is_left_alone():
    assert changed(LOCAL, "rmw_cyclonedds_cpp") == LOCAL


def test_peers_on_other_machines_are_kept_and_the_price_is_told(caplog):
    before = {**LOCAL, "ROS_STATIC_PEERS": "10.0.0.2"}
    assert changed(before) == before
    assert "ROS_STATIC_PEERS" in caplog.text


@pytest.mark.parametrize("before", [LOCAL, {}])
def test_a_child_finds_it_done(before):
    assert changed(changed(before)) == changed(before)
    assert changed({**changed(LOCAL), **LOCAL}) == changed(LOCAL)


def shared_memory_of(pid):
    """What a process has of Fast DDS's shared memory."""
    return Path(f"/proc/{pid}/maps").read_text().count("/dev/shm/fast")


@pytest.mark.ros
def test_a_node_shares_no_memory_and_meets_those_who_do(ros_domain, tmp_path):
    with Harness(tmp_path) as harness:
        watchdog = harness.start("watchdog", task="pendulum")
        harness.spin_until(lambda: harness.node.count_publishers("controller/commands") > 0)
        assert shared_memory_of("self")
        assert not shared_memory_of(watchdog.pid)


PUBLISHER = """
import os
import rclpy
from rclpy.duration import Duration
from std_msgs.msg import Bool
from hucrl_ros.nodes import topics, transport

transport.avoid_shared_memory(os.environ, rclpy.get_rmw_implementation_identifier())
rclpy.init()
node = rclpy.create_node("somebody")
publisher = node.create_publisher(Bool, "anything", topics.ARCHIVE)
while not publisher.get_subscription_count():
    pass
arrived = []
for _ in range(5):
    for _ in range(10):
        publisher.publish(Bool())
    arrived.append(publisher.wait_for_all_acked(Duration(seconds=2.0)))
print(arrived.count(True))
"""


@pytest.mark.ros
def test_who_waits_for_arrival_is_told_soon(ros_domain, tmp_path):
    with Harness(tmp_path) as harness:
        harness.node.create_subscription(Bool, "anything", lambda message: None, ARCHIVE)
        command = [sys.executable, "-c", PUBLISHER]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            harness.spin_until(lambda: process.poll() is not None)
            assert process.stdout.read() == "5\n"
