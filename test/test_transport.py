"""Messages travel by UDP: who stops holds up nobody."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from ros_harness import Harness

from hucrl_ros.nodes.transport import avoid_shared_memory

FAST_DDS = "rmw_fastrtps_cpp"
LOCAL = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE"


def changed(environment, middleware=FAST_DDS):
    after = dict(environment)
    avoid_shared_memory(after, middleware)
    return after


@pytest.mark.parametrize("before", [LOCAL, {**LOCAL, "ROS_LOCALHOST_ONLY": "1"}])
def test_the_range_of_this_machine_is_told_to_fast_dds_by_our_profile(before):
    after = changed(before)
    assert after.pop("ROS_AUTOMATIC_DISCOVERY_RANGE") == "SYSTEM_DEFAULT"
    root = ElementTree.parse(after.pop(PROFILES)).getroot()
    space = {"dds": "http://www.eprosima.com"}
    assert [each.text for each in root.iterfind(".//dds:type", space)] == ["UDPv4"]
    assert [each.text for each in root.iterfind(".//dds:address", space)] == ["127.0.0.1"]
    assert not after


@pytest.mark.parametrize("before", [{}, {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}])
def test_other_ranges_stay_and_have_udp(before):
    assert changed(before) == {**before, "FASTDDS_BUILTIN_TRANSPORTS": "UDPv4"}


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
