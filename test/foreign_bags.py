"""Bags of a pendulum as other recorders leave them: none of the project's code is in here.

    python foreign_bags.py FOLDER [SEED]

writes a minute of smooth random motion at 500 Hz.
"""

import math
import random
import sys
from pathlib import Path

import numpy as np
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore

GRAVITY, LENGTH, MASS, VISCOUS = 9.81, 0.5, 0.3, 0.005
STEP = 1e-3
JOINT_STATE, EFFORTS = "sensor_msgs/msg/JointState", "std_msgs/msg/Float64MultiArray"
BEGAN = 1_700_000_000 * 10**9
LATE = 300_000
DEFAULTS = {
    "storage": "mcap",  # "sqlite3", or "ros1"
    "rate": 500.0,
    "seconds": 60.0,
    "effort": "mean",  # "last" or "none"
    "velocity": True,
    "commands": True,  # whether they are in the bag
    "heard_from": 0.0,  # [s] from when on
    "stamps": True,
    "drops": 0.0,
    "duplicates": 0.0,
    "swaps": 0.0,
    "gap": None,  # [s] from when to when nothing was recorded
}


def smooth_efforts(seed, seconds, largest=1.0):
    """Commands of a person at 50 Hz: low frequencies, at times over the whole range."""
    rng = np.random.default_rng(seed)
    times = np.arange(0, seconds, 0.02)
    waves = [
        rng.normal() * np.sin(2 * math.pi * rng.uniform(0.2, 3.0) * times + rng.uniform(0, 6.3))
        for _ in range(8)
    ]
    return times, np.clip(largest * 0.35 * sum(waves), -largest, largest)


def record(folder, seed=0, **changes):
    """Write the bag; returns its true states, one a millisecond."""
    how = {**DEFAULTS, **changes}
    store = get_typestore(Stores.ROS1_NOETIC if how["storage"] == "ros1" else Stores.ROS2_JAZZY)
    events, truth = motion(how, seed, store)
    if how["storage"] == "ros1":
        with Writer1(folder) as writer:
            topics = [(JOINT_STATE, "/joint_states"), (EFFORTS, "/arm_controller/command")]
            opened = {k: writer.add_connection(t, k, typestore=store) for k, t in topics}
            for at, kind, message in events:
                writer.write(opened[kind], at, store.serialize_ros1(message, kind))
        return truth
    plugin = StoragePlugin.MCAP if how["storage"] == "mcap" else StoragePlugin.SQLITE3
    with Writer2(folder, version=9, storage_plugin=plugin) as writer:
        topics = [(JOINT_STATE, "/joint_states"), (EFFORTS, "/arm_controller/commands")]
        opened = {k: writer.add_connection(t, k, typestore=store) for k, t in topics}
        for at, kind, message in events:
            writer.write(opened[kind], at, store.serialize_cdr(message, kind))
    return truth


def motion(how, seed, store):
    """Events (time of the recording, type, message) and the true states."""
    dice = random.Random(seed)
    times, efforts = smooth_efforts(seed, how["seconds"])
    angle, speed, acting, coming = math.pi, 0.0, 0.0, 0
    each, sums = round(1 / how["rate"] / STEP), 0.0
    events, truth = [], []
    for k in range(round(how["seconds"] / STEP)):
        now = k * STEP
        if coming < len(times) and times[coming] + 0.004 <= now:
            acting = float(efforts[coming])
            if how["commands"] and now >= how["heard_from"]:
                events.append((BEGAN + round(now * 1e9) + LATE, EFFORTS, floats(store, [acting])))
            coming += 1
        truth.append((angle, speed))
        if k % each == 0:
            shown = {"mean": [sums / each], "last": [acting], "none": []}[how["effort"]]
            sums = 0.0
            stamp = BEGAN + round(now * 1e9)
            message = joint_state(
                store,
                stamp if how["stamps"] else 0,
                angle,
                [speed] if how["velocity"] else [],
                shown,
            )
            within = how["gap"] and how["gap"][0] <= now < how["gap"][1]
            if not within and dice.random() >= how["drops"]:
                late = LATE + (round(1.5e9 / how["rate"]) if dice.random() < how["swaps"] else 0)
                events.append((stamp + late, JOINT_STATE, message))
                if dice.random() < how["duplicates"]:
                    events.append((stamp + late + 1000, JOINT_STATE, message))
        pull = GRAVITY / LENGTH * math.sin(angle)
        speed += STEP * (pull + (acting - VISCOUS * speed) / (MASS * LENGTH**2))
        angle += STEP * speed
        sums += acting
    return sorted(events, key=lambda event: event[0]), np.array(truth)


def joint_state(store, stamp, angle, velocity, effort):
    types = store.types
    time = types["builtin_interfaces/msg/Time"](*divmod(stamp, 10**9))
    header = types["std_msgs/msg/Header"]
    first = (0,) if "seq" in header.__dataclass_fields__ else ()
    return types[JOINT_STATE](
        header(*first, time, ""),
        ["pendulum_joint"],
        np.array([angle]),
        np.array(velocity, float),
        np.array(effort, float),
    )


def floats(store, values):
    types = store.types
    layout = types["std_msgs/msg/MultiArrayLayout"]([], 0)
    return types[EFFORTS](layout, np.array(values, float))


if __name__ == "__main__":
    record(Path(sys.argv[1]), *map(int, sys.argv[2:]))
