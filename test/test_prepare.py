"""From a command line to a run's folder: every wrong wish gets one line that names it."""

import os
import shutil

import pytest
from fabricated_run import fabricate_run
from own_robots import PENDULUM, write

from hucrl_ros.cli import main
from hucrl_ros.config.files import dump_config, override
from hucrl_ros.config.schema import Config
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run import folder
from hucrl_ros.run.asked import RunOptions, asked_config, parse_setting
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import prepare_run, taught_run


def refused(error, options, *named):
    with pytest.raises(error) as caught:
        prepare_run(options)
    message = str(caught.value)
    assert "\n" not in message
    for text in named:
        assert text in message


def test_a_new_run_stores_the_files_settings_with_the_overrides(tmp_path):
    options = RunOptions(
        "pendulum", overrides={"seed": 7, "planner.horizon": 11}, out=tmp_path / "run"
    )
    config = prepare_run(options).config
    assert (config.seed, config.planner.horizon) == (7, 11)
    assert config.planner.particles == asked_config(RunOptions("pendulum")).planner.particles


def test_a_second_task_has_safety_and_driver_of_its_robots_file(tmp_path):
    def settings(**groups):
        return {"/**": {"ros__parameters": groups}}

    guarded = settings(
        safety={"velocity_limits": [5.0], "effort_rate": 0.2},
        driver={"velocity": "derived"},
        seed=9,
    )
    first = write(tmp_path, {**PENDULUM, **guarded}, "first.yaml")
    (tmp_path / "tasks").mkdir()
    second = {"robot": "../first.yaml", "task": {"name": "two"}, "reward": PENDULUM["reward"]}
    mine = write(tmp_path / "tasks", second)

    found = asked_config(RunOptions(str(mine)))
    assert (found.safety, found.driver) == tuple(
        getattr(asked_config(RunOptions(str(first))), group) for group in ("safety", "driver")
    )
    assert (found.safety.velocity_limits, found.driver.velocity) == ((5.0,), "derived")
    assert (found.task, found.seed) == ("two", 0), "the rest is a task's own"

    # What the second says itself goes before; a run keeps it.
    write(tmp_path / "tasks", {**second, **settings(safety={"velocity_limits": [4.0]}, seed=3)})
    found = asked_config(RunOptions(str(mine)))
    assert (found.safety.velocity_limits, found.safety.effort_rate) == ((4.0,), 0.2)
    assert (found.driver.velocity, found.seed) == ("derived", 3)
    again = RunOptions(str(mine), out=tmp_path / "run", resume=True)
    prepare_run(RunOptions(str(mine), out=tmp_path / "run"))
    assert prepare_run(again).config.safety == found.safety

    looser = settings(safety={"velocity_limits": [5.0], "effort_rate": 0.5})
    write(tmp_path, {**PENDULUM, **looser}, "first.yaml")
    refused(ConfigError, again, "mine.yaml: safety.effort_rate = 0.5", "has 0.2")
    write(tmp_path, {**PENDULUM, **settings(safety={"effort_rte": 0.5})}, "first.yaml")
    refused(ConfigError, RunOptions(str(mine)), "first.yaml: unknown key 'safety.effort_rte'")


def test_unnamed_runs_of_the_same_second_get_different_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    roots = {prepare_run(RunOptions("pendulum")).root for _ in range(5)}
    assert len(roots) == 5
    assert all(root.name.startswith("pendulum-optimistic-20") for root in roots)
    assert all(root.parent == tmp_path / "runs" for root in roots)


def test_a_folder_with_a_run_is_not_used_for_a_new_one(tmp_path):
    prepare_run(RunOptions("pendulum", out=tmp_path / "run"))
    refused(RunError, RunOptions("pendulum", out=tmp_path / "run"), "--resume", "run")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("safety.effort_limits", [1.0, 2.0], "2 numbers, expected 1 (one an actuated joint)"),
        ("safety.velocity_limits", [15.0, 3.0], "2 numbers, expected 1 (one a joint)"),
        ("safety.position_limits", [1.0], "1 numbers, expected 2 (two a joint)"),
    ],
)
def test_limits_of_another_robot_are_refused_before_there_is_a_run(key, value, expected, tmp_path):
    options = RunOptions("pendulum", overrides={key: value}, out=tmp_path / "run")
    refused(ConfigError, options, f"{key} = {value}", expected)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    refused(RunError, RunOptions("pendulum", out=tmp_path / "file" / "run"), "file", "can't make")


def test_a_run_is_continued_with_its_own_settings(tmp_path):
    prepare_run(RunOptions("pendulum", overrides={"seed": 7}, out=tmp_path / "run"))
    run = prepare_run(RunOptions("pendulum", out=tmp_path / "run", resume=True))
    assert run.config.seed == 7


def test_a_continued_run_accepts_the_settings_that_it_has(tmp_path):
    overrides = {"seed": 7, "planner.noise": 0.5}
    prepare_run(RunOptions("pendulum", overrides=overrides, out=tmp_path / "run"))
    prepare_run(RunOptions("pendulum", overrides=overrides, out=tmp_path / "run", resume=True))


@pytest.mark.parametrize(
    ("key", "value"),
    [("seed", 8), ("planner.horizon", 3), ("episodes", 1), ("mode", "real_time")],
)
def test_a_continued_run_refuses_a_changed_setting_by_name(tmp_path, key, value):
    prepare_run(RunOptions("pendulum", out=tmp_path / "run"))
    options = RunOptions("pendulum", overrides={key: value}, out=tmp_path / "run", resume=True)
    refused(ConfigError, options, f"{key} = {value!r}", "keeps its settings")


def test_a_continued_run_may_get_more_episodes(tmp_path):
    before = prepare_run(RunOptions("pendulum", out=tmp_path / "run")).config

    def ask(**overrides):
        overrides = {"episodes": before.episodes + 4, **overrides}
        return RunOptions("pendulum", overrides=overrides, out=tmp_path / "run", resume=True)

    refused(ConfigError, ask(seed=8), "seed = 8", "keeps its settings")
    run = RunFolder.open(tmp_path / "run")
    assert run.config == before
    with run.locked():
        refused(RunError, ask(), "is playing this run")
    assert run.config == before
    assert prepare_run(ask()).config.episodes == before.episodes + 4
    assert run.config == before.model_copy(update={"episodes": before.episodes + 4})


def test_a_continued_run_refuses_a_changed_file_by_the_keys_name(tmp_path):
    prepare_run(RunOptions("pendulum", out=tmp_path / "run"))
    stored = prepare_run(RunOptions("pendulum", out=tmp_path / "run", resume=True)).config
    other = tmp_path / "other.yaml"
    other.write_text(dump_config(stored.model_copy(update={"seed": 99})))
    options = RunOptions("pendulum", config=other, out=tmp_path / "run", resume=True)
    refused(ConfigError, options, "seed = 99", "has 0")


def test_resuming_needs_a_folder_with_a_run(tmp_path):
    refused(ConfigError, RunOptions("pendulum", resume=True), "--out DIR --resume")
    refused(RunError, RunOptions("pendulum", out=tmp_path / "no", resume=True), "no config.yaml")


def test_an_unknown_task_is_named_with_the_known_ones(tmp_path):
    refused(ConfigError, RunOptions("pendlum", out=tmp_path / "run"), "'pendlum'", "pendulum")


def test_a_file_of_another_task_is_refused(tmp_path):
    path = tmp_path / "other.yaml"
    path.write_text(dump_config(Config(task="cartpole")))
    options = RunOptions("pendulum", config=path, out=tmp_path / "run")
    refused(ConfigError, options, str(path), "'cartpole'", "'pendulum'")


def test_an_unknown_key_in_a_file_is_named_with_the_nearest_known_one(tmp_path):
    path = tmp_path / "typo.yaml"
    path.write_text("/**:\n  ros__parameters:\n    planner: {partikles: 3}\n")
    options = RunOptions("pendulum", config=path, out=tmp_path / "run")
    refused(ConfigError, options, str(path), "'planner.partikles'", "did you mean 'particles'")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"episodes": 0}, "episodes = 0"),
        ({"planner.partikles": 3}, "did you mean 'particles'"),
        ({"planer.particles": 3}, "unknown key 'planer'; did you mean 'planner'"),
        ({"seed.x": 3}, "seed = {'x': 3}"),
        ({"planner.horizon.x": 3}, "planner.horizon = {'x': 3}"),
        ({"planner": 3}, "planner = 3"),
        ({"mode": "fast"}, "'lockstep' or 'real_time'"),
    ],
)
def test_a_wrong_override_is_named_with_its_origin(tmp_path, overrides, named):
    options = RunOptions("pendulum", overrides=overrides, out=tmp_path / "run")
    refused(ConfigError, options, named, "command line")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("planner.horizon=30", ("planner.horizon", 30)),
        ("model.layers=[32, 32]", ("model.layers", [32, 32])),
        ("model.bootstrap=false", ("model.bootstrap", False)),
        ("strategy=greedy", ("strategy", "greedy")),
    ],
)
def test_a_setting_is_a_key_and_a_yaml_value(text, setting):
    assert parse_setting(text) == setting


@pytest.mark.parametrize("text", ["seed", "=3", "", "seed=[1"])
def test_what_is_no_setting_is_refused_by_name(text):
    with pytest.raises(ConfigError) as caught:
        parse_setting(text)
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("command", ["up", "train"])
def test_nothing_is_made_of_a_run_that_is_refused(command, tmp_path, capsys):
    out = tmp_path / "run"
    words = [command, "cartpole", "--set", "planner.algorithm=exact", "--out", str(out)]
    assert main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()


def test_a_run_tells_who_plays_it_and_where(tmp_path):
    run = prepare_run(RunOptions("pendulum", out=tmp_path / "run"))
    assert run.player is None
    with run.locked(domain=7):
        assert run.player == (os.getpid(), 7)
    assert run.player is None
    with run.locked():
        assert run.player == (os.getpid(), None)
    run.lock.write_text("no number\n")
    assert run.player is None


def test_only_a_process_that_has_the_lock_open_plays_a_run(tmp_path, monkeypatch):
    run = prepare_run(RunOptions("pendulum", out=tmp_path / "run"))
    assert not run.played_in(7)
    stranger = RunFolder(tmp_path / "stranger")
    stranger.root.mkdir()
    with run.locked(domain=7):
        assert run.played_in(7) and not run.played_in(8)
        stranger.lock.write_text(run.lock.read_text())
        assert stranger.player == run.player
        assert not stranger.played_in(7), "it only says so"
        stranger.lock.unlink()
        stranger.lock.symlink_to(run.lock)
        assert not stranger.played_in(7)
        stranger.lock.unlink()
        os.mkfifo(stranger.lock)
        assert not stranger.played_in(7)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert run.played_in(7) == (os.getuid() == 0), "root is trusted"
    assert not run.played_in(7)
    assert not RunFolder(tmp_path / "\0").played_in(7)


@pytest.mark.parametrize("source", [True, False])
def test_what_is_left_of_a_run_that_was_never_made_is_taken_for_no_other(
    source, tmp_path, monkeypatch
):
    def full(*_):
        raise OSError(28, "No space left on device")

    long = fabricate_run(tmp_path / "long", noises=(0.4, 0.2, 0.0), steps=30)
    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(folder, "write_atomically", full)
        with pytest.raises(RunError, match="No space left"):
            if source:
                prepare_run(RunOptions("pendulum", out=out, source=long.root))
            else:
                taught_run(long, RunOptions("pendulum", out=out))
    assert not any((out / "episodes").glob("*")) and not (out / "prior").exists()
    RunFolder(out).bag(0).mkdir(parents=True)  # as after a kill
    for again in (
        lambda: taught_run(long, RunOptions("pendulum", out=out)),
        lambda: prepare_run(RunOptions("pendulum", out=out)),
    ):
        with pytest.raises(RunError, match="what is left of a run \\("):
            again()
    shutil.rmtree(out)
    assert taught_run(long, RunOptions("pendulum", out=out)).finished_episodes() == 4


def test_teaching_another_task_reads_the_bags_as_their_run_did(tmp_path):
    config = {"mode": "real_time", "control": {"extra_delay": 0.01}}
    driver = {"effort": "ignored", "velocity": "derived", "velocity_window": 0.03}
    run = fabricate_run(tmp_path / "run", noises=(0.4,), steps=30)
    stored = override(run.config, {**config, "driver": driver})
    run.config_path.write_text(dump_config(stored))
    given = {"driver.effort": "applied"}
    taught = taught_run(run, RunOptions("pendulum", out=tmp_path / "taught", overrides=given))
    assert taught.config.driver == stored.driver and taught.config.mode == "real_time"
    assert taught.config.control.extra_delay == 0.01
