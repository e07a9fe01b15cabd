"""Other people's bags of robots whose state holds an object or a goal."""

import itertools

import demonstrations
import foreign_bags
import numpy as np
import pytest
from foreign_bags import BEGAN, JOINT_STATE
from quick_run import SETTINGS

from hucrl_ros.bags.foreign import read_foreign
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.cli import main
from hucrl_ros.config.robot import sources
from hucrl_ros.config.schema import Config
from hucrl_ros.errors import BagError
from hucrl_ros.learning.from_bags import _record
from hucrl_ros.robots.resolve import describe
from hucrl_ros.run.folder import RunFolder

PUSHER, REACHER = describe("pusher").robot, describe("reacher").robot
SETTINGS_OF_A_ROBOT = Config(mode="real_time")
POSE = demonstrations.POSE


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demonstrations") / "bag"
    return folder, *demonstrations.record(folder, seed=3)


def test_what_was_pushed_is_learned_from(demonstration):
    folder, _, shown, _ = demonstration
    ((course,), report) = read_foreign(folder, PUSHER, SETTINGS_OF_A_ROBOT)
    assert "the object from /camera/object" in report[0]
    assert len(course.actions) == pytest.approx(demonstrations.SECONDS / PUSHER.period, abs=2)
    at = np.round((course.stamps_ns - BEGAN) / 1e9 / demonstrations.STEP).astype(int)
    places = np.array([step[3] for step in shown])
    np.testing.assert_allclose(course.states[:, 14:17], places[at], atol=1e-9)
    assert np.linalg.norm(places[-1] - places[0]) > 0.2, "or nothing is tested"
    # Speeds are the differences of poses a control period apart.
    apart = round(PUSHER.period / demonstrations.STEP)
    slopes = (places[at[5:]] - places[at[5:] - apart])[:, :2] / PUSHER.period
    np.testing.assert_allclose(course.states[5:, 17:], slopes, atol=1e-6)
    efforts = np.array([step[2] for step in shown])
    means = np.array([efforts[a + 1 : b + 1].mean(axis=0) for a, b in itertools.pairwise(at)])
    np.testing.assert_allclose(course.actions, means, atol=1e-6)


@pytest.mark.parametrize("begin", [0, 75], ids=["from its beginning", "while the object moves"])
def test_its_episodes_hold_the_same(begin, demonstration, tmp_path):
    (whole,), _ = read_foreign(demonstration[0], PUSHER, SETTINGS_OF_A_ROBOT)
    course = whole.part(begin, begin + 60)
    run = RunFolder.create(tmp_path / "run", Config(task="pusher"))
    _record(run, PUSHER.spec, [course, course])
    episode = read_episode(run.bag(0), PUSHER.spec, PUSHER.steps, run.config)
    assert episode.contiguous.sum() == 120
    for first in (0, 61):
        np.testing.assert_allclose(episode.states[first : first + 61], course.states, atol=1e-9)
        np.testing.assert_allclose(episode.actions[first : first + 60], course.actions, atol=1e-12)


def test_a_run_is_made_of_demonstrations(demonstration, tmp_path, capsys):
    values = {**SETTINGS, "exploration.validation_episodes": 0}
    words = [x for k, v in values.items() for x in ("--set", f"{k}={v}")]
    words += ["--set", "safety.velocity_limits=[5,5,15,12,25,20,25]"]
    out = tmp_path / "run"
    assert (
        main(["learn", "pusher", "--from", str(demonstration[0]), "--out", str(out), *words]) == 0
    )
    assert "--resume --no-simulator" in capsys.readouterr().out
    run = RunFolder.open(out)
    assert run.finished_episodes() == 1
    assert run.bundle(1).exists()


@pytest.mark.parametrize("recorded", [True, False])
def test_a_goal_is_the_recorded_one_or_drawn(recorded, tmp_path):
    store = foreign_bags.get_typestore(foreign_bags.Stores.ROS2_JAZZY)
    types, goal = store.types, [0.5, -0.3, 0.1]
    with foreign_bags.Writer2(
        tmp_path / "bag", version=9, storage_plugin=foreign_bags.StoragePlugin.MCAP
    ) as writer:
        states = writer.add_connection("/joint_states", JOINT_STATE, typestore=store)
        if recorded:
            goals = writer.add_connection("/arm/goal", POSE, typestore=store)
            header = types["std_msgs/msg/Header"](types["builtin_interfaces/msg/Time"](0, 0), "")
            upright = types["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0)
            place = types["geometry_msgs/msg/Pose"](
                types["geometry_msgs/msg/Point"](*goal), upright
            )
            writer.write(goals, BEGAN, store.serialize_cdr(types[POSE](header, place), POSE))
        for k in range(50):
            at, many = (
                BEGAN + round(k * REACHER.period * 1e9),
                np.full(len(REACHER.joints), 0.01 * k),
            )
            header = types["std_msgs/msg/Header"](
                types["builtin_interfaces/msg/Time"](*divmod(at, 10**9)), ""
            )
            message = types[JOINT_STATE](header, list(REACHER.joints), many, many, many)
            writer.write(states, at, store.serialize_cdr(message, JOINT_STATE))
    ((course,), report) = read_foreign(tmp_path / "bag", REACHER, SETTINGS_OF_A_ROBOT)
    assert ("goals from /arm/goal" if recorded else "goals drawn as for episodes") in report[0]
    if recorded:
        np.testing.assert_allclose(course.states[:, -3:], np.tile(goal, (len(course.states), 1)))
        return
    assert np.isnan(course.states[:, -3:]).all()
    out = tmp_path / "run"
    words = [x for k, v in SETTINGS.items() for x in ("--set", f"{k}={v}")]
    words += ["--set", f"safety.velocity_limits={[5.0] * len(REACHER.joints)}"]
    assert (
        main(["learn", "reacher", "--from", str(tmp_path / "bag"), "--out", str(out), *words]) == 0
    )
    run = RunFolder.open(out)
    goals = read_episode(run.bag(0), REACHER.spec, REACHER.steps, run.config).states[:, -3:]
    assert np.isfinite(goals).all()
    assert (goals == goals[0]).all()
    assert goals[0].any(), "drawn, not the origin"


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"stamps": (True, False)}, "/joint_states has stamps, /camera/object has none"),
        ({"stamps": (False, True)}, "/camera/object has stamps, /joint_states has none"),
    ],
    ids=["of the object", "of the joints"],
)
def test_stamps_that_are_missing_are_named(how, reason, tmp_path):
    demonstrations.record(tmp_path / "bag", **how)
    with pytest.raises(BagError, match=reason):
        read_foreign(tmp_path / "bag", PUSHER, SETTINGS_OF_A_ROBOT)


def test_without_stamps_the_times_of_the_recording_count(tmp_path):
    demonstrations.record(tmp_path / "bag", stamps=(False, False))
    ((course,), report) = read_foreign(tmp_path / "bag", PUSHER, SETTINGS_OF_A_ROBOT)
    assert "no stamps" in report[0]
    assert np.ptp(course.states[:, 14]) > 0.1


def test_an_object_that_nobody_recorded_is_named(tmp_path):
    foreign_bags.record(tmp_path / "bag", seconds=1.0)
    robot = PUSHER.model_copy(update={"topics": {"object_pose": "/camera/cup"}})
    assert sources(robot.spec).object
    with pytest.raises(BagError, match=r"which topic is object_pose\? geometry_msgs.*: none;"):
        read_foreign(tmp_path / "bag", robot, SETTINGS_OF_A_ROBOT)
