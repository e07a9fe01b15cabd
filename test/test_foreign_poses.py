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


def write(path, robot, seconds=2.0, goals=(), camera=0.0, clocks=(0,), late=0, **topics):
    """A bag of a robot that rests beside an object that slides by 0.1 m/s.

    Args:
        path: The bag.
        robot: Its description.
        seconds: For each clock [s].
        goals: Recorded when [s], stamp [s], place.
        camera: Rate of the object's poses; 0: none [Hz].
        clocks: Where the stamps begin, one after the other [s].
        late: Of the joint states behind the poses of the same moment [ns].
        topics: Names of those of object and goal.
    """
    store = foreign_bags.get_typestore(foreign_bags.Stores.ROS2_JAZZY)
    types, events = store.types, []

    def header(stamp):
        time = types["builtin_interfaces/msg/Time"](*divmod(round(stamp * 1e9), 10**9))
        return types["std_msgs/msg/Header"](time, "")

    def pose(stamp, place):
        upright = types["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0)
        point = types["geometry_msgs/msg/Point"](*map(float, place))
        return types[POSE](header(stamp), types["geometry_msgs/msg/Pose"](point, upright))

    places = {**{"object": "/camera/object", "goal": "/arm/goal"}, **topics}
    still = np.zeros(len(robot.joints))
    for number, clock in enumerate(clocks):
        began = BEGAN + round(number * 2e9 * seconds)
        for k in range(round(100 * seconds)):
            message = types[JOINT_STATE](
                header(clock + 0.01 * k), list(robot.joints), still, still, still
            )
            events.append((began + 10**7 * k + late, "/joint_states", JOINT_STATE, message))
        for k in range(round(camera * seconds)):
            place = [0.2 + 0.1 * k / camera, 0.1, -0.275]
            at = began + round(1e9 * k / camera)
            events.append((at, places["object"], POSE, pose(clock + k / camera, place)))
    for when, stamp, place in goals:
        events.append((BEGAN + round(1e9 * when) - 1, places["goal"], POSE, pose(stamp, place)))
    with foreign_bags.Writer2(
        path, version=9, storage_plugin=foreign_bags.StoragePlugin.MCAP
    ) as writer:
        opened = {}
        for at, topic, kind, message in sorted(events, key=lambda event: event[0]):
            if topic not in opened:
                opened[topic] = writer.add_connection(topic, kind, typestore=store)
            writer.write(opened[topic], at, store.serialize_cdr(message, kind))


HERE, THERE = [0.5, -0.3, 0.1], [0.2, 0.4, -0.1]


def goals_of(course):
    return np.unique(course.states[:, -3:], axis=0).tolist()


def test_a_recorded_goal_counts_and_changes_at_once(tmp_path):
    write(tmp_path / "bag", REACHER, goals=[(0.0, 0.0, HERE), (1.005, 1.005, THERE)], clocks=(0,))
    ((course,), report) = read_foreign(tmp_path / "bag", REACHER, SETTINGS_OF_A_ROBOT)
    assert "goals from /arm/goal" in report[0]
    assert goals_of(course) == sorted([HERE, THERE]), "and nothing in between"
    run = RunFolder.create(tmp_path / "run", Config(task="reacher"))
    _record(run, REACHER.spec, [course])
    episode = read_episode(run.bag(0), REACHER.spec, REACHER.steps, run.config)
    np.testing.assert_allclose(episode.states, course.states, atol=1e-12)


def test_a_goal_that_nobody_recorded_is_drawn(tmp_path):
    write(tmp_path / "bag", REACHER)
    ((course,), report) = read_foreign(tmp_path / "bag", REACHER, SETTINGS_OF_A_ROBOT)
    assert "goals drawn as for episodes" in report[0]
    assert np.isnan(course.states[:, -3:]).all()
    out = tmp_path / "run"
    words = [x for k, v in SETTINGS.items() for x in ("--set", f"{k}={v}")]
    words += ["--set", f"safety.velocity_limits={[5.0] * len(REACHER.joints)}"]
    assert (
        main(["learn", "reacher", "--from", f"{tmp_path / 'bag'}", "--out", f"{out}", *words]) == 0
    )
    run = RunFolder.open(out)
    goals = read_episode(run.bag(0), REACHER.spec, REACHER.steps, run.config).states[:, -3:]
    assert np.isfinite(goals).all()
    assert (goals == goals[0]).all()
    assert goals[0].any(), "drawn, not the origin"


def test_a_goal_outlives_a_clock_that_starts_again_and_holds_not_before_it_came(tmp_path):
    write(tmp_path / "bag", REACHER, goals=[(0.0, 100.0, HERE)], clocks=(100, 1))
    (first, second), _ = read_foreign(tmp_path / "bag", REACHER, SETTINGS_OF_A_ROBOT)
    assert goals_of(first) == goals_of(second) == [HERE]
    write(tmp_path / "later", REACHER, goals=[(4.5, 0.0, HERE)], clocks=(100, 1))
    (first, second), _ = read_foreign(tmp_path / "later", REACHER, SETTINGS_OF_A_ROBOT)
    assert np.isnan(first.states[:, -3:]).all(), "nobody knows which it was"
    assert goals_of(second) == [HERE]


@pytest.mark.parametrize("late", [100_000, -100_000], ids=["pose first", "joint state first"])
def test_poses_after_a_clock_that_started_again_belong_to_what_follows(late, tmp_path):
    write(tmp_path / "bag", PUSHER, camera=100.0, clocks=(100, 1), late=late)
    courses, report = read_foreign(tmp_path / "bag", PUSHER, SETTINGS_OF_A_ROBOT)
    assert [len(course.actions) for course in courses] == pytest.approx([49, 49], abs=1), report
    for course in courses:
        np.testing.assert_allclose(np.diff(course.states[:, 14]), 0.1 * PUSHER.period, atol=2e-3)


@pytest.mark.parametrize("camera", [30.0, 50.0])
def test_how_fast_an_object_moves_does_not_depend_on_its_camera(camera, tmp_path):
    write(tmp_path / "bag", PUSHER, camera=camera)
    ((course,), _) = read_foreign(tmp_path / "bag", PUSHER, SETTINGS_OF_A_ROBOT)
    run = RunFolder.create(tmp_path / "run", Config(task="pusher"))
    _record(run, PUSHER.spec, [course])
    episode = read_episode(run.bag(0), PUSHER.spec, PUSHER.steps, run.config)
    np.testing.assert_allclose(episode.states[4:, 17], 0.1, atol=1e-6)
    np.testing.assert_allclose(episode.states, course.states, atol=1e-9)


def test_an_object_that_is_seen_too_rarely_is_refused(tmp_path):
    write(tmp_path / "bag", PUSHER, camera=12.5)
    with pytest.raises(BagError, match=r"poses of the object come at 12\.5 Hz, commands .* 25 Hz"):
        read_foreign(tmp_path / "bag", PUSHER, SETTINGS_OF_A_ROBOT)


@pytest.mark.parametrize(
    ("robot", "how", "asked"),
    [
        (PUSHER, {"camera": 50.0, "object": "/goal"}, "object_pose"),
        (REACHER, {"goals": [(0.0, 0.0, HERE)], "camera": 50.0, "object": "/b/goal"}, "goal"),
        (
            REACHER.model_copy(update={"topics": {"goal": "/target"}}),
            {"goals": [(0.0, 0.0, HERE)]},
            "goal",
        ),
    ],
    ids=["a goal is no object", "two goals", "another one is named"],
)
def test_a_topic_that_is_unclear_is_asked_for(robot, how, asked, tmp_path):
    write(tmp_path / "bag", robot, **how)
    with pytest.raises(BagError, match=rf"which topic is {asked}\?"):
        read_foreign(tmp_path / "bag", robot, SETTINGS_OF_A_ROBOT)


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
