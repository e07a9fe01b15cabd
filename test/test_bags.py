"""Episodes in bags: what is written is what is read, from whole, cut-off and damaged bags."""

import resource
import time

import numpy as np
import pytest
import yaml
from bag_messages import (
    ACTIVE,
    COMMANDS,
    JOINT_STATES,
    TICKS,
    TOPICS,
    TRIPPED,
    Recording,
    boolean,
    diagnostic,
    floats,
    joint_state,
    record_episode,
    tick,
)
from hypothesis import given
from hypothesis import strategies as st
from mcap.writer import Writer
from rosbags.highlevel import AnyReader

from hucrl_ros.bags import messages
from hucrl_ros.bags.contents import read_contents
from hucrl_ros.bags.metadata import Outcome
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.bags.writer import FLUSH_PERIOD, EpisodeWriter, repair
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.topics import RECORDED
from hucrl_ros.errors import BagError
from hucrl_ros.robots import make_robot
from hucrl_ros.run.recording import Recording as RunRecording

SPEC = make_robot("pendulum").spec
PERIOD_NS = 12_500_000
START_NS = 10 * PERIOD_NS
ARM = RobotSpec("arm", ("elbow", "wrist"), ("elbow", "wrist"), (1.0, 1.0), 1 / 80)


def recorded(folder, steps=5, **how):
    record_episode(folder, steps, **how).writer.close()
    return folder


def add_transition(recording, k, efforts=()):
    stamp = START_NS + round(k * PERIOD_NS)
    recording.add(JOINT_STATES, joint_state(stamp, [k], [-k], efforts))


# What is read of a whole bag.


def test_episode_begins_at_the_first_tick_and_actions_are_the_efforts_that_followed(tmp_path):
    episode = read_episode(recorded(tmp_path / "bag", steps=5), SPEC, 400)
    np.testing.assert_array_equal(episode.states, [[k, -k] for k in range(6)])
    np.testing.assert_array_equal(episode.actions, [[k / 1000] for k in range(5)])
    np.testing.assert_array_equal(episode.stamps_ns, START_NS + PERIOD_NS * np.arange(6))
    assert episode.contiguous.tolist() == [True] * 5
    assert (episode.interrupted, episode.events) == (False, [])


def test_episode_ends_after_its_steps(tmp_path):
    episode = read_episode(recorded(tmp_path / "bag", steps=5), SPEC, 3)
    assert episode.states.shape == (4, 2) and episode.actions.shape == (3, 1)
    assert len(episode.ticks) == 5


def test_ticks_keep_every_field(tmp_path):
    ticks = read_episode(recorded(tmp_path / "bag", steps=5), SPEC, 400).ticks
    np.testing.assert_array_equal(ticks["step"], range(5))
    np.testing.assert_array_equal(ticks["missed"], [False, False, False, True, False])
    np.testing.assert_array_equal(ticks["action"], [[k / 1000] for k in range(5)])
    np.testing.assert_array_equal(ticks["stamp_ns"], START_NS + PERIOD_NS * np.arange(5))
    assert ticks["tick_ms"].tolist() == [1.5] * 5 and ticks["planned_return"][0] == 10.0


def test_actions_are_the_commands_where_the_robot_reports_no_effort(tmp_path):
    bag = recorded(tmp_path / "bag", steps=5, report_effort=False)
    np.testing.assert_array_equal(
        read_episode(bag, SPEC, 400).actions, [[k / 1000] for k in range(5)]
    )


def test_without_efforts_the_newest_tick_not_after_the_state_counts(tmp_path):
    recording = Recording(tmp_path / "bag")
    for k in range(5):
        add_transition(recording, k, efforts=[np.nan])
        if k in (0, 3):
            recording.add(TICKS, tick(START_NS + k * PERIOD_NS, k, [k + 1.0]))
    recording.writer.close()
    episode = read_episode(tmp_path / "bag", SPEC, 400)
    np.testing.assert_array_equal(episode.actions.ravel(), [1.0, 1.0, 1.0, 4.0])
    assert episode.events == ["step 0: the next recorded tick is that of step 3"]


@pytest.mark.parametrize(
    ("surprise", "steps", "cut"),
    [(1.9, 400, False), (2.0, 400, True), (2.0, 4, False), (np.nan, 400, False)],
)
def test_an_episode_is_cut_that_ended_early_at_a_surprise_that_ends_one(
    surprise, steps, cut, tmp_path
):
    recording = Recording(tmp_path / "bag")
    for k in range(5):
        add_transition(recording, k, efforts=[0.0])
        if k < 4:
            recording.add(TICKS, tick(START_NS + k * PERIOD_NS, k, [0.0], surprise=surprise))
    recording.writer.close()
    episode = read_episode(tmp_path / "bag", SPEC, steps)
    assert episode.cut == cut
    assert any("its return doesn't count" in event for event in episode.events) == cut


def test_missing_first_tick_is_told(tmp_path):
    recording = Recording(tmp_path / "bag")
    add_transition(recording, 2, efforts=[0.0])
    recording.add(TICKS, tick(START_NS + 2 * PERIOD_NS, 2, [0.0]))
    recording.writer.close()
    events = read_episode(tmp_path / "bag", SPEC, 400).events
    assert events == ["the first recorded tick is that of step 2"]


def test_late_and_repeated_messages_are_put_in_order(tmp_path):
    recording = Recording(tmp_path / "bag")
    recording.add(TICKS, tick(START_NS, 0, [0.0]))
    for k in (1, 0, 2, 2, 1, 3):
        add_transition(recording, k, efforts=[k])
    recording.writer.close()
    episode = read_episode(tmp_path / "bag", SPEC, 400)
    np.testing.assert_array_equal(episode.states[:, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(episode.actions[:, 0], [1, 2, 3])


def test_transition_over_a_gap_is_marked(tmp_path):
    recording = Recording(tmp_path / "bag")
    recording.add(TICKS, tick(START_NS, 0, [0.0]))
    for k in (0, 1, 3, 4):
        add_transition(recording, k, efforts=[0.0])
    recording.writer.close()
    episode = read_episode(tmp_path / "bag", SPEC, 400)
    assert episode.contiguous.tolist() == [True, False, True]
    assert episode.events == ["step 1: 25.0 ms until the next joint state; left out"]


def test_transitions_of_much_less_than_a_period_are_marked(tmp_path):
    recording = Recording(tmp_path / "bag")
    recording.add(TICKS, tick(START_NS, 0, [0.0]))
    for k in (0, 0.16, 0.32, 0.9, 1.9):  # at 500 Hz, then within the bounds
        add_transition(recording, k, efforts=[0.0])
    recording.writer.close()
    episode = read_episode(tmp_path / "bag", SPEC, 400)
    assert episode.contiguous.tolist() == [False, False, True, True]
    assert episode.events[0] == "step 0: 2.0 ms until the next joint state; left out"


def test_joints_are_found_by_name_among_others(tmp_path):
    recording = Recording(tmp_path / "bag")
    recording.add(TICKS, tick(START_NS, 0, [0.1, 0.2]))
    for k in range(2):
        message = joint_state(
            START_NS + k * PERIOD_NS,
            [1.0, 2.0, 3.0],
            [4.0, 5.0, 6.0],
            [7.0, 8.0, 9.0],
            names=["wrist", "hand", "elbow"],
        )
        recording.add(JOINT_STATES, message)
    recording.writer.close()
    episode = read_episode(tmp_path / "bag", ARM, 400)
    np.testing.assert_array_equal(episode.states[0], [3.0, 1.0, 6.0, 4.0])
    np.testing.assert_array_equal(episode.actions, [[9.0, 7.0]])


def test_unusable_joint_state_is_reported_and_left_out(tmp_path):
    recording = Recording(tmp_path / "bag")
    recording.add(TICKS, tick(START_NS, 0, [0.0]))
    for k in range(4):
        value = np.nan if k == 2 else k
        recording.add(JOINT_STATES, joint_state(START_NS + k * PERIOD_NS, [value], [0], [0]))
    recording.writer.close()
    episode = read_episode(tmp_path / "bag", SPEC, 400)
    assert episode.contiguous.tolist() == [True, False]
    assert (
        "0.0250 s: joint_states: position of joint 'pendulum_joint' is nan" in (episode.events[0])
    )


def test_watchdog_is_heard(tmp_path):
    recording = record_episode(tmp_path / "bag", 3)
    recording.add(TRIPPED, diagnostic(0, "armed"))
    recording.add(TRIPPED, diagnostic(2, "no command for 37.5 ms"))
    recording.writer.close()
    assert read_episode(tmp_path / "bag", SPEC, 400).events == ["watchdog: no command for 37.5 ms"]


def test_topics_are_found_in_a_namespace(tmp_path):
    topics = tuple(t._replace(name=f"/lab/arm1{t.name}") for t in TOPICS)
    writer = EpisodeWriter(tmp_path / "bag", topics)
    writer.write("/lab/arm1/joint_states", joint_state(START_NS, [0], [0], [0]), 1)
    writer.write("/lab/arm1/controller/ticks", tick(START_NS, 0, [0.5]), 2)
    writer.close()
    episode = read_episode(tmp_path / "bag", SPEC, 400)
    assert episode.states.shape == (1, 2) and episode.actions.shape == (0, 1)


# What is written.


def test_the_same_episode_gives_the_same_bytes(tmp_path):
    bags = [recorded(tmp_path / side / "bag") for side in "ab"]
    assert len({(bag / "bag.mcap").read_bytes() for bag in bags}) == 1
    assert len({(bag / "metadata.yaml").read_bytes() for bag in bags}) == 1


def test_messages_survive_another_reader(tmp_path):
    bag = recorded(tmp_path / "bag")
    with AnyReader([bag]) as reader:
        connections = [c for c in reader.connections if c.topic == "/controller/commands"]
        values = [
            reader.deserialize(raw, c.msgtype).data.tolist()
            for c, _, raw in reader.messages(connections)
        ]
        assert connections[0].digest == messages.type_hash("std_msgs/msg/Float64MultiArray")
        assert connections[0].ext.offered_qos_profiles[0].depth == 100
    assert values == [[k / 1000] for k in range(5)]


def test_file_opens_without_its_metadata_as_rosbag2_expects(tmp_path):
    bag = recorded(tmp_path / "bag")
    text = (bag / "bag.mcap").read_bytes()
    assert b"serialized_metadata" in text and b"offered_qos_profiles" in text


def test_bag_without_messages_is_a_bag(tmp_path):
    EpisodeWriter(tmp_path / "bag").close()
    with AnyReader([tmp_path / "bag"]) as reader:
        assert reader.message_count == 0
    assert read_contents(tmp_path / "bag").messages == []


def test_existing_bag_is_never_overwritten(tmp_path):
    bag = recorded(tmp_path / "bag")
    before = (bag / "bag.mcap").read_bytes()
    with pytest.raises(BagError, match=r"bag: can't record there: File exists"):
        EpisodeWriter(bag)
    assert (bag / "bag.mcap").read_bytes() == before


def test_full_disk_is_one_error_and_keeps_what_was_written(tmp_path):
    recording = record_episode(tmp_path / "bag", 50)
    recording.writer.flush()
    size = (tmp_path / "bag" / "bag.mcap").stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000, limits[1]))
    try:
        with pytest.raises(BagError, match=r"bag: File too large"):
            for _ in range(1000):
                recording.add(COMMANDS, floats([1.0]))
        recording.writer.abandon()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(read_episode(tmp_path / "bag", SPEC, 400).actions) == 50


# Cut-off bags.


def test_open_bag_is_readable_after_a_flush_and_counts_as_interrupted(tmp_path):
    recording = record_episode(tmp_path / "bag", 5)
    recording.writer.flush()
    episode = read_episode(tmp_path / "bag", SPEC, 400)
    assert len(episode.actions) == 5
    assert episode.interrupted and episode.events == ["the recording was interrupted"]


def test_file_never_falls_far_behind(tmp_path):
    recording = Recording(tmp_path / "bag")
    recording.add(COMMANDS, floats([1.0]))
    time.sleep(1.5 * FLUSH_PERIOD)
    recording.add(COMMANDS, floats([2.0]))
    assert len(read_contents(tmp_path / "bag").messages) == 2


@given(share=st.floats(0.0, 1.0))
def test_cut_anywhere_everything_before_the_last_chunk_is_readable(share, cut_bag):
    folder, whole, ends = cut_bag
    cut = int(share * len(whole))
    (folder / "cut.mcap").write_bytes(whole[:cut])
    contents = read_contents(folder)
    flushed = sum(end <= cut for end in ends)
    assert flushed * 10 <= len(contents.messages) <= (flushed + 1) * 10
    assert contents.outcome is Outcome.INTERRUPTED


@pytest.fixture(scope="module")
def cut_bag(tmp_path_factory):
    """A folder to cut in, the whole file, and where each chunk of ten messages ends."""
    folder = tmp_path_factory.mktemp("cut")
    recording = Recording(folder / "whole")
    path = folder / "whole" / "whole.mcap"
    ends = []
    for k in range(100):
        add_transition(recording, k)
        if k % 10 == 9:
            recording.writer.flush()
            ends.append(path.stat().st_size)
    recording.writer.close()
    (folder / "cut").mkdir()
    return folder / "cut", path.read_bytes(), ends


def test_repaired_bag_is_whole_but_still_interrupted_and_the_original_stays(tmp_path):
    recording = record_episode(tmp_path / "bag", 20)
    recording.writer.flush()
    before = (tmp_path / "bag" / "bag.mcap").read_bytes()
    repaired = repair(tmp_path / "bag")
    assert repaired == tmp_path / "bag_repaired"
    assert read_contents(repaired).whole
    assert read_contents(repaired).messages == read_contents(tmp_path / "bag").messages
    assert read_episode(repaired, SPEC, 400).interrupted
    with AnyReader([repaired]) as reader:
        assert reader.message_count == len(read_contents(repaired).messages)
    assert (tmp_path / "bag" / "bag.mcap").read_bytes() == before
    with pytest.raises(BagError, match="bag_repaired: can't record there: File exists"):
        repair(tmp_path / "bag")


def test_a_bag_with_messages_of_an_unknown_type_is_not_repaired_by_half(tmp_path):
    """As somebody else's recorder leaves it, of whatever else was on the air."""
    (tmp_path / "bag").mkdir()
    with (tmp_path / "bag" / "bag.mcap").open("wb") as file:
        writer = Writer(file, 100)
        writer.start(profile="ros2")
        schema = writer.register_schema("my_msgs/msg/Mine", "ros2msg", b"int32 x")
        channel = writer.register_channel("/mine", "cdr", schema)
        for k in range(100):
            writer.add_message(channel, k, b"\0\1\0\0\1\0\0\0", k)
        writer.flush()
    for _ in range(2):
        with pytest.raises(BagError, match="bag: 8 bytes that are no my_msgs/msg/Mine"):
            repair(tmp_path / "bag")
    assert not (tmp_path / "bag_repaired").exists()


# What is refused.


def test_damaged_byte_is_refused_in_whole_and_cut_off_bags(tmp_path):
    recording = record_episode(tmp_path / "bag", 200)
    recording.writer.flush()
    recording.writer.close()
    path = tmp_path / "bag" / "bag.mcap"
    data = bytearray(path.read_bytes())
    data[9000] ^= 1
    path.write_bytes(data)
    with pytest.raises(BagError, match=r"bag\.mcap: damaged before byte \d+: .*crc validation"):
        read_episode(tmp_path / "bag", SPEC, 400)
    (tmp_path / "bag" / "metadata.yaml").unlink()
    with pytest.raises(BagError, match=r"bag\.mcap: damaged before byte \d+: .*crc validation"):
        read_episode(tmp_path / "bag", SPEC, 400)


def test_finished_bag_cut_off_later_is_refused(tmp_path):
    bag = recorded(tmp_path / "bag", steps=50)
    data = (bag / "bag.mcap").read_bytes()
    (bag / "bag.mcap").write_bytes(data[: len(data) // 2])
    with pytest.raises(BagError, match="bag: damaged"):
        read_episode(bag, SPEC, 400)


def test_wrong_count_in_the_metadata_is_refused(tmp_path):
    bag = recorded(tmp_path / "bag")
    document = yaml.safe_load((bag / "metadata.yaml").read_text())
    document["rosbag2_bagfile_information"]["message_count"] = 3
    (bag / "metadata.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(BagError, match=r"messages, but metadata\.yaml counted 3"):
        read_episode(bag, SPEC, 400)


@pytest.mark.parametrize("text", ["", "[", "a: 1", "rosbag2_bagfile_information: 3"])
def test_garbled_metadata_is_refused(tmp_path, text):
    bag = recorded(tmp_path / "bag")
    (bag / "metadata.yaml").write_text(text)
    with pytest.raises(BagError, match="damaged"):
        read_episode(bag, SPEC, 400)


def test_bag_of_another_robot_is_refused_by_name(tmp_path):
    bag = recorded(tmp_path / "bag")
    with pytest.raises(BagError, match="ticks hold 1 efforts; arm takes 2"):
        read_episode(bag, ARM, 400)
    cousin = RobotSpec("cousin", ("hinge",), ("hinge",), (1.0,), 1 / 80)
    with pytest.raises(BagError, match=r"no joint 'hinge' among \['pendulum_joint'\]"):
        read_episode(bag, cousin, 400)


def test_bag_without_a_tick_is_refused(tmp_path):
    recording = Recording(tmp_path / "bag")
    add_transition(recording, 0)
    recording.writer.close()
    with pytest.raises(BagError, match="holds no tick"):
        read_episode(tmp_path / "bag", SPEC, 400)


@pytest.mark.parametrize(
    ("clocked", "recorded"), [(False, True), (True, True), (True, False)], ids=str
)
def test_an_episode_that_lacks_its_first_state_begins_at_the_next(clocked, recorded, tmp_path):
    """It made no sense; or, of a driver that sends as best it can, the recorder missed it."""
    recording = Recording(tmp_path / "bag")
    for k in range(6):
        stamp = START_NS + k * PERIOD_NS
        place = np.nan if k == 0 else float(k)
        if k or recorded:
            recording.add(JOINT_STATES, joint_state(stamp, [place], [-place], [0.1 * k]))
        if k < 5:
            recording.add(COMMANDS, floats([0.1 * (k + 1)]))
            recording.add(TICKS, tick(stamp, k, [0.1 * (k + 1)]))
    recording.writer.close()
    config = Config(mode="real_time") if clocked else None
    episode = read_episode(tmp_path / "bag", SPEC, 400, config)
    np.testing.assert_allclose(episode.states[:5, 0], [1, 2, 3, 4, 5])
    assert len(episode.ticks) == 5
    assert any(event.startswith("0.0000 s: ") for event in episode.events) == recorded
    assert "the first tick's joint state is missing; the episode begins 12.5 ms later" in " ".join(
        episode.events
    )


def test_first_tick_without_its_joint_state_is_refused(tmp_path):
    recording = Recording(tmp_path / "bag")
    recording.add(TICKS, tick(START_NS, 0, [0.0]))
    add_transition(recording, 1)
    recording.writer.close()
    with pytest.raises(BagError, match=r"first tick's stamp 0\.125000000 s"):
        read_episode(tmp_path / "bag", SPEC, 400)


def test_other_messages_in_place_of_ticks_are_refused(tmp_path):
    recording = Recording(tmp_path / "bag")
    recording.add(TICKS, floats([1.0, 2.0], ("a", "b")))
    recording.writer.close()
    with pytest.raises(BagError, match="no field 'stamp_sec' among a, b"):
        read_episode(tmp_path / "bag", SPEC, 400)


def test_what_is_no_bag_is_refused(tmp_path):
    with pytest.raises(BagError, match="no bag lies there"):
        read_episode(tmp_path / "nowhere", SPEC, 400)
    with pytest.raises(BagError, match="nor exactly one"):
        read_episode(tmp_path, SPEC, 400)
    (tmp_path / "text.mcap").write_text("not an MCAP file at all")
    with pytest.raises(BagError, match="not an MCAP file"):
        read_episode(tmp_path / "text.mcap", SPEC, 400)
    (tmp_path / "empty.mcap").write_bytes(b"")
    with pytest.raises(BagError, match="holds no tick"):
        read_episode(tmp_path / "empty.mcap", SPEC, 400)
    with pytest.raises(BagError, match="nothing to save"):
        repair(tmp_path / "empty.mcap")


# Where a run's recordings go.


def cdr(topic, message):
    kind = next(t.type for t in RECORDED if t.name == topic)
    return messages.serialize(message, kind)


def feed(recording, steps, end=True):
    recording.add(ACTIVE, cdr(ACTIVE, boolean(True)), 1)
    for k in range(steps + 1):
        stamp = START_NS + k * PERIOD_NS
        recording.add(JOINT_STATES, cdr(JOINT_STATES, joint_state(stamp, [k], [0], [0])), 2)
        if k < steps:
            recording.add(TICKS, cdr(TICKS, tick(stamp, k, [0.0])), 3)
    if end:
        recording.add(ACTIVE, cdr(ACTIVE, boolean(False)), 4)


def test_only_a_finished_recording_counts(run_folder):
    recording = RunRecording(run_folder, {}, stepped=True)
    feed(recording, 3)
    assert recording.complete and run_folder.finished_episodes() == 0
    assert recording.finish() == run_folder.bag(0)
    assert run_folder.finished_episodes() == 1

    interrupted = RunRecording(run_folder, {}, stepped=True)
    feed(interrupted, 3, end=False)
    assert interrupted.controller_active and not interrupted.complete
    kept = interrupted.interrupt()
    assert kept == run_folder.episodes / "episode_001_interrupted_1"
    assert run_folder.finished_episodes() == 1 and not run_folder.bag(1).exists()
    assert read_episode(kept, SPEC, 400).interrupted


def test_recording_is_complete_when_the_last_command_took_effect(run_folder):
    recording = RunRecording(run_folder, {}, stepped=True)
    assert recording.complete  # nothing was commanded yet
    feed(recording, 3)
    last = START_NS + 3 * PERIOD_NS
    recording.add(TICKS, cdr(TICKS, tick(last, 3, [0.0])), 5)
    assert not recording.complete
    state = joint_state(last + PERIOD_NS, [4], [0], [0])
    recording.add(JOINT_STATES, cdr(JOINT_STATES, state), 6)
    assert recording.complete


def test_joint_states_of_before_a_reset_do_not_complete_a_recording(run_folder):
    """The clock may start again with it, after the bag was opened."""
    recording = RunRecording(run_folder, {}, stepped=False)
    late = joint_state(START_NS + 1000 * PERIOD_NS, [9], [9], [0])
    recording.add(JOINT_STATES, cdr(JOINT_STATES, late), 0)
    feed(recording, 3)
    last = START_NS + 3 * PERIOD_NS
    recording.add(TICKS, cdr(TICKS, tick(last, 3, [0.0])), 5)
    assert not recording.complete
    state = joint_state(last + PERIOD_NS, [4], [0], [0])
    recording.add(JOINT_STATES, cdr(JOINT_STATES, state), 6)
    assert recording.complete


def test_what_killed_recorders_left_is_kept_under_names_of_its_own(run_folder):
    for attempt in range(3):
        recording = RunRecording(run_folder, {}, stepped=True)
        feed(recording, attempt + 1)
        recording.flush()  # and never closed
    names = sorted(path.name for path in run_folder.episodes.iterdir())
    assert names == ["episode_000", "episode_000_interrupted_1", "episode_000_interrupted_2"]
    steps = [len(read_episode(run_folder.episodes / n, SPEC, 400).actions) for n in names]
    assert steps == [3, 1, 2]


def test_resolved_names_are_recorded(run_folder):
    recording = RunRecording(run_folder, {JOINT_STATES: "/arm/joint_states"}, stepped=True)
    feed(recording, 1)
    found = {message.topic for message in read_contents(recording.finish()).messages}
    assert "/arm/joint_states" in found
