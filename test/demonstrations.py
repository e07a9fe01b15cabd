"""Bags of somebody who leads the PR2's arm so that it pushes the object: none of our code is here.

    python demonstrations.py FOLDER [SEED [METRES|free]]

writes six seconds: joint states and the object's pose at 100 Hz, `METRES` the deviation of where
the arm is led from where it should be; `free`: it is led back and forth, beside the object.
"""

import sys
from pathlib import Path

import mujoco
import numpy as np
from foreign_bags import BEGAN, JOINT_STATE, LATE
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore
from scipy.optimize import least_squares

MODEL = Path(__file__).parents[1] / "sim" / "pr2_pusher.xml"
POSE = "geometry_msgs/msg/PoseStamped"
STEP, SECONDS, LARGEST = 0.01, 6.0, 2.0
SITES = ("wrist", "right_tip", "left_tip")
GOAL, START, SPREAD = np.array([0.45, -0.05]), np.array([0.20, 0.10]), 0.025
TABLE, ABOVE = -0.285, -0.16
FREE = "free"
READY = np.array([1.6, 0.4, 1.6, -0.5, 0.2, -1.0, -1.2])
"""The joints where the fork is behind the object, or nearly so."""


class Arm:
    """The arm in MuJoCo."""

    def __init__(self):
        self.model = mujoco.MjModel.from_xml_path(str(MODEL))
        self.data, self._thought = mujoco.MjData(self.model), mujoco.MjData(self.model)
        self._sites = [self.model.site(name).id for name in SITES]
        ranges = self.model.jnt_range[2:]
        self.ranges = ranges[:, 0] + 0.02, ranges[:, 1] - 0.02
        self.joints = [self.model.joint(k).name for k in range(2, self.model.njnt)]

    def points(self, data):
        return data.site_xpos[self._sites].copy()

    def joints_for(self, wrist, heading, near):
        """Joints with the fork level at `wrist`, pointing to `heading`, or as near as may be."""
        ahead = 0.1 * np.array([np.cos(heading), np.sin(heading), 0.0])
        aside = np.array([-ahead[1], ahead[0], 0.0])
        wanted = wrist + np.array([0.0 * ahead, ahead - aside, ahead + aside])

        def away(joints):
            self._thought.qpos[2:] = joints
            mujoco.mj_kinematics(self.model, self._thought)
            return np.append(self.points(self._thought) - wanted, 2e-3 * (joints - near))

        low, high = self.ranges
        return least_squares(away, np.clip(near, low, high), bounds=(low, high)).x

    def lead(self, joints):
        """One step of efforts that lead to `joints`; returns them."""
        data, count = self.data, self.model.nv
        pull = np.append([0.0, 0.0], 150 * (joints - data.qpos[2:]) - 22 * data.qvel[2:])
        efforts = np.zeros(count)
        mujoco.mj_mulM(self.model, data, efforts, pull)
        efforts += data.qfrc_bias - data.qfrc_passive
        data.ctrl[:] = np.clip(efforts[2:], -LARGEST, LARGEST)
        mujoco.mj_step(self.model, data)
        return data.ctrl.copy()


def way(arm, place, rng, metres):
    """Joints for each step: to the object's far side, down, and the object to its goal."""
    ahead = (GOAL - place) / np.linalg.norm(GOAL - place)
    x, y = np.clip(place - 0.1 * ahead, [0.085, -1.0], [1.0, 0.155])
    end = (*(GOAL - 0.03 * ahead), TABLE)
    stations = [((0.4, -0.15, -0.12), 0.6, 1.2), ((x, y, ABOVE), -0.25, 1.2)]
    stations += [((x, y, TABLE), -0.25, 0.6), (end, -0.4, 1.6)]
    joints, led = READY, []
    for wrist, heading, seconds in reversed(stations):  # each is found near the one behind it
        moved = wrist + metres * np.array([1.0, 1.0, 0.2]) * rng.standard_normal(3)
        joints = arm.joints_for(moved, heading, joints)
        led.insert(0, (joints, seconds))
    steps, now = [], arm.data.qpos[2:].copy()
    for joints, seconds in led:
        share = np.linspace(0.0, 1.0, round(seconds / STEP))[:, None]
        steps += list(now + (joints - now) * share**2 * (3 - 2 * share))
        now = joints
    return steps + [now] * (round(SECONDS / STEP) - len(steps))


def back_and_forth(arm, rng):
    """Joints for each step: quickly from place to place above the table, with a rest at each."""
    now = arm.data.qpos[2:].copy()
    steps = []
    while len(steps) < round(SECONDS / STEP):
        wrist = rng.uniform([0.3, -0.45, -0.2], [0.65, -0.05, 0.12])
        joints = arm.joints_for(wrist, rng.uniform(-0.6, 1.5), rng.uniform(*arm.ranges))
        count = round(rng.uniform(0.4, 1.0) / STEP)
        share = np.linspace(0.0, 1.0, count)[:, None]
        steps += list(now + (joints - now) * share**2 * (3 - 2 * share))
        steps += [joints] * round(rng.uniform(0.05, 0.3) / STEP)
        now = joints
    return steps[: round(SECONDS / STEP)]


def demonstrate(seed=0, metres=0.0):
    """Joints, speeds, efforts that acted, place of the object at each step; points of the fork."""
    rng, arm = np.random.default_rng(seed), Arm()
    place = START + SPREAD * rng.standard_normal(2)
    arm.data.qpos[:2] = place - GOAL
    mujoco.mj_forward(arm.model, arm.data)
    shown, points, efforts = [], [], np.zeros(len(arm.joints))
    led = back_and_forth(arm, rng) if metres == FREE else way(arm, place, rng, metres)
    for joints in [*led, None]:
        seen = np.append(arm.data.qpos[:2] + GOAL, -0.275)
        shown.append((arm.data.qpos[2:].copy(), arm.data.qvel[2:].copy(), efforts, seen))
        points.append(arm.points(arm.data))
        if joints is not None:
            efforts = arm.lead(joints)
    return arm.joints, shown, np.array(points)


def record(folder, seed=0, metres=0.0, object_topic="/camera/object", stamps=(True, True)):
    """Write a bag; returns what `demonstrate` does."""
    joints, shown, points = demonstrate(seed, metres)
    store = get_typestore(Stores.ROS2_JAZZY)
    types = store.types

    def header(at, stamped, frame=""):
        time = types["builtin_interfaces/msg/Time"](*divmod(at if stamped else 0, 10**9))
        return types["std_msgs/msg/Header"](time, frame)

    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        state = writer.add_connection("/joint_states", JOINT_STATE, typestore=store)
        seen = writer.add_connection(object_topic, POSE, typestore=store)
        for k, (places, speeds, efforts, place) in enumerate(shown):
            at = BEGAN + round(k * STEP * 1e9)
            point = types["geometry_msgs/msg/Point"](*place.tolist())
            upright = types["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0)
            pose = types["geometry_msgs/msg/Pose"](point, upright)
            message = types[POSE](header(at, stamps[1], "world"), pose)
            writer.write(seen, at + LATE, store.serialize_cdr(message, POSE))
            message = types[JOINT_STATE](header(at, stamps[0]), joints, places, speeds, efforts)
            writer.write(state, at + LATE, store.serialize_cdr(message, JOINT_STATE))
    return joints, shown, points


if __name__ == "__main__":
    words = sys.argv[2:]
    how = FREE if words[1:] == [FREE] else float(words[1]) if words[1:] else 0.0
    record(Path(sys.argv[1]), int(words[0]) if words else 0, how)
