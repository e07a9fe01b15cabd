"""Goals and object poses in bags: the states that are read hold them, at the right time."""

from dataclasses import replace

import numpy as np
import pytest
from bag_messages import (
    ACTIVE,
    COMMANDS,
    GOAL,
    JOINT_STATES,
    OBJECT_POSE,
    TICKS,
    Recording,
    boolean,
    floats,
    joint_state,
    pose,
    record_episode,
    tick,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from rosbags.highlevel import AnyReader

from hucrl_ros.bags.contents import read_contents
from hucrl_ros.bags.messages import serialize
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.bags.writer import EpisodeWriter, repair
from hucrl_ros.controller.topics import RECORDED
from hucrl_ros.errors import BagError
from hucrl_ros.robots import make_robot
from hucrl_ros.run.recording import Recording as RunRecording

PERIOD_NS = 12_500_000
START_NS = 10 * PERIOD_NS
STEPS = 4
SPEC = replace(
    make_robot("pendulum").spec,
    observed=("puck_x", "puck_y", "belt_velocity"),
    context=("hole_x", "hole_z"),
)
EXPECTED = np.array([[k, -k, 10 + k, 20 + k, 30 + k, 1, 3] for k in range(STEPS + 1)])


def parts():
    """What is recorded of an episode, by topic, in the order in which it was published."""
    stamps = [START_NS + k * PERIOD_NS for k in range(STEPS + 1)]
    names = ("belt", "pendulum_joint")
    return {
        GOAL: [pose(0, [9.0, 9.0, 9.0]), pose(START_NS, [1.0, 2.0, 3.0])],
        OBJECT_POSE: [pose(t, [10 + k, 20 + k, 0.5]) for k, t in enumerate(stamps)],
        JOINT_STATES: [
            joint_state(t, [0.0, k], [30 + k, -k], [0.0, (k - 1) / 1000], names)
            for k, t in enumerate(stamps)
        ],
        TICKS: [tick(t, k, [k / 1000]) for k, t in enumerate(stamps[:-1])],
    }


def record(folder, messages):
    """Write (topic, message) pairs in this order; the bag is left open."""
    recording = Recording(folder)
    recording.add(ACTIVE, boolean(True))
    for topic, message in messages:
        recording.add(topic, message)
    recording.add(ACTIVE, boolean(False))
    return recording


def in_order(messages):
    return [(topic, message) for topic, entries in messages.items() for message in entries]


@settings(max_examples=12)
@given(st.permutations([topic for topic, entries in parts().items() for _ in entries]))
def test_states_are_the_same_whatever_came_first(tmp_path_factory, order):
    """Topics keep their own order, and none among each other."""
    coming = {topic: iter(entries) for topic, entries in parts().items()}
    folder = tmp_path_factory.mktemp("bag") / "bag"
    record(folder, [(topic, next(coming[topic])) for topic in order]).writer.close()
    episode = read_episode(folder, SPEC, STEPS)
    np.testing.assert_array_equal(episode.states, EXPECTED)
    np.testing.assert_array_equal(episode.actions[:, 0], np.arange(STEPS) / 1000)
    assert episode.events == []


def test_a_goal_that_changes_holds_from_its_stamp_on(tmp_path):
    messages = parts()
    messages[GOAL].append(pose(START_NS + 2 * PERIOD_NS, [7.0, 7.0, 7.0]))
    record(tmp_path / "bag", in_order(messages)).writer.close()
    states = read_episode(tmp_path / "bag", SPEC, STEPS).states
    np.testing.assert_array_equal(states[:, 5], [1, 1, 7, 7, 7])


def test_a_state_without_its_pose_is_left_out_and_no_transition_leads_across_it(tmp_path):
    messages = parts()
    del messages[OBJECT_POSE][1:3]  # step 1 has one that is a period old, step 2 none at all
    record(tmp_path / "bag", in_order(messages)).writer.close()
    episode = read_episode(tmp_path / "bag", SPEC, STEPS)
    np.testing.assert_array_equal(episode.states[:, 0], [0, 1, 3, 4])
    np.testing.assert_array_equal(episode.states[:, 2], [10, 10, 13, 14])
    assert episode.contiguous.tolist() == [True, False, True]
    assert any("object_pose: the newest is 25.0 ms older" in event for event in episode.events)


@pytest.mark.parametrize("topic", [GOAL, OBJECT_POSE])
def test_a_bag_that_lacks_what_the_task_needs_is_refused_by_name(tmp_path, topic):
    messages = parts()
    del messages[topic]
    record(tmp_path / "bag", in_order(messages)).writer.close()
    with pytest.raises(BagError, match=f"no usable joint state .*{topic}: none") as caught:
        read_episode(tmp_path / "bag", SPEC, STEPS)
    assert "\n" not in str(caught.value)


def test_another_reader_finds_the_poses_and_how_they_were_delivered(tmp_path):
    record(tmp_path / "bag", in_order(parts())).writer.close()
    with AnyReader([tmp_path / "bag"]) as reader:
        found = {c.topic: (c.msgtype, c.msgcount) for c in reader.connections}
        (goal,) = [c for c in reader.connections if c.topic == "/goal"]
        positions = [
            reader.deserialize(data, c.msgtype).pose.position.x
            for c, _, data in reader.messages(connections=[goal])
        ]
    assert found["/goal"] == ("geometry_msgs/msg/PoseStamped", 2)
    assert found["/object_pose"] == ("geometry_msgs/msg/PoseStamped", STEPS + 1)
    assert positions == [9.0, 1.0]
    text = (tmp_path / "bag" / "metadata.yaml").read_text()
    assert text.count("transient_local") == 3  # active, tripped and goal


def test_a_bag_of_joints_alone_says_nothing_of_poses(tmp_path):
    record_episode(tmp_path / "bag", 3).writer.close()
    assert "Pose" not in (tmp_path / "bag" / "metadata.yaml").read_text()
    assert b"geometry_msgs" not in (tmp_path / "bag" / "bag.mcap").read_bytes()


def test_a_cut_off_bag_is_read_and_repaired_with_its_poses(tmp_path):
    cut = record(tmp_path / "bag", in_order(parts())).writer
    cut.flush()
    cut.abandon()
    (path,) = (tmp_path / "bag").glob("*.mcap")
    data = path.read_bytes()
    episode = read_episode(tmp_path / "bag", SPEC, STEPS)
    np.testing.assert_array_equal(episode.states, EXPECTED)
    assert episode.interrupted
    whole = repair(tmp_path / "bag")
    assert len(read_contents(whole).messages) == len(read_contents(tmp_path / "bag").messages)
    np.testing.assert_array_equal(read_episode(whole, SPEC, STEPS).states, episode.states)
    assert path.read_bytes() == data


def test_remapped_topics_keep_their_names_and_are_found_by_the_nodes_own(tmp_path):
    others = {OBJECT_POSE: "/camera/puck", GOAL: "/goal_pose", JOINT_STATES: "/robot/joints"}
    topics = {t.name: t._replace(name=others.get(t.name, f"/{t.name}"), own=t.name)
              for t in RECORDED}  # fmt: skip
    writer = EpisodeWriter(tmp_path / "bag", tuple(topics.values()))
    for received, (name, message) in enumerate(in_order(parts())):
        writer.write(topics[name].name, message, received)
    writer.flush()
    cut_off = read_episode(tmp_path / "bag", SPEC, STEPS)
    writer.abandon()
    whole = repair(tmp_path / "bag")
    np.testing.assert_array_equal(cut_off.states, EXPECTED)
    np.testing.assert_array_equal(read_episode(whole, SPEC, STEPS).states, EXPECTED)
    text = (whole / "metadata.yaml").read_text()
    assert set(others.values()) <= {m.topic for m in read_contents(whole).messages}
    assert text.count("transient_local") == 1  # the goal; neither active nor tripped was sent


def test_a_recording_is_complete_when_the_last_pose_is_there_as_well(run_folder):
    recording = RunRecording(run_folder, {}, stepped=True)

    def add(topic, message, kind):
        recording.add(topic, serialize(message, kind), 0)

    messages, floats_type = parts(), "std_msgs/msg/Float64MultiArray"
    for k in range(STEPS + 1):
        add(JOINT_STATES, messages[JOINT_STATES][k], "sensor_msgs/msg/JointState")
        if k < STEPS:
            add(OBJECT_POSE, messages[OBJECT_POSE][k], "geometry_msgs/msg/PoseStamped")
            add(COMMANDS, floats([0.0]), floats_type)
            add(TICKS, messages[TICKS][k], floats_type)
    assert not recording.complete
    add(OBJECT_POSE, messages[OBJECT_POSE][STEPS], "geometry_msgs/msg/PoseStamped")
    assert recording.complete
    recording.abandon()


def test_a_goal_without_a_stamp_is_the_goal_from_when_it_came(tmp_path):
    """As the controller pursued it; `ros2 topic pub /goal` fills in no stamp."""
    messages = in_order(parts())
    states = [k for k, (topic, _) in enumerate(messages) if topic == JOINT_STATES]
    messages.insert(states[2] + 1, (GOAL, pose(0, [7.0, 7.0, 7.0])))
    record(tmp_path / "bag", messages).writer.close()
    states = read_episode(tmp_path / "bag", SPEC, STEPS).states
    np.testing.assert_array_equal(states[:, 5], [1, 1, 1, 7, 7])
