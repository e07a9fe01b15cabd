"""Who hears of a simulator that behaves like hardware, and how it is asked for."""

import ast
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import yaml
from own_robots import EXAMPLES
from tiny_learning import STEPS, short_episodes, tiny_config  # noqa: F401

import hucrl_ros
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.cli import main
from hucrl_ros.config.files import (
    dotted,
    dump_config,
    load_config,
    override,
    share_directory,
    task_config_files,
)
from hucrl_ros.config.schema import BodySettings, Config, SimulatorSettings
from hucrl_ros.config.stand_in import like_hardware
from hucrl_ros.controller.manifest import Manifest
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.train import play_episode, train
from hucrl_ros.learning.learner import Learner
from hucrl_ros.robots import MujocoRobot, describe
from hucrl_ros.run.asked import RunOptions, asked_config
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import prepare_run
from hucrl_ros.tasks import make_task

FURUTA = str(EXAMPLES / "furuta" / "furuta.yaml")
FILE = share_directory() / "config" / "like_hardware.yaml"
OVERLAY = dotted(like_hardware())
HEAVY = {"mass_error": 0.5, "motor_error": -0.3, "friction": 0.05}
READERS = {
    "nodes/simulator.py",
    "experiments/environments.py",
    "experiments/train.py",
    "run/asked.py",
    "run/resumed.py",
}
"""Who looks at the settings `simulator` and `body`, to make one or to know how a run began."""


def flat(config):
    return dotted(config.model_dump(mode="json"))


# Who reads it


def test_only_what_makes_a_simulator_reads_its_settings():
    root = Path(hucrl_ros.__file__).parent
    readers = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("simulator", "body"):
                whose = ast.unparse(node.value)
                if whose.endswith("config") or node.attr == "simulator":
                    readers.add(str(path.relative_to(root)))
    assert readers == READERS


def test_a_manifest_has_no_place_for_them():
    assert not Manifest.model_fields.keys() & {"simulator", "body"}


def test_a_bundle_is_the_same_whatever_the_simulator_was(tmp_path, short_episodes):  # noqa: F811
    bundles = []
    source = RunFolder.create(tmp_path / "source", tiny_config())
    Learner(source.config, source).export_initial()
    bag = play_episode(make_task("pendulum", 0.2), source.config, source)
    for name, changes in (
        ("clean", {}),
        ("dirty", {"body": HEAVY, "simulator": {"rate": 500, "dead_time": 0.01}}),
    ):
        run = RunFolder.create(tmp_path / name, tiny_config(**changes))
        run.bag(0).parent.mkdir(exist_ok=True)
        run.bag(0).symlink_to(bag)
        learner = Learner(run.config, run)
        learner.export_initial()
        learner.learn(lambda phase, share: None)
        bundles.append([run.bundle(index) for index in range(2)])
    for clean, dirty in zip(*bundles, strict=True):
        names = {path.name for path in clean.iterdir()}
        assert names == {path.name for path in dirty.iterdir()}
        for name in names - {"manifest.yaml"}:
            assert (clean / name).read_bytes() == (dirty / name).read_bytes(), name
        manifests = [(folder / "manifest.yaml").read_text() for folder in (clean, dirty)]
        assert not any("mass_error" in text or "dead_time" in text for text in manifests)


# In one process


def test_training_moves_the_body_that_was_asked_for(tmp_path, short_episodes):  # noqa: F811
    run = RunFolder.create(tmp_path / "run", tiny_config(body=HEAVY))
    train(run.config, run)
    task = make_task("pendulum", 0.2)
    apart = []
    for body in (BodySettings(**HEAVY), BodySettings()):
        played, robot = read_episode(run.bag(0), task.spec, STEPS), task.robot(body=body)
        robot.reset(np.random.default_rng([run.config.seed, 0]))
        states = [robot.step(action) for action in played.actions]
        apart.append(np.abs(np.array(states) - played.states[1:]).max())
    assert apart[0] == 0.0
    assert apart[1] > 0.01


def test_training_refuses_what_only_real_time_can(tmp_path):
    config = Config(mode="real_time", simulator=SimulatorSettings(drops=0.1))
    run = RunFolder.create(tmp_path / "run", config)
    with pytest.raises(ConfigError, match=r"run: simulator\.drops = 0\.1: in real time only"):
        train(config, run)


# How it is asked for


def test_the_file_is_of_no_task_and_changes_all_that_there_is():
    assert "like_hardware" not in task_config_files()
    config = load_config(FILE)
    for ideal, given in ((SimulatorSettings(), config.simulator), (BodySettings(), config.body)):
        same = {name for name, value in ideal if getattr(given, name) == value}
        assert same <= {"drift_time"}
    changed = {key for key, value in flat(config).items() if value != flat(Config())[key]}
    assert changed == OVERLAY.keys() - {"body.drift_time"}
    assert config.control.extra_delay == config.simulator.dead_time


@pytest.mark.parametrize("task", ["pendulum", "reacher", FURUTA])
def test_it_lies_between_the_defaults_and_what_a_person_says(task, tmp_path):
    usual = asked_config(RunOptions(task))
    config = asked_config(RunOptions(task, like_hardware=True))
    smooth = {"exploration.random_bandwidth": usual.exploration.random_bandwidth}
    # What a task's own file says of random efforts stays.
    assert flat(config) == {**flat(usual), **OVERLAY, **(smooth if task == "reacher" else {})}
    own = tmp_path / "own.yaml"
    chosen = {
        "task": usual.task,
        "mode": "real_time",
        "seed": 3,
        "simulator": {"rate": 250.0},
        "driver": {"velocity": "measured"},
    }
    own.write_text(yaml.safe_dump({"/**": {"ros__parameters": chosen}}))
    given = {"simulator.drops": 0.5}
    config = asked_config(RunOptions(task, config=own, overrides=given, like_hardware=True))
    expected = {
        **OVERLAY,
        "seed": 3,
        "simulator.rate": 250.0,
        "driver.velocity": "measured",
        "simulator.drops": 0.5,
    }
    found = flat(config)
    assert {key: found[key] for key in expected} == expected


def test_it_can_be_copied_and_named_instead(tmp_path):
    copy = tmp_path / "copy.yaml"
    copy.write_text(FILE.read_text().replace("mode:", "task: cartpole\n    mode:"))
    config = asked_config(RunOptions("cartpole", config=copy))
    assert (config.task, config.mode, config.simulator.rate) == ("cartpole", "real_time", 500.0)


def test_a_run_with_it_goes_on_with_or_without_the_option(tmp_path):
    words = {"simulator.rate": 1000.0, "mode": "real_time"}
    options = RunOptions("pendulum", overrides=words, out=tmp_path / "run", like_hardware=True)
    begun = prepare_run(options).config
    assert begun.simulator.rate == 1000.0
    for again in (
        RunOptions("pendulum", out=tmp_path / "run", resume=True),
        RunOptions("pendulum", None, words, tmp_path / "run", True, like_hardware=True),
    ):
        assert prepare_run(again).config == begun


def test_a_run_without_it_does_not_go_on_with_it(tmp_path):
    prepare_run(RunOptions("pendulum", overrides={"mode": "real_time"}, out=tmp_path / "run"))
    again = RunOptions("pendulum", out=tmp_path / "run", resume=True, like_hardware=True)
    with pytest.raises(ConfigError, match="keeps its settings"):
        prepare_run(again)


@pytest.mark.parametrize("key", [key for key in OVERLAY if key.startswith("simulator.")])
def test_in_lockstep_a_driver_of_its_own_is_refused_by_name(key, tmp_path, capsys):
    value = True if OVERLAY[key] is True else OVERLAY[key]
    words = ["--set", f"{key}={value}".lower()]
    if key == "simulator.encoder_counts":
        words += ["--set", "simulator.velocity=none"]
    assert main(["train", "pendulum", *words, "--out", str(tmp_path / "run")]) == 2
    line = capsys.readouterr().err
    assert key in line and "in real time only" in line
    assert line.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_file_may_say_so_where_the_command_line_says_real_time(tmp_path):
    own = tmp_path / "own.yaml"
    config = override(asked_config(RunOptions("pendulum")), {"mode": "real_time"})
    own.write_text(dump_config(override(config, {"simulator.rate": 500, "mode": "lockstep"})))
    with pytest.raises(ConfigError, match="in real time only"):
        asked_config(RunOptions("pendulum", config=own))
    real = {"mode": "real_time"}
    assert asked_config(RunOptions("pendulum", config=own, overrides=real)).simulator.rate == 500


@pytest.mark.ros
@pytest.mark.parametrize(
    ("other", "reason"),
    [("--no-simulator", "leaves out; choose one"), ("--lockstep", "leave --lockstep out")],
)
def test_it_does_not_go_with_a_robot_or_lockstep(other, reason, tmp_path, capsys):
    words = ["up", "pendulum", "--like-hardware", other, "--out", str(tmp_path / "run")]
    assert main(words) == 2
    line = capsys.readouterr().err
    assert line.startswith("hucrl up: --like-hardware: ") and reason in line
    assert line.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_robots_that_take_velocities_have_the_habits_of_drivers_and_not_of_motors(tmp_path):
    arm = str(share_directory() / "config/examples/ros2_control/six_axis_arm.yaml")
    options = RunOptions(arm, like_hardware=True, overrides={"mode": "real_time"})
    config = asked_config(options)
    MujocoRobot(describe(arm), body=config.body)
    assert config.simulator.rate == 500.0 and config.body.friction == 0.0
    assert config.body.payload > 0.0
    run = prepare_run(dataclasses.replace(options, out=tmp_path / "run"))
    again = dataclasses.replace(options, out=run.root, resume=True)
    assert prepare_run(again).config == run.config
