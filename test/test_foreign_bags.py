"""What somebody else recorded of a robot is read for what it is, or refused in one line."""

import re
from copy import deepcopy
from dataclasses import replace

import bag_messages
import foreign_bags
import numpy as np
import pytest
from bag_messages import (
    ACTIVE,
    COMMANDS,
    JOINT_STATES,
    TICKS,
    TOPICS,
    boolean,
    floats,
    joint_state,
    tick,
)
from foreign_bags import BEGAN, EFFORTS, JOINT_STATE, motion, record
from interfaces import task_with
from mcap.writer import Writer
from quick_run import SETTINGS

from hucrl_ros.bags.contents import read_contents
from hucrl_ros.bags.course import IN_FORCE
from hucrl_ros.bags.foreign import read_foreign
from hucrl_ros.bags.foreign_topics import find_messages
from hucrl_ros.bags.messages import string
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.bags.writer import EpisodeWriter
from hucrl_ros.cli import main
from hucrl_ros.config.schema import Config, ControlSettings, DriverSettings
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.controller.topics import SETUP
from hucrl_ros.errors import BagError
from hucrl_ros.learning.from_bags import _record
from hucrl_ros.robots.mujoco_robot import MujocoRobot, Plant
from hucrl_ros.robots.resolve import describe
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.recording import Recording
from hucrl_ros.run.summary import read_summary

ROBOT = describe("pendulum").robot
PERIOD = ROBOT.period
SECONDS = 8.0


def settings(**driver):
    return Config(mode="real_time", driver=DriverSettings(**driver))


def recovered(path, **driver):
    return read_foreign(path, ROBOT, settings(**driver))


def unexplained(courses):
    """Median deviation of the change of speed from that of a pendulum under the actions."""
    found = []
    for course in courses:
        angle, speed = course.states[:-1].T
        for _ in range(50):
            pull = 9.81 / 0.5 * np.sin(angle) + (course.actions[:, 0] - 0.005 * speed) / 0.075
            speed = speed + PERIOD / 50 * pull
            angle = angle + PERIOD / 50 * speed
        found.append(np.abs(course.states[1:, 1] - speed))
    return float(np.median(np.concatenate(found)))


@pytest.mark.parametrize(
    ("how", "driver", "acted"),
    [
        ({}, {}, ""),
        ({"storage": "sqlite3"}, {}, ""),
        ({"storage": "ros1"}, {}, ""),
        ({"rate": 1000.0}, {}, ""),
        ({"rate": 250.0, "effort": "none"}, {}, IN_FORCE),
        ({"effort": "last"}, {"effort": "ignored"}, IN_FORCE),
        ({"effort": "last", "commands": False}, {"effort": "commanded"}, IN_FORCE),
        ({"drops": 0.1, "duplicates": 0.1, "swaps": 0.1}, {}, ""),
        ({"stamps": False}, {}, ""),
    ],
    ids=lambda value: (
        " ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else ""
    ),
)
def test_what_happened_is_found_whatever_recorded_it(how, driver, acted, tmp_path):
    name = "bag.bag" if how.get("storage") == "ros1" else "bag"
    truth = record(tmp_path / name, seconds=SECONDS, **how)
    courses, report = recovered(tmp_path / name, **driver)
    assert sum(len(course.actions) for course in courses) > 0.95 * SECONDS / PERIOD
    # Where commands take effect with a joint state, what is reported is the same in both senses.
    assert {course.acted for course in courses} == {acted or courses[0].acted}
    assert unexplained(courses) < 4e-3
    first = courses[0]
    at = np.round((first.stamps_ns - BEGAN) / 1e6).astype(int)
    if how.get("stamps", True):
        np.testing.assert_allclose(first.states[:, 0], truth[at, 0], atol=2e-3)
    assert report[0].startswith(f"{tmp_path / name}: joint states from /joint_states")
    assert all("\n" not in line for line in report)


def test_what_a_killed_recorder_of_ros_1_leaves_is_read_under_its_name(tmp_path):
    record(tmp_path / "bag.bag", seconds=1.0, storage="ros1")
    (whole,), _ = recovered(tmp_path / "bag.bag")
    left = (tmp_path / "bag.bag").rename(tmp_path / "bag.bag.active")
    left.write_bytes(left.read_bytes()[:-50])  # in the index, which nobody needs
    (course,), _ = recovered(left)
    np.testing.assert_array_equal(course.states, whole.states)


def test_velocities_that_nobody_measured_are_derived(tmp_path):
    truth = record(tmp_path / "bag", seconds=SECONDS, velocity=False)
    (course,), _ = recovered(tmp_path / "bag", velocity="derived")
    at = np.round((course.stamps_ns - 1_700_000_000 * 10**9) / 1e6).astype(int)
    np.testing.assert_allclose(course.states[:, 1], truth[at, 1], atol=0.1)
    with pytest.raises(BagError, match=r"driver\.velocity = derived"):
        recovered(tmp_path / "bag")


def test_a_gap_parts_what_is_learned_from(tmp_path):
    record(tmp_path / "bag", seconds=SECONDS, gap=(2.0, 3.5))
    courses, report = recovered(tmp_path / "bag")
    assert [len(course.actions) for course in courses] == [158, 359]
    assert "in 2 stretches" in report[-1]
    assert unexplained(courses) < 1e-3


def test_without_efforts_and_commands_there_is_nothing_to_learn_from(tmp_path):
    record(tmp_path / "bag", seconds=1.0, effort="none", commands=False)
    with pytest.raises(BagError, match="nobody knows what acted"):
        recovered(tmp_path / "bag")
    record(tmp_path / "reported", seconds=1.0, commands=False)
    with pytest.raises(BagError, match="nobody knows what acted"):
        recovered(tmp_path / "reported", effort="ignored")


@pytest.mark.parametrize("effort", ["none", "last"])
def test_what_a_teleoperated_robot_did_before_the_first_recorded_command_is_left_out(
    effort, tmp_path
):
    record(tmp_path / "bag", seconds=SECONDS, effort=effort, heard_from=2.0)
    courses, report = recovered(tmp_path / "bag")
    assert sum(len(course.actions) for course in courses) == pytest.approx(6.0 / PERIOD, abs=3)
    assert unexplained(courses) < 0.01
    assert "before the first command" in report[-1]


def test_a_run_is_no_bag_and_the_message_says_what_takes_it(tmp_path):
    run = RunFolder.create(tmp_path / "run", settings())
    with pytest.raises(BagError, match=r"a run, not a bag; `hucrl up TASK --from RUN`"):
        recovered(run.root)


def test_too_low_a_rate_and_what_is_no_bag_are_refused_in_one_line(tmp_path):
    record(tmp_path / "slow", seconds=SECONDS, rate=20.0)
    (tmp_path / "text.bag").write_text("no bag")
    (tmp_path / "empty").mkdir()
    for name, line in (
        ("slow", "joint states come at 20.0 Hz, commands would go at 80 Hz"),
        ("text.bag", "text.bag"),
        ("empty", "empty"),
        ("nowhere", "nowhere: no bag lies there"),
    ):
        with pytest.raises(BagError, match=line) as refused:
            recovered(tmp_path / name)
        assert "\n" not in str(refused.value)


def test_of_several_topics_the_description_names_one(tmp_path):
    record(tmp_path / "bag", seconds=1.0)
    other = ROBOT.model_copy(update={"topics": {"joint_states": "/arm/joint_states"}})
    assert len(read_foreign(tmp_path / "bag", other, settings()).courses) == 1, "the only one"


def test_a_run_is_made_of_bags_and_can_go_on(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record(tmp_path / "one", seconds=7.0)
    record(tmp_path / "two", seed=1, seconds=SECONDS, gap=(3.0, 4.0))
    values = {**SETTINGS, "exploration.validation_episodes": 0}
    values["safety.velocity_limits"] = "[15.0]"
    words = [x for k, v in values.items() for x in ("--set", f"{k}={v}")]
    assert main(["learn", "pendulum", "--from", "one", "two", "--out", "run", *words]) == 0
    shown = capsys.readouterr().out
    run = RunFolder.open(tmp_path / "run")
    count = run.finished_episodes()
    assert count == 3
    assert read_manifest(run.bundle(count)).random is False
    assert [read_manifest(run.bundle(k)).episode for k in range(count)] == [0, 1, 2]
    assert "one: joint states from /joint_states, commands from /arm_controller/commands" in shown
    assert f"hucrl up pendulum --out run --resume --no-simulator --episodes {count + 5}" in shown
    assert run.on_robot.exists()
    assert run.config.safety.filter, "a robot will play its bundles"
    episodes = [read_episode(run.bag(k), ROBOT.spec, ROBOT.steps, run.config) for k in range(3)]
    courses, _ = recovered(tmp_path / "one")
    np.testing.assert_allclose(episodes[0].states, courses[0].states[: ROBOT.steps + 1])
    np.testing.assert_allclose(episodes[0].actions, courses[0].actions[: ROBOT.steps])
    kept = sum(int(episode.contiguous.sum()) for episode in episodes)
    assert kept == pytest.approx(15.0 / PERIOD - 80, abs=6)
    assert [e.return_ for e in read_summary(run.summary).episodes] != []
    assert main(["learn", "pendulum", "--from", "one", "--out", "run", *words]) == 1
    assert "a run lies there already" in capsys.readouterr().err


def test_a_run_that_a_robot_will_play_needs_limits_before_it_is_made(tmp_path, capsys):
    record(tmp_path / "bag", seconds=1.0)
    words = ["--from", str(tmp_path / "bag"), "--out", str(tmp_path / "run")]
    assert main(["learn", "pendulum", *words]) == 2
    assert "on a robot something has to limit it, and nothing does" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_run_that_could_never_be_played_is_not_learned(tmp_path, capsys):
    record(tmp_path / "bag", seconds=1.0)
    words = ["learn", "pendulum", "--from", str(tmp_path / "bag"), "--out", str(tmp_path / "run")]
    words += ["--set", "safety.velocity_limits=[15.0]"]
    for wrong, line in (
        (["--set", "control.signing_key=nowhere"], "nowhere"),
        (["--set", "driver.reset=home", "--set", "home.time=1.0"], "not at rest"),
        (["--device", "cuda"], "cuda"),
    ):
        assert main([*words, *wrong]) in (1, 2)
        assert line in capsys.readouterr().err
        assert not (tmp_path / "run").exists()


def test_a_bag_that_is_given_twice_is_refused(tmp_path, capsys):
    record(tmp_path / "bag", seconds=1.0)
    bags = ["--from", str(tmp_path / "bag"), str(tmp_path / "bag") + "/"]
    words = ["learn", "pendulum", *bags, "--set", "safety.velocity_limits=[15.0]"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 1
    assert "bag: given 2 times; each bag counts once" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_bags_that_are_not_all_in_make_no_run(tmp_path, capsys, monkeypatch):
    record(tmp_path / "bag", seconds=SECONDS)
    out = tmp_path / "run"
    words = ["learn", "pendulum", "--from", str(tmp_path / "bag"), "--out", str(out)]
    words += ["--set", "safety.velocity_limits=[15.0]"]
    finish, done = Recording.finish, []

    def once(recording):
        if done:
            raise BagError("the disk is full")
        done.append(finish(recording))

    monkeypatch.setattr(Recording, "finish", once)
    assert main(words) == 1
    assert "the disk is full" in capsys.readouterr().err
    assert done and RunFolder(out).finished_episodes() == 0, "or another run would have them"
    assert not RunFolder(out).config_path.exists(), "or it could be resumed"


@pytest.mark.parametrize("rate", [60.0, 66.7, 91.0])
def test_each_transition_takes_one_control_period(rate, tmp_path):
    """docs/hardware.md: "at any rate from the control rate on", which is 80 Hz."""
    record(tmp_path / "bag", seconds=SECONDS, rate=rate)
    if rate < 80.0:
        with pytest.raises(BagError, match="joint states come at "):
            recovered(tmp_path / "bag")
        return
    courses, _ = recovered(tmp_path / "bag")
    gaps = np.concatenate([np.diff(course.stamps_ns) for course in courses])
    assert gaps == pytest.approx(12_500_000, abs=1)


def events_of(**how):
    store = foreign_bags.get_typestore(foreign_bags.Stores.ROS2_JAZZY)
    return motion({**foreign_bags.DEFAULTS, **how}, 0, store)[0]


def write(path, events, others=(), commands="/arm_controller/commands"):
    store = foreign_bags.get_typestore(foreign_bags.Stores.ROS2_JAZZY)
    with foreign_bags.Writer2(
        path, version=9, storage_plugin=foreign_bags.StoragePlugin.MCAP
    ) as writer:
        kinds = {JOINT_STATE: "/joint_states", EFFORTS: commands}
        opened = {
            kind: writer.add_connection(topic, kind, typestore=store)
            for kind, topic in kinds.items()
        }
        more = [writer.add_connection(topic, EFFORTS, typestore=store) for topic in others]
        for at, kind, message in events:
            writer.write(opened[kind], at, store.serialize_cdr(message, kind))
            for each in more if kind == EFFORTS else ():
                writer.write(each, at, store.serialize_cdr(message, kind))


def shifted(message, ns):
    stamp = message.header.stamp
    stamp.sec, stamp.nanosec = divmod(stamp.sec * 10**9 + stamp.nanosec + ns, 10**9)
    return message


def test_a_clock_that_starts_again_mixes_no_two_movements(tmp_path):
    """A simulation that was reset while `ros2 bag record` went on."""
    events = []
    for again in (0, 1):
        for at, kind, message in events_of(seconds=4.0, rate=200.0):
            late = shifted(message, 2_000_000) if again and kind == JOINT_STATE else message
            events.append((at + again * 5 * 10**9, kind, late))
    write(tmp_path / "bag", events)
    courses, _ = recovered(tmp_path / "bag")
    assert sum(len(course.actions) for course in courses) * PERIOD > 7.5
    for course in courses:
        slopes = np.diff(course.states[:, 0]) / PERIOD
        means = 0.5 * (course.states[1:, 1] + course.states[:-1, 1])
        assert np.abs(slopes - means).max() < 2.0


def test_what_comes_after_a_pause_is_learned_from_too(tmp_path):
    record(tmp_path / "bag", seconds=30.0, gap=(5.0, 20.0), rate=100.0)
    courses, report = recovered(tmp_path / "bag")
    assert sum(len(c.actions) for c in courses) * PERIOD > 14.0, report


def test_commands_that_a_driver_repeats_are_seen_in_each_part_of_a_bag(tmp_path):
    """Most commands lie outside of a part, and nothing can repeat them there."""
    record(tmp_path / "bag", seconds=12.0, gap=(5.0, 8.0), rate=100.0, effort="last")
    courses, _ = recovered(tmp_path / "bag")
    assert [course.acted for course in courses] == [IN_FORCE] * 2
    assert unexplained(courses) < 1.5e-3


def test_one_odd_stamp_does_not_spoil_a_bag(tmp_path):
    events = events_of(seconds=SECONDS)
    first = next(k for k, event in enumerate(events) if event[1] == JOINT_STATE)
    at, kind, message = events[first]
    events[first] = at, kind, shifted(message, -1_600_000_000 * 10**9)  # a driver that just began
    write(tmp_path / "bag", events)
    courses, _ = recovered(tmp_path / "bag")
    assert sum(len(c.actions) for c in courses) * PERIOD > SECONDS - 0.5


def test_efforts_far_beyond_the_limits_are_worth_a_word(tmp_path):
    events = events_of(seconds=SECONDS)
    for _, kind, message in events:
        if kind == JOINT_STATE:
            message.effort[:] *= 1000.0  # in mN m
    write(tmp_path / "bag", [event for event in events if event[1] == JOINT_STATE])
    _, report = recovered(tmp_path / "bag")
    assert any("whose limit is" in line for line in report)


def test_the_velocity_of_a_further_joint_is_kept(tmp_path):
    robot = describe("half_cheetah").robot
    store = foreign_bags.get_typestore(foreign_bags.Stores.ROS2_JAZZY)
    names, kinds = [*robot.joints, "rootx"], store.types
    with foreign_bags.Writer2(
        tmp_path / "bag", version=9, storage_plugin=foreign_bags.StoragePlugin.MCAP
    ) as writer:
        opened = writer.add_connection("/joint_states", JOINT_STATE, typestore=store)
        for k in range(50):
            ns, many = BEGAN + round(k * robot.period * 1e9), np.full(len(names), 0.01 * k)
            time = kinds["builtin_interfaces/msg/Time"](*divmod(ns, 10**9))
            header = kinds["std_msgs/msg/Header"](time, "")
            message = kinds[JOINT_STATE](header, names, many, many, many)
            writer.write(opened, ns, store.serialize_cdr(message, JOINT_STATE))
    ((course,), _) = read_foreign(tmp_path / "bag", robot, Config(mode="real_time"))
    run = RunFolder.create(tmp_path / "run", Config(task="half_cheetah"))
    _record(run, robot.spec, [course])
    episode = read_episode(run.bag(0), robot.spec, robot.steps, run.config)
    np.testing.assert_allclose(episode.states, course.states, atol=1e-12)


@pytest.mark.parametrize("effort", ["auto", "commanded", "ignored"])
@pytest.mark.parametrize("named", ["", "bag.mcap"])
def test_of_our_lockstep_the_clock_of_the_recording_tells_nothing(effort, named, tmp_path):
    """Physics waits for each command, and is much faster than real time between them."""
    writer = EpisodeWriter(tmp_path / "bag", TOPICS, stepped=True)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, 100)
    now = BEGAN

    def add(topic, message, after):
        nonlocal now
        now += round(after * rng.uniform(0.8, 1.2))
        writer.write(f"/{topic}", message, now)

    add(SETUP, string('{"timed": false}'), 0)
    add(ACTIVE, boolean(True), 0)
    for k, action in enumerate([*actions, 0.0]):
        shown = [actions[k - 1] if k else 0.0]
        add(JOINT_STATES, joint_state(round((10 + k) * PERIOD * 1e9), [k], [-k], shown), 2e6)
        add(COMMANDS, floats([action]), 2e6)
    writer.close()
    config = Config(
        mode="real_time",
        driver=DriverSettings(effort=effort),
        control=ControlSettings(extra_delay=0.01),
    )
    ((course,), _) = read_foreign(tmp_path / "bag" / named, ROBOT, config)
    np.testing.assert_allclose(course.actions[:, 0], actions, atol=1e-6)
    np.testing.assert_allclose(course.states[:, 0], np.arange(101), atol=1e-6)


@pytest.mark.parametrize("command", ["velocity", "position"])
@pytest.mark.parametrize("behind", ["nothing", JOINT_STATES, COMMANDS])
@pytest.mark.parametrize("when", [range(12), range(20, 40)], ids=["begin", "middle"])
def test_in_our_lockstep_a_command_acts_from_the_joint_state_that_it_answers(
    command, behind, when, tmp_path
):
    """A busy recorder hears them in another order."""
    described = task_with(tmp_path, command).described
    spec, plant = described.robot.spec, Plant(MujocoRobot(described), 0)
    rng, events = np.random.default_rng(0), []

    def tell(topic, message, moment):
        events.append((moment + 1.0 * (topic == behind and int(moment) in when), topic, message))

    def tell_state(moment):
        sample = plant.sample()
        told = sample.positions, sample.velocities
        message = joint_state(sample.stamp_ns, *told, sample.efforts, plant.joints)
        tell(JOINT_STATES, message, moment)

    tell(SETUP, string('{"timed": false}'), -2.0)
    tell_state(-1.5)
    plant.reset(0)
    for k in range(61):
        tell_state(k)
        action = rng.uniform(-1, 1, spec.action_dim) * spec.effort_limits
        sent = spec.to_command(action, plant.robot.state)
        tell(COMMANDS, floats(sent), k + 0.1)
        if k < 60:  # The last one is the safe command of who leaves.
            tell(TICKS, tick(plant.stamp_ns, k, action), k + 0.2)
        plant.command(sent)
        plant.period()
    tell_state(61)
    recording = bag_messages.Recording(tmp_path / "bag")
    for _, topic, message in sorted(events, key=lambda event: event[0]):
        recording.add(topic, message)
    recording.writer.close()
    own = read_episode(tmp_path / "bag", spec, 60, Config(mode="lockstep"))
    ((course,), _) = read_foreign(tmp_path / "bag", described.robot, Config(mode="real_time"))
    np.testing.assert_allclose(course.states, own.states, atol=1e-9)
    np.testing.assert_allclose(course.actions, own.actions, atol=1e-9)


@pytest.mark.parametrize("value", [[], [np.nan]])
def test_a_few_joint_states_without_efforts_spoil_none_of_the_others(value, tmp_path):
    """A driver tells NaN until it has read the hardware, or where a reading failed."""
    events = events_of(seconds=SECONDS, commands=False)
    write(tmp_path / "whole", events)
    whole, _ = recovered(tmp_path / "whole")
    for k in (0, 1, 2, 700):
        events[k][2].effort = np.array(value)
    write(tmp_path / "bag", events)
    courses, report = recovered(tmp_path / "bag")
    assert "left out: 3 joint states tell no efforts" in report[2]
    assert unexplained(courses) < 2e-3
    lost = [sum(len(course.actions) for course in each) for each in (whole, courses)]
    assert lost[1] >= lost[0] - 3
    for _, _, message in events[:200]:
        message.effort = np.array(value)
    write(tmp_path / "silent", events)
    with pytest.raises(BagError, match="joint states report no efforts"):
        recovered(tmp_path / "silent")


@pytest.mark.parametrize("delay", [0.0, 0.01])
def test_efforts_that_are_commands_act_after_the_dead_time_and_the_first_may_be_missing(
    delay, tmp_path
):
    """As `joint_state_broadcaster` shows them: when they come."""
    events = events_of(seconds=SECONDS, effort="last", commands=False)
    told = [message.effort for _, _, message in events]
    for k, (_, _, message) in enumerate(events):
        message.effort = told[min(k + round(delay * 500.0), len(told) - 1)]
    events[0][2].effort = np.array([])
    write(tmp_path / "bag", events)
    config = settings(effort="commanded")
    config = config.model_copy(update={"control": ControlSettings(extra_delay=delay)})
    courses, _ = read_foreign(tmp_path / "bag", ROBOT, config)
    assert unexplained(courses) < 1e-3


@pytest.mark.parametrize("late", [0, 50_000_000, BEGAN])
def test_other_joints_on_the_same_topic_take_no_moment_from_the_robots(late, tmp_path):
    """Two broadcasters of one `controller_manager` put the same stamps, another driver others."""
    events = events_of(seconds=SECONDS)
    write(tmp_path / "alone", events)
    alone, _ = recovered(tmp_path / "alone")
    gripper = [
        (at - 1000, kind, shifted(replace(deepcopy(message), name=["gripper"]), -late))
        for at, kind, message in events
        if kind == JOINT_STATE
    ]
    write(tmp_path / "bag", sorted([*gripper, *events], key=lambda event: event[0]))
    courses, _ = recovered(tmp_path / "bag")
    np.testing.assert_array_equal(courses[0].states, alone[0].states)


def test_velocities_that_nobody_measured_though_they_are_told_are_worth_a_word(tmp_path):
    events = events_of(seconds=SECONDS)
    write(tmp_path / "well", events)
    assert not any("! velocities" in line for line in recovered(tmp_path / "well")[1])
    for _, kind, message in events:
        if kind == JOINT_STATE:
            message.velocity[:] = 0.0
    write(tmp_path / "bag", events)
    _, report = recovered(tmp_path / "bag")
    assert report[-1].startswith(f"{tmp_path / 'bag'}: ! velocities of joint 'pendulum_joint'")
    assert "! velocities" not in recovered(tmp_path / "bag", velocity="derived")[1][-1]


@pytest.mark.parametrize("topic", ["/arm_controller/commands", "/ns/controller/commands"])
def test_no_other_topic_stands_in_for_the_one_that_is_named(topic, tmp_path):
    write(tmp_path / "bag", events_of(seconds=1.0), commands=topic)
    elsewhere = ROBOT.model_copy(update={"topics": {"commands": "/effort_controller/commands"}})
    used = find_messages(tmp_path / "bag", elsewhere).used
    if topic.startswith("/ns"):
        assert f"commands from {topic}" in used, "a bag of ours"
    else:
        assert "! no commands, as the bag has none on /effort_controller/commands" in used


@pytest.mark.parametrize("commands", [True, False])
def test_efforts_of_zero_are_worth_a_word_where_no_command_tells_better(commands, tmp_path):
    events = events_of(seconds=SECONDS, commands=commands)
    for _, kind, message in events:
        if kind == JOINT_STATE:
            message.effort[:] = 0.0
    write(tmp_path / "bag", events)
    courses, report = recovered(tmp_path / "bag")
    assert any("! efforts of joint 'pendulum_joint' are 0" in line for line in report) != commands
    assert courses[0].actions.any() == commands


def test_channels_of_other_encodings_without_a_schema_are_passed_by(tmp_path):
    """Recorders for Foxglove write JSON beside ROS's messages."""
    write(tmp_path / "bag", events_of(seconds=1.0))
    with (tmp_path / "other.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start()
        other = writer.register_channel("/state", "json", 0)
        channels = {
            kind: writer.register_channel(topic, "cdr", writer.register_schema(kind, "", b""))
            for kind, topic in ((JOINT_STATE, "/joint_states"), (EFFORTS, "/commands"))
        }
        for each in read_contents(tmp_path / "bag").messages:
            writer.add_message(other, each.received_ns, b"{}", each.received_ns)
            writer.add_message(channels[each.type], each.received_ns, each.data, each.received_ns)
        writer.finish()
    (alone,), _ = recovered(tmp_path / "bag")
    (course,), _ = recovered(tmp_path / "other.mcap")
    np.testing.assert_array_equal(course.actions, alone.actions)


@pytest.mark.parametrize("effort", ["last", "none"])
def test_where_two_topics_may_hold_the_commands_one_is_asked_for(effort, tmp_path):
    events = events_of(seconds=1.0, effort=effort)
    write(tmp_path / "bag", events, others=["/gripper_controller/commands"])
    asked = r"name it in the description: topics: \{commands: /NAME\}"
    if effort == "none":
        with pytest.raises(BagError, match=asked):
            recovered(tmp_path / "bag")
    else:
        _, report = recovered(tmp_path / "bag")
        assert re.search(asked, report[0]) and "/arm_controller/commands or /grip" in report[0]
    named = ROBOT.model_copy(update={"topics": {"commands": "/arm_controller/commands"}})
    (course,), _ = read_foreign(tmp_path / "bag", named, settings())
    assert course.acted == IN_FORCE
