"""What a person asks for by files, options and `--set`: all of it is heard, or refused."""

import shutil
from pathlib import Path

import pytest
import yaml

from hucrl_ros.cli.asked import _asked, _mode
from hucrl_ros.cli.options import parse_settings
from hucrl_ros.config.files import share_directory
from hucrl_ros.errors import ConfigError
from hucrl_ros.run.asked import RunOptions, asked_config, asked_run
from hucrl_ros.run.prepare import prepare_run

FURUTA = share_directory() / "config/examples/furuta"


@pytest.fixture
def own(tmp_path):
    """Writes a changed description of the Furuta pendulum, and returns its path."""

    def write(**sections):
        shutil.copy(FURUTA / "furuta.xml", tmp_path)
        document = yaml.safe_load((FURUTA / "furuta.yaml").read_text())
        document["robot"].update(sections.pop("robot", {}))
        document["/**"]["ros__parameters"].update(sections.pop("settings", {}))
        (tmp_path / "robot.yaml").write_text(yaml.safe_dump({**document, **sections}))
        return str(tmp_path / "robot.yaml")

    return write


def test_a_group_given_by_set_keeps_the_other_settings_of_the_group(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text(
        "/**:\n  ros__parameters:\n    task: pendulum\n    safety: {effort_limits: [0.5]}\n"
    )
    given = parse_settings(["safety={velocity_limits: [15.0]}", "exploration={beta: 2.0}"])
    config = asked_config(RunOptions("pendulum", file, given, on_robot=True))
    assert config.safety.velocity_limits == (15.0,) and config.safety.effort_limits == (0.5,)
    assert config.safety.filter, "on a robot it is on unless somebody says otherwise"
    assert (config.exploration.random_share, config.exploration.random_bandwidth) == (0.5, 3.0)


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        ("\nconstraints: [{kind: speed, joint: j, largest: 5.0}]\n", "no section 'constraints'"),
        ("\n  safety: {effort_limits: [0.5]}\n", "'safety' stands beside 'ros__parameters:'"),
        ("\nsafety: {effort_limits: [0.5]}\n", "'safety' stands beside '/**:'"),
        ("\nsaftey: {effort_limits: [0.5]}\n", "'saftey' stands beside '/**:'"),
        ("\ntheirs: {ros__parameters: {rate: 5}}\n", ""),
    ],
)
def test_what_stands_beside_the_settings_of_a_file_is_not_passed_over(tail, said, tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text((share_directory() / "config/pendulum.yaml").read_text() + tail)
    if not said:
        asked_config(RunOptions("pendulum", file))
        return
    with pytest.raises(ConfigError, match=r"settings\.yaml") as refused:
        asked_config(RunOptions("pendulum", file, on_robot=True))
    assert said in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"constraints": [{"kind": "speed", "joint": "arm_joint", "largest": True}]}, "largest"),
        ({"robot": {"period": True}}, "period"),
        ({"robot": {"effort_limits": [True]}}, "effort_limits"),
        ({"settings": {"episodes": True}}, "episodes"),
        ({"settings": {"safety": {"velocity_limits": [9.0, True]}}}, "velocity_limits"),
        ({"settings": {"safety": {"velocity_limits": [9.0, -3.0]}}}, "velocity_limits"),
    ],
)
def test_yes_is_no_number_and_no_limit_is_negative(sections, key, own):
    with pytest.raises(ConfigError, match=key) as refused:
        asked_run(RunOptions(own(**sections)))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("safety", [{"safe_command": "damping"}, {"damping": 0.1}])
def test_damping_that_would_do_nothing_is_refused(safety):
    options = RunOptions("pendulum", overrides={f"safety.{k}": v for k, v in safety.items()})
    with pytest.raises(ConfigError, match="neither does anything alone; expected damping and"):
        asked_run(options)


def test_a_margin_of_no_limits_is_refused():
    with pytest.raises(
        ConfigError, match=r"position_margin = 0\.1: the margin of safety\.position_limits"
    ):
        asked_run(RunOptions("pendulum", overrides={"safety.position_margin": 0.1}))


@pytest.mark.parametrize("settings", [["seed=5"], ["mode=lockstep"], ["model.heads=3"] * 2])
def test_options_and_settings_that_contradict_each_other_are_refused(settings):
    typed = dict.fromkeys(("config", "action_penalty", "strategy", "device", "out", "source"))
    typed |= {"task": "pendulum", "episodes": 2, "seed": 3, "resume": False, "no_simulator": True}
    typed["settings"] = settings
    mode = _mode(False, False, robot=True, like_hardware=False)
    if len(set(settings)) < len(settings):
        assert asked_config(_asked(typed, mode=mode)).model.heads == 3, "the same, twice"
        return
    with pytest.raises(ConfigError, match="say it once"):
        _asked(typed, mode=mode)


def test_what_a_robots_file_says_of_its_driver_now_is_not_passed_over_at_resume(own, tmp_path):
    file = own(settings={"mode": "real_time"})
    prepare_run(RunOptions(file, out=tmp_path / "run"))
    for setting in ({"driver": {"velocity": "derived"}}, {"control": {"extra_delay": 0.01}}):
        own(settings={"mode": "real_time", **setting})  # as `hucrl check --move --write` does
        with pytest.raises(ConfigError, match="start a new run"):
            prepare_run(RunOptions(file, out=tmp_path / "run", resume=True))


def test_a_delay_of_the_robot_is_one_for_its_other_tasks_too(own, tmp_path):
    own(settings={"control": {"extra_delay": 0.01}})
    other = tmp_path / "other.yaml"
    document = yaml.safe_load((FURUTA / "furuta.yaml").read_text())
    sections = {"reward": document["reward"], "task": {"name": "other"}}
    other.write_text(yaml.safe_dump({"robot": "robot.yaml", **sections}))
    assert asked_config(RunOptions(str(Path(other)))).control.extra_delay == 0.01


@pytest.mark.parametrize("named", [True, False])
def test_other_settings_leave_what_is_said_of_the_robot(named, own, tmp_path):
    """`hucrl tune` writes such files."""
    said = {
        "safety": {"velocity_limits": [9.0, 20.0]},
        "driver": {"velocity": "derived"},
        "control": {"extra_delay": 0.01, "threads": 2},
    }
    file = own(settings={"mode": "real_time", **said})
    tuned = tmp_path / "tuned.yaml"
    tuned.write_text("/**:\n  ros__parameters:\n    planner: {particles: 8}\n")
    run = prepare_run(RunOptions(file, tuned, out=tmp_path / "run"))
    config = run.config
    assert config.safety.velocity_limits == (9.0, 20.0) and config.planner.particles == 8
    assert (config.driver.velocity, config.control.extra_delay) == ("derived", 0.01)
    assert config.control.threads != 2 and config.mode == "lockstep", "these aren't the robot's"
    again = RunOptions(file if named else config.task, tuned, out=run.root, resume=True)
    assert prepare_run(again).config == config
    tuned.write_text("/**:\n  ros__parameters:\n    safety: {velocity_limits: [9.0, 30.0]}\n")
    with pytest.raises(ConfigError, match="a resumed run keeps its settings"):
        prepare_run(again)
