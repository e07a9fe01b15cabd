"""Small bags of every kind, made in code, and what can be wrong with them."""

import random
import sqlite3
import struct
from contextlib import closing

import foreign_bags
import lz4.frame
import yaml
import zstandard
from bag_messages import record_episode
from mcap.writer import CompressionType, Writer

from hucrl_ros.bags import messages

STEPS = 30
KINDS = ("own", "cut", "mcap", "sqlite3", "ros1", "zstd", "lz4")
"""Kinds of bags."""


def make(folder, kind):
    """Write a small bag; returns what is read of it, and the file that is to be damaged."""
    if kind in ("own", "cut"):
        bag = folder / kind
        record_episode(bag, STEPS).writer.close()
        if kind == "cut":
            (bag / "metadata.yaml").unlink()
        return bag, bag / f"{kind}.mcap"
    if kind == "ros1":
        foreign_bags.record(folder / "ros1.bag", seconds=0.5, storage="ros1")
        return folder / "ros1.bag", folder / "ros1.bag"
    if kind in ("mcap", "sqlite3"):
        foreign_bags.record(folder / kind, seconds=0.5, storage=kind)
        return folder / kind, folder / kind / f"{kind}.{'mcap' if kind == 'mcap' else 'db3'}"
    path = folder / f"{kind}.mcap"
    recode(folder, path, CompressionType[kind.upper()])
    return path, path


def recode(folder, path, compression):
    """An MCAP file of a few joint states in compressed chunks."""
    with path.open("wb") as stream:
        writer = Writer(stream, 4096, compression)
        writer.start(profile="ros2", library="other")
        kind = "sensor_msgs/msg/JointState"
        schema = writer.register_schema(kind, "ros2msg", messages.definition(kind).encode())
        channel = writer.register_channel("/joint_states", "cdr", schema)
        for k in range(200):
            stamp = 10**18 + k * 2_000_000
            message = messages.joint_state(stamp, ["pendulum_joint"], [0.1], [0.2], [0.3])
            data = messages.serialize(message, kind)
            writer.add_message(channel, stamp, data, stamp)
        writer.finish()


def damaged(data, seed):
    """Bytes with something wrong: cut, flipped, zeroed, doubled, left out or made up."""
    dice = random.Random(seed)
    how = dice.choice(["cut", "flip", "flip", "flip", "zero", "double", "drop", "noise", "length"])
    begin = dice.randrange(len(data))
    end = min(begin + int(2 ** dice.uniform(0, 12)), len(data))
    if how == "cut":
        return data[:begin]
    changed = bytearray(data)
    if how == "flip":
        for _ in range(dice.choice([1, 1, 3, 30])):
            changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    elif how == "length":  # of whatever stands there
        number = dice.choice([0, 1, 2**16, 2**31, 2**32 - 1])
        changed[begin : begin + 4] = struct.pack("<I", number)
    else:
        changed[begin:end] = {
            "zero": bytes(end - begin),
            "double": 2 * data[begin:end],
            "drop": b"",
            "noise": dice.randbytes(end - begin),
        }[how]
    return bytes(changed)


VALUES = (
    None, True, 0, -1, 2**70, 1e300, float("nan"), "", "x" * 5000, "[/red]", "\x00", "\n", [], {},
    ["../../x"], ["/etc/passwd"], ["/dev/zero"], [["a"]], {"a": {"b": 1}}, [None], "zstd", "file",
    "message", "sqlite3", "mcap", "damaged",
)  # fmt: skip
"""What somebody may write in the place of a value."""


def with_value(text, seed):
    """`metadata.yaml` with one value, at any depth, replaced or left out."""
    dice = random.Random(seed)
    document = yaml.safe_load(text)
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = dice.choice(keys)
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or dice.random() < 0.3:
            break
        place = inner
    if dice.random() < 0.2:
        del place[key]
    else:
        place[key] = dice.choice(VALUES)
    return yaml.safe_dump(document)


# Bags that do harm.


def chunk(compression, data, size):
    """An MCAP file of one chunk, whose content is `data`."""
    name = compression.encode()
    record = struct.pack("<QQQII", 0, 0, size, 0, len(name)) + name
    record += struct.pack("<Q", len(data)) + data
    return b"\x89MCAP0\r\n" + struct.pack("<BQ", 6, len(record)) + record


def bombs():
    """Names and contents of files from which far more comes than is in them."""
    zeros = bytes(2**29)
    packed = zstandard.compress(zeros)
    yield "zstd.mcap", chunk("zstd", packed, len(zeros))
    yield "claims.mcap", chunk("zstd", zstandard.compress(bytes(10)), 2**62)
    yield "lz4.mcap", chunk("lz4", lz4.frame.compress(zeros), 10)
    yield "nothing.mcap", b"\x89MCAP0\r\n" + bytes(2**22)
    yield "long.mcap", b"\x89MCAP0\r\n" + struct.pack("<BQ", 5, 2**63)


def sqlite_bombs(folder):
    """SQLite files that compute for ever, or make much of little."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
    views = {
        "endless": f"CREATE VIEW messages AS {endless} 1 AS topic_id, i AS timestamp, "
        "x'00' AS data FROM n",
        "silent": f"CREATE VIEW messages AS {endless} 2 AS topic_id, i AS timestamp, "
        "x'00' AS data FROM n WHERE i < 0",
        "blob": "CREATE VIEW messages AS SELECT 1 AS topic_id, 1 AS timestamp, "
        "zeroblob(900000000) AS data",
        "column": "CREATE TABLE messages (topic_id, timestamp, data AS (zeroblob(900000000)))",
    }
    for name, sql in views.items():
        path = folder / f"{name}.db3"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE topics (id, name, type)")
            kind = "sensor_msgs/msg/JointState"
            connection.execute("INSERT INTO topics VALUES (1, '/joint_states', ?)", (kind,))
            connection.execute(sql)
            if name == "column":
                connection.execute("INSERT INTO messages VALUES (1, 1)")
            connection.commit()
        yield path
