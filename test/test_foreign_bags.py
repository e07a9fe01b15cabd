"""What somebody else recorded of a robot is read for what it is, or refused in one line."""

import numpy as np
import pytest
from foreign_bags import BEGAN, record
from quick_run import SETTINGS

from hucrl_ros.bags.course import IN_FORCE
from hucrl_ros.bags.foreign import read_foreign
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.cli import main
from hucrl_ros.config.schema import Config, DriverSettings
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.errors import BagError, ConfigError
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
    assert [len(course.actions) for course in courses] == [159, 359]
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
        ("slow", "no 10 joint states in a row are a control period"),
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


def test_a_robot_with_a_goal_needs_more_than_joint_states(tmp_path):
    with pytest.raises(ConfigError, match="goal_x"):
        read_foreign(tmp_path, describe("reacher").robot, settings())


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
    assert RunFolder(out).finished_episodes() == 1
    assert not RunFolder(out).config_path.exists(), "or it could be resumed"
    assert main(words) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "holds episodes of a run that was never made" in error
