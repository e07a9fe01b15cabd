"""Files for other people's viewers: whether all that they name is there, and what a bag says."""

import importlib
import json
import re
import xml.etree.ElementTree as ElementTree

import mcap.reader
import numpy as np
import pytest
import yaml
from fabricated_run import play_random, record

from hucrl_ros.bags.messages import typestore
from hucrl_ros.config.files import share_directory
from hucrl_ros.controller.ticks import tick_labels
from hucrl_ros.controller.topics import RECORDED
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.plan_publisher import PLAN_FRAME
from hucrl_ros.robots import make_robot

VIEWERS = share_directory() / "config" / "viewers"
TYPES = {f"/{topic.name}": topic.type for topic in RECORDED} | {
    f"/{topics.PLAN}": "visualization_msgs/msg/MarkerArray",
    f"/{topics.REGIONS}": "visualization_msgs/msg/MarkerArray",
    topics.DIAGNOSTICS: "diagnostic_msgs/msg/DiagnosticArray",
}
DISPLAYS = {
    "rviz_default_plugins/MarkerArray": "visualization_msgs/msg/MarkerArray",
    "rviz_default_plugins/Pose": "geometry_msgs/msg/PoseStamped",
}
LABELS = tick_labels(1)
LAYOUT = json.loads((VIEWERS / "foxglove.json").read_text())


def fields_of(message_type):
    package, _, name = message_type.partition("/msg/")
    return getattr(importlib.import_module(f"{package}.msg"), name).get_fields_and_field_types()


def series(panels=LAYOUT["configById"]):
    """Everything that a panel of the Foxglove layout draws."""
    for name, panel in panels.items():
        for path in panel.get("paths", ()):
            yield name, path


def test_rviz_shows_our_topics_with_displays_of_their_types():
    manager = yaml.safe_load((VIEWERS / "hucrl.rviz").read_text())["Visualization Manager"]
    shown = [display for display in manager["Displays"] if "Topic" in display]
    assert [display["Topic"]["Value"] for display in shown] == [
        f"/{topics.PLAN}",
        f"/{topics.REGIONS}",
        f"/{topics.GOAL}",
        f"/{topics.OBJECT_POSE}",
    ]
    for display in shown:
        assert DISPLAYS[display["Class"]] == TYPES[display["Topic"]["Value"]]
    latched = {f"/{topic.name}" for topic in RECORDED if topic.latched} | {f"/{topics.REGIONS}"}
    for told in (display["Topic"] for display in shown):
        assert (told["Durability Policy"] == "Transient Local") == (told["Value"] in latched)
    assert manager["Global Options"]["Fixed Frame"] == PLAN_FRAME


def test_every_panel_of_the_foxglove_layout_is_placed_once():
    def leaves(node):
        if isinstance(node, str):
            return [node]
        assert set(node) == {"direction", "first", "second", "splitPercentage"}
        return leaves(node["first"]) + leaves(node["second"])

    assert sorted(leaves(LAYOUT["layout"])) == sorted(LAYOUT["configById"])


@pytest.mark.parametrize("path", [path for _, path in series()], ids=lambda path: path["value"])
def test_what_foxglove_draws_is_a_field_of_one_of_our_topics(path):
    topic, field, index = re.fullmatch(r"(/[\w/]+)\.(\w+)(?:\[(\d+)\])?", path["value"]).groups()
    kind = fields_of(TYPES[topic])[field]
    assert kind.startswith("sequence") == (index is not None)
    if topic == f"/{topics.TICKS}":
        assert LABELS[int(index)] == path["label"]


def test_what_else_foxglove_shows_is_ours():
    panels = LAYOUT["configById"]
    assert set(panels["3D!plan"]["topics"]) == {f"/{topics.PLAN}"}
    assert panels["3D!plan"]["followTf"] == PLAN_FRAME
    assert panels["RawMessages!setup"]["topicPath"] == f"/{topics.SETUP}.data"
    assert panels["DiagnosticSummary!nodes"]["topicToRender"] == topics.DIAGNOSTICS


def test_what_plotjuggler_draws_is_a_field_of_one_of_our_topics():
    root = ElementTree.parse(VIEWERS / "plotjuggler.xml").getroot()
    joints = make_robot("pendulum").spec.joint_names
    drawn = 0
    for area in root.iter("DockArea"):
        for curve in area.iter("curve"):
            drawn += 1
            name = curve.get("name")
            if name.startswith(f"/{topics.JOINT_STATES}/"):
                joint, field = name.split("/")[2:]
                assert joint in joints
                assert field in fields_of(TYPES[f"/{topics.JOINT_STATES}"])
                continue
            topic, index = re.fullmatch(r"(/[\w/]+)/data\[(\d+)\]", name).groups()
            assert "data" in fields_of(TYPES[topic])
            if topic == f"/{topics.TICKS}":
                label = LABELS[int(index)].removesuffix("_ms").removesuffix("_std")
                assert label in area.get("name").replace("return that the plan predicts",
                                                         "planned_return")  # fmt: skip
            else:
                assert topic == f"/{topics.COMMANDS}"
    assert drawn == 14
    for splitter in root.iter("DockSplitter"):
        assert int(splitter.get("count")) == len(splitter) == len(splitter.get("sizes").split(";"))


def test_a_bag_carries_the_definition_of_each_message_so_that_foxglove_needs_nothing_else(
    tmp_path,
):
    states, actions = play_random(np.random.default_rng(0))
    record(tmp_path / "episode_000", states[:4], actions[:3], [1.0] * 3)
    with (tmp_path / "episode_000" / "episode_000.mcap").open("rb") as file:
        summary = mcap.reader.make_reader(file).get_summary()
    told = {channel.topic: channel for channel in summary.channels.values()}
    for topic in (f"/{t.name}" for t in RECORDED if not t.optional):
        channel = told.get(topic) or told[topic[1:]]
        schema = summary.schemas[channel.schema_id]
        assert (channel.message_encoding, schema.encoding) == ("cdr", "ros2msg")
        assert schema.name == TYPES[topic]
        assert schema.data.decode() == typestore().generate_msgdef(TYPES[topic], ros_version=2)[0]
