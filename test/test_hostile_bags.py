"""Whatever a bag holds, whoever reads it ends in one line, soon, and reads nothing else."""

import math
import os
import struct
from io import BytesIO

import damaged_bags
import pytest
import yaml
from bag_messages import (
    COMMANDS,
    JOINT_STATES,
    TICKS,
    TOPICS,
    Recording,
    floats,
    joint_state,
    tick,
)
from hostile import harmless, is_one_line
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as some
from mcap.writer import CompressionType, Writer

from hucrl_ros.bags import messages
from hucrl_ros.bags.contents import read_contents
from hucrl_ros.bags.foreign import read_foreign
from hucrl_ros.bags.interrupted import sound_part
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.bags.writer import repair
from hucrl_ros.cli import main
from hucrl_ros.config.schema import Config
from hucrl_ros.errors import BagError, ConfigError
from hucrl_ros.robots import describe
from hucrl_ros.run.folder import RunFolder

ROBOT = describe("pendulum").robot
SPEC = ROBOT.spec
LOCKSTEP, REAL_TIME = Config(), Config(mode="real_time")
SEEDS = some.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def bags(tmp_path_factory):
    """A bag of each kind, with the file that is damaged and what was in it."""
    folder = tmp_path_factory.mktemp("bags")
    made = {kind: damaged_bags.make(folder, kind) for kind in damaged_bags.KINDS}
    return Bags({kind: (bag, file, file.read_bytes()) for kind, (bag, file) in made.items()})


class Bags(dict):
    """Which hypothesis doesn't print."""

    def __repr__(self):
        return "bags"


def read_all(path, outside=None):
    """Have everybody read it who reads bags."""
    with harmless(BagError, ConfigError, outside=outside):
        read_episode(path, SPEC, 2**20, LOCKSTEP)
    with harmless(BagError, ConfigError, outside=outside):
        read_episode(path, SPEC, 2**20, REAL_TIME)
    with harmless(BagError, ConfigError, outside=outside):
        read_foreign(path, ROBOT, REAL_TIME)
    with harmless():
        assert is_one_line(sound_part(path, SPEC, 400, LOCKSTEP).line)


@pytest.mark.parametrize("kind", damaged_bags.KINDS)
def test_each_kind_is_sound_before_it_is_damaged(bags, kind):
    bag, _, _ = bags[kind]
    if kind in ("own", "cut"):
        assert len(read_episode(bag, SPEC, 400).actions) == damaged_bags.STEPS
    else:
        driver = {"effort": "commanded"} if kind in ("zstd", "lz4") else {}
        config = REAL_TIME.model_copy(
            update={"driver": REAL_TIME.driver.model_copy(update=driver)}
        )
        assert read_foreign(bag, ROBOT, config).courses


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", damaged_bags.KINDS)
@examples(max_examples=40)
@given(seed=SEEDS)
def test_damaged_bytes(bags, kind, seed):
    bag, file, whole = bags[kind]
    file.write_bytes(damaged_bags.damaged(whole, seed))
    try:
        read_all(bag)
    finally:
        file.write_bytes(whole)


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", ["own", "mcap", "sqlite3"])
@examples(max_examples=40)
@given(seed=SEEDS, bytewise=some.booleans())
def test_damaged_metadata(bags, kind, seed, bytewise):
    bag, _, _ = bags[kind]
    path = bag / "metadata.yaml"
    whole = path.read_bytes()
    changed = damaged_bags.damaged(whole, seed) if bytewise else None
    path.write_bytes(changed or damaged_bags.with_value(whole.decode(), seed).encode())
    try:
        read_all(bag)
    finally:
        path.write_bytes(whole)


# Messages that no node of ours sends.

NUMBERS = some.floats() | some.sampled_from([0.0, 1e308, -1e308, math.nan, math.inf, 2**31, 4.5])
TEXTS = some.sampled_from(["", "pendulum_joint", "x", "[/red]", "a\nb", "\x1b[2J", "é" * 2500])
STAMPS = some.integers(-(2**31), 2**31 - 1).map(lambda seconds: seconds * 10**9) | some.integers(
    0, 10**9
)
TYPES = sorted({topic.type for topic in TOPICS})


@some.composite
def hostile_messages(draw):
    """Topic, type and CDR of a message."""
    topic = draw(some.sampled_from(TOPICS)).name
    kind = draw(some.sampled_from([TICKS, COMMANDS, JOINT_STATES, "bytes"]))
    if kind == "bytes":
        return topic, draw(some.sampled_from([*TYPES, "x/msg/Y", ""])), draw(some.binary())
    if kind == JOINT_STATES:
        numbers = some.lists(NUMBERS, max_size=3)
        names = draw(some.lists(TEXTS, max_size=3))
        message = messages.joint_state(draw(STAMPS), names, *(draw(numbers) for _ in range(3)))
        return f"/{JOINT_STATES}", "sensor_msgs/msg/JointState", (message, None)
    sound = tick(draw(STAMPS), draw(some.integers(-5, 5)), [0.5])
    data = sound.data.tolist() if kind == TICKS else [0.0]
    for _ in range(draw(some.integers(0, 3))):
        data[draw(some.integers(0, len(data) - 1))] = draw(NUMBERS)
    labels = tuple(dimension.label for dimension in sound.layout.dim) if kind == TICKS else ()
    if draw(some.integers(0, 5)) == 0:
        labels = tuple(draw(some.lists(TEXTS, max_size=4)))
    return f"/{kind}", "std_msgs/msg/Float64MultiArray", (floats(data, labels), None)


@pytest.mark.fuzz
@examples(max_examples=60)
@given(extra=some.lists(hostile_messages(), max_size=8), steps=some.integers(0, 12))
def test_hostile_messages(tmp_path_factory, extra, steps):
    bag = tmp_path_factory.mktemp("bag") / "bag.mcap"
    bag.write_bytes(recorded_with(extra, steps))
    read_all(bag)


def recorded_with(extra, steps):
    """An MCAP file of a few steps and those messages."""
    stream = BytesIO()
    writer = Writer(stream, compression=CompressionType.NONE)
    writer.start(profile="ros2", library="hostile")
    channels = {}

    def add(topic, kind, data, at):
        if (topic, kind) not in channels:
            schema = writer.register_schema(kind, "ros2msg", b"")
            channels[topic, kind] = writer.register_channel(topic, "cdr", schema)
        writer.add_message(channels[topic, kind], at, data, at)

    for k in range(steps):
        stamp = (k + 10) * 12_500_000
        joints = joint_state(stamp, [0.1 * k], [0.0], [0.1])
        kind = "sensor_msgs/msg/JointState"
        add(f"/{JOINT_STATES}", kind, messages.serialize(joints, kind), 10**18 + stamp)
        kind = "std_msgs/msg/Float64MultiArray"
        told = messages.serialize(tick(stamp, k, [0.1]), kind)
        add(f"/{TICKS}", kind, told, 10**18 + stamp)
    for k, (topic, kind, content) in enumerate(extra):
        data = content if isinstance(content, bytes) else messages.serialize(content[0], kind)
        add(topic, kind, data, k * 2**60 % 2**63)
    writer.finish()
    return stream.getvalue()


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        (0, math.nan, "stamp_sec is nan"),
        (2, math.inf, "step is inf"),
        (4, 7.0, "source 7.0"),
        (5, math.nan, "missed is nan"),
        (-1, math.nan, "action_0 is nan; expected a finite number"),
        (-1, -math.inf, "action_0 is -inf"),
    ],
)
def test_ticks_that_no_controller_sends_are_refused(field, value, line, tmp_path):
    recording = Recording(tmp_path / "bag")
    message = tick(0, 0, [0.1])
    message.data[field] = value
    recording.add(JOINT_STATES, joint_state(0, [0.0], [0.0]))
    recording.add(TICKS, message)
    recording.writer.close()
    with pytest.raises(BagError, match=f"bag: controller/ticks: {line}"):
        read_episode(tmp_path / "bag", SPEC, 400)


def test_commands_that_are_no_numbers_act_on_nothing(tmp_path):
    recording = Recording(tmp_path / "bag")
    for k in range(30):
        stamp = (k + 10) * 12_500_000
        recording.add(JOINT_STATES, joint_state(stamp, [0.0], [0.0]))
        recording.add(TICKS, tick(stamp, k, [0.1]))
        recording.add(COMMANDS, floats([0.25 if k % 2 else math.nan]))
    recording.writer.close()
    actions = read_episode(tmp_path / "bag", SPEC, 400, REAL_TIME).actions
    assert math.isfinite(actions.sum()) and actions.max() == 0.25


def test_a_topic_of_another_type_is_refused(tmp_path):
    bag = tmp_path / "bag.mcap"
    bool_ = messages.serialize(messages.boolean(True), "std_msgs/msg/Bool")
    bag.write_bytes(recorded_with([(f"/{TICKS}", "std_msgs/msg/Bool", bool_)], 3))
    with pytest.raises(BagError, match=r"/controller/ticks holds std_msgs/msg/Bool; expected std"):
        read_episode(bag, SPEC, 400)


# Files that do harm.


@pytest.mark.parametrize(("name", "content"), damaged_bags.bombs(), ids=lambda value: "")
def test_no_more_comes_out_of_a_file_than_fits_its_size(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    read_all(tmp_path / name)
    with harmless(BagError):
        assert not read_contents(tmp_path / name).messages


def test_sqlite_files_are_read_and_not_obeyed(tmp_path):
    for path in damaged_bags.sqlite_bombs(tmp_path):
        with harmless(BagError), pytest.raises(BagError, match="damaged"):
            read_contents(path)
        read_all(path)


def test_a_sparse_file_is_not_read_to_its_end(tmp_path, bags):
    _, _, whole = bags["own"]
    path = tmp_path / "bag.mcap"
    path.write_bytes(whole[: len(whole) // 2])
    os.truncate(path, 20 * 2**30)
    read_all(path)
    for name, begin in (("ros1.bag", b"#ROSBAG V2.0\n"), ("other.db3", b"SQLite format 3\0")):
        (tmp_path / name).write_bytes(begin)
        os.truncate(tmp_path / name, 2**34)
        read_all(tmp_path / name)


@pytest.mark.parametrize("named", ["../outside/secret.mcap", "{outside}/secret.mcap", "link.mcap"])
def test_nothing_outside_of_the_folder_is_read(named, tmp_path, bags):
    bag, _, whole = bags["own"]
    outside, copy = tmp_path / "outside", tmp_path / "bag"
    outside.mkdir()
    copy.mkdir()
    (outside / "secret.mcap").write_bytes(whole)
    (copy / "link.mcap").symlink_to(outside / "secret.mcap")
    document = yaml.safe_load((bag / "metadata.yaml").read_text())
    names = [named.format(outside=outside)]
    document["rosbag2_bagfile_information"]["relative_file_paths"] = names
    (copy / "metadata.yaml").write_text(yaml.safe_dump(document))
    read_all(copy, outside=outside)
    with pytest.raises(BagError, match=r"no regular file|No such file"):
        read_contents(copy)
    (copy / "metadata.yaml").unlink()
    read_all(copy, outside=outside)
    with pytest.raises(BagError, match="no regular file"):
        read_contents(copy)


def test_pipes_devices_and_folders_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.mcap")
    (tmp_path / "folder.mcap").mkdir()
    (tmp_path / "folder.mcap" / "metadata.yaml").mkdir()
    with pytest.raises(BagError, match="no regular file"):
        read_contents(tmp_path / "pipe.mcap")
    for name in ("pipe.mcap", "folder.mcap"):
        read_all(tmp_path / name)


def test_what_the_user_names_may_be_a_link(tmp_path, bags):
    bag, file, _ = bags["own"]
    (tmp_path / "newest").symlink_to(bag)
    (tmp_path / "newest.mcap").symlink_to(file)
    expected = read_contents(bag).messages
    assert read_contents(tmp_path / "newest").messages == expected
    assert read_contents(tmp_path / "newest.mcap").messages == expected


# The commands.


@pytest.mark.parametrize("seed", range(6))
def test_commands_and_repair_end_in_a_line(bags, seed, tmp_path, capsys):
    _, _, whole = bags["cut"]
    run = RunFolder.create(tmp_path / "run", LOCKSTEP)
    bag = run.bag(0)
    bag.mkdir()
    (bag / "episode_000.mcap").write_bytes(damaged_bags.damaged(whole, seed))
    for arguments in (["inspect", str(bag)], ["inspect", "--repair", str(bag)]):
        assert main(arguments) in (0, 1, 2)
        assert "Traceback" not in capsys.readouterr().err
    with harmless(BagError):
        repair(bag)


def test_inspect_shows_names_as_they_are(tmp_path, capsys):
    content = recorded_with([("/[/red]x", "[/bold]/msg/Y", b"")], 3)
    (tmp_path / "bag.mcap").write_bytes(content)
    assert main(["inspect", str(tmp_path / "bag.mcap")]) == 0
    assert "/[/red]x" in capsys.readouterr().out


def test_a_stamp_far_away_makes_no_grid_of_millions(tmp_path):
    bag = tmp_path / "bag.mcap"
    far = joint_state((2**31 - 1) * 10**9, [0.0], [0.0], [0.0])
    kind = "sensor_msgs/msg/JointState"
    last = tick((2**31 - 1) * 10**9, 12, [0.0])
    told = [("/joint_states", kind, (far, None))]
    told.append(("/controller/ticks", "std_msgs/msg/Float64MultiArray", (last, None)))
    bag.write_bytes(recorded_with(told, 12))
    read_all(bag)


def test_a_message_recorded_at_no_time_is_refused(tmp_path):
    bag = tmp_path / "bag.mcap"
    content = bytearray(recorded_with([], 1))
    at = content.find(struct.pack("<Q", 10**18 + 125_000_000))
    content[at : at + 8] = b"\xff" * 8
    bag.write_bytes(content)
    read_all(bag)
