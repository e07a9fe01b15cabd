"""What the policies for SROS2 allow is what the nodes really open, no more and no less."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.node_list import REMOTE_LEARNER, NodeSpec, learning_graph
from hucrl_ros.run.prepare import prepare_run

REPOSITORY = Path(__file__).resolve().parents[1]
POLICIES = REPOSITORY / "config" / "sros2.policies.xml"
GRAPH = json.loads((REPOSITORY / "test" / "golden" / "graph.json").read_text())
"""What the nodes of a run were seen to open; `test_golden.py` compares it with a real run."""
ROLES = {
    "publishers": "publish",
    "subscribers": "subscribe",
    "servers": "reply",
    "clients": "request",
}
COMMON = re.compile(r"parameter_events|rosout|~/.*")
"""What every ROS node has."""
OBSERVED = ("simulator", "controller", "recorder", "learner", "supervisor", "watchdog")


def allowed():
    """Names by node, and by what it may do with them."""
    found = {}
    for profile in ElementTree.parse(POLICIES).iter("profile"):
        assert profile.attrib["ns"] == "/"
        rights = found[profile.attrib["node"]] = {}
        for group in profile:
            ((right, verdict),) = group.attrib.items()
            assert verdict == "ALLOW"
            names = [entry.text for entry in group]
            assert len(set(names)) == len(names)
            rights[right] = set(names)
    return found


def opened(node):
    return {
        right: {
            name.removeprefix("/")
            for ends in (GRAPH["topics"], GRAPH["services"])
            for name, roles in ends.items()
            if node in roles.get(role, ())
        }
        for role, right in ROLES.items()
    }


@pytest.mark.parametrize("node", OBSERVED)
def test_a_node_of_a_run_may_do_what_it_does(node):
    rights = allowed()[node]
    own = {
        right: {name for name in rights.get(right, ()) if not COMMON.fullmatch(name)}
        for right in ROLES.values()
    }
    assert own == opened(node)


@pytest.mark.ros
@pytest.mark.parametrize("node", ["controller", "watchdog"])
def test_a_running_node_opens_nothing_else(ros_domain, tmp_path, node):
    from bench import Bench, Process

    process = Process(node, tmp_path / "log", mode="real_time")
    try:
        with Bench(tmp_path) as bench:
            bench.health(node)
            ask = bench.node
            seen = {
                "publish": ask.get_publisher_names_and_types_by_node(node, "/"),
                "subscribe": ask.get_subscriber_names_and_types_by_node(node, "/"),
                "reply": ask.get_service_names_and_types_by_node(node, "/"),
                "request": ask.get_client_names_and_types_by_node(node, "/"),
            }
    finally:
        process.clean_up()
    rights = {
        right: {name.replace("~", node) for name in names}
        for right, names in allowed()[node].items()
    }
    for right, names in seen.items():
        assert {name.removeprefix("/") for name, _ in names} <= rights.get(right, set())
    assert len(seen["publish"]) > 3 and len(seen["reply"]) > 5


def test_only_the_nodes_that_move_the_robot_may_command_it():
    may = {
        node for node, rights in allowed().items() if "controller/commands" in rights["publish"]
    }
    assert may == {"controller", "watchdog", "homing", "hucrl_stop"}


def test_each_node_has_its_enclave_where_dds_is_secured(monkeypatch, tmp_path):
    run = prepare_run(RunOptions("pendulum", out=tmp_path / "run"))
    assert not any("--enclave" in node.command for node in learning_graph(run))
    monkeypatch.setenv("ROS_SECURITY_ENABLE", "true")
    known = {each.attrib["path"] for each in ElementTree.parse(POLICIES).iter("enclave")}
    for node in (*learning_graph(run), NodeSpec("homing"), NodeSpec(REMOTE_LEARNER)):
        assert node.command[node.command.index("--enclave") + 1] in known


@pytest.mark.ros
def test_without_keys_a_secured_node_ends_with_one_line(tmp_path):
    (tmp_path / "enclaves").mkdir()
    secured = {"ROS_SECURITY_ENABLE": "true", "ROS_SECURITY_KEYSTORE": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-m", "hucrl_ros.nodes.watchdog"],
        env={**os.environ, **secured, "ROS_SECURITY_STRATEGY": "Enforce"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert "watchdog: ROS_SECURITY_ENABLE=true: " in ended.stderr
    assert "Traceback" not in ended.stderr
