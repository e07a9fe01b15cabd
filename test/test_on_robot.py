"""What a run on a robot needs: limits, and gentle random efforts where nobody chose others."""

import dataclasses

import pytest
import yaml
from fabricated_run import fabricate_run
from own_robots import ARM, PENDULUM, changed, resolved, write

from hucrl_ros.config.schema import Config, SafetySettings
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.robots import describe
from hucrl_ros.run.asked import RunOptions, asked_config
from hucrl_ros.run.on_robot import random_efforts, require_limits
from hucrl_ros.run.prepare import prepare_run

GENTLE = (0.5, 3.0)
SHARE, BANDWIDTH = "exploration.random_share", "exploration.random_bandwidth"


def settings_file(path, task, **exploration):
    values = {"task": task, "exploration": exploration}
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": values}}))
    return path


def random_of(config):
    return config.exploration.random_share, config.exploration.random_bandwidth


def asked(task="pendulum", **words):
    return random_of(asked_config(RunOptions(str(task), **words)))


def test_random_efforts_on_a_robot_are_gentle_where_nobody_chose(tmp_path):
    assert asked(on_robot=True) == GENTLE
    assert asked() == (1.0, 0.0), "in simulation they are as ever"
    assert asked(write(tmp_path, PENDULUM), on_robot=True) == GENTLE


@pytest.mark.parametrize(
    ("key", "value", "expected"), [(SHARE, 1.0, (1.0, 3.0)), (BANDWIDTH, 0.0, (0.5, 0.0))]
)
def test_what_somebody_chose_holds_even_if_it_is_the_usual_default(key, value, expected, tmp_path):
    assert asked(on_robot=True, overrides={key: value}) == expected
    file = settings_file(tmp_path / "own.yaml", "pendulum", **{key.split(".")[1]: value})
    assert asked(on_robot=True, config=file) == expected
    own = {**PENDULUM, **yaml.safe_load(file.read_text())}
    own["/**"]["ros__parameters"].pop("task")
    assert asked(write(tmp_path / "robot", own), on_robot=True) == expected


@pytest.mark.parametrize("with_file", [False, True])
def test_a_run_that_goes_on_keeps_its_own(with_file, tmp_path):
    run = fabricate_run(tmp_path / "run", mode="real_time", episodes=9)
    run.on_robot.touch()
    file = settings_file(tmp_path / "own.yaml", "pendulum") if with_file else None
    if file is not None:
        stored = {"mode": "real_time", "episodes": 9}
        file.write_text(run.config_path.read_text())
        document = yaml.safe_load(file.read_text())
        document["/**"]["ros__parameters"].pop("exploration")
        document["/**"]["ros__parameters"].update(stored)
        file.write_text(yaml.safe_dump(document))
    options = RunOptions("pendulum", config=file, out=run.root, resume=True, on_robot=True)
    assert random_of(prepare_run(options).config) == (1.0, 0.0)


def test_the_line_tells_how_large_and_how_fast():
    gentle = asked_config(RunOptions("pendulum", on_robot=True))
    assert "up to 50% of the limits, changing at up to 3 Hz" in random_efforts(gentle)
    assert "up to 100% of the limits, new in each control period" in random_efforts(Config())


def test_a_robot_that_nothing_limits_is_refused_with_the_line_to_add():
    with pytest.raises(ConfigError) as refused:
        require_limits(Config(), describe("pendulum"))
    line = str(refused.value)
    assert "\n" not in line
    assert "constraints: [{kind: position, joint: pendulum_joint, low: ..., high: ...}]" in line
    assert "{kind: speed, joint: pendulum_joint, largest: ...}" in line
    assert "--set safety.velocity_limits=[...] " in line


@pytest.mark.parametrize(
    "safety", [{"position_limits": (-1.0, 1.0)}, {"velocity_limits": (10.0,)}], ids=str
)
def test_limits_in_the_settings_will_do(safety):
    require_limits(Config(safety=SafetySettings(**safety)), describe("pendulum"))


def test_so_will_limits_of_the_model_and_the_lines_that_are_advised(tmp_path):
    require_limits(Config(), resolved(tmp_path / "arm", ARM))
    for number, limit in enumerate(
        [
            {"kind": "position", "joint": "pendulum_joint", "low": -1.0, "high": 7.0},
            {"kind": "speed", "joint": "pendulum_joint", "largest": 10.0},
        ]
    ):
        document = {**PENDULUM, "constraints": [limit]}
        require_limits(Config(), resolved(tmp_path / str(number), document))


def test_limits_that_were_switched_off_are_none(tmp_path):
    arm = resolved(tmp_path, changed(ARM, joint_limits=False))
    with pytest.raises(ConfigError, match=r"robot\.joint_limits is false"):
        require_limits(Config(), arm)


def test_the_safety_filter_is_on_where_a_description_asks_for_it_and_on_a_robot(tmp_path):
    plain, limited = tmp_path / "plain", tmp_path / "limited"
    limit = {"kind": "speed", "joint": "elbow", "largest": 3.0}
    files = [write(plain, ARM), write(limited, {**ARM, "constraints": [limit]})]
    options = [RunOptions(str(file)) for file in files]
    assert [asked_config(each).safety.filter for each in options] == [False, True]
    assert asked_config(RunOptions(str(files[0]), on_robot=True)).safety.filter
    switched = RunOptions(str(files[1]), overrides={"safety.filter": False})
    assert not asked_config(switched).safety.filter


def test_being_outside_has_a_price_where_the_filter_is_on_by_default(tmp_path):
    """Or plans that want to be there are held at the limit, where nothing new is learned."""
    plain, limited, cheap = tmp_path / "plain", tmp_path / "limited", tmp_path / "cheap"
    limit = {"constraints": [{"kind": "speed", "joint": "elbow", "largest": 3.0}]}
    own = {"/**": {"ros__parameters": {"exploration": {"outside_penalty": 0.1}}}}
    files = [
        str(write(folder, document))
        for folder, document in (
            (plain, ARM),
            (limited, {**ARM, **limit}),
            (cheap, {**ARM, **limit, **own}),
        )
    ]

    def price(file, **asked):
        return asked_config(RunOptions(file, **asked)).exploration.outside_penalty

    assert [price(file) for file in files] == [0.0, 0.5, 0.1]
    assert [price(file, on_robot=True) for file in files] == [0.5, 0.5, 0.1]
    given = {"exploration.outside_penalty": 0.0}
    assert [price(file, on_robot=True, overrides=given) for file in files] == [0.0, 0.0, 0.0]


def test_a_run_of_before_goes_on_without_a_price_for_being_outside(tmp_path):
    limit = {"kind": "speed", "joint": "elbow", "largest": 3.0}
    file, out = str(write(tmp_path, {**ARM, "constraints": [limit]})), tmp_path / "run"
    before = {"exploration.outside_penalty": 0.0}
    prepare_run(RunOptions(file, out=out, overrides=before))
    again = prepare_run(RunOptions(file, out=out, resume=True))
    assert again.config.exploration.outside_penalty == 0.0


@pytest.mark.parametrize("on_robot", [True, False])
def test_a_run_without_an_episode_stays_with_whom_it_was_made_for(on_robot, tmp_path):
    """Its settings are a robot's, or a simulator's: gentle, limited, filtered, or not."""
    out = tmp_path / "run"
    wished = {"mode": "real_time", "safety.velocity_limits": [15.0]}
    prepare_run(RunOptions("pendulum", out=out, on_robot=on_robot, overrides=wished))
    again = RunOptions("pendulum", out=out, resume=True, on_robot=not on_robot)
    with pytest.raises(RunError, match="was played"):
        prepare_run(again)
    prepare_run(dataclasses.replace(again, on_robot=on_robot))
    assert (out / ".on_robot").exists() == on_robot


def test_what_was_never_made_for_a_robot_leaves_no_mark(tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / ".on_robot").touch()  # as where the disk was full before config.yaml was written
    run = prepare_run(RunOptions("pendulum", out=out))
    assert not run.on_robot.exists()
