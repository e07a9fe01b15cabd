"""Recordings of a bundle that plays without a run."""

import pytest
import yaml

from hucrl_ros.config.files import override
from hucrl_ros.config.schema import DriverSettings
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.prepare import prepare_run
from hucrl_ros.run.recordings import heard_with, recordings_of


def test_recordings_of_a_known_task_keep_its_description_where_the_bundle_lies_in_a_run(tmp_path):
    run = prepare_run(RunOptions("pendulum", out=tmp_path / "run"))
    near = recordings_of(run.bundle(1), "pendulum", tmp_path / "near")
    assert near.config == override(run.config, {"mode": "real_time"})
    kept = [folder.robot / "robot.yaml" for folder in (near, run)]
    assert kept[0].read_text() == kept[1].read_text()
    assert recordings_of(run.bundle(1), "pendulum", near.root).root == near.root
    alone = recordings_of(tmp_path / "bundle", "pendulum", tmp_path / "alone")
    assert alone.config == near.config
    assert not alone.robot.exists()


def test_a_run_that_learns_takes_no_recordings(tmp_path):
    run = prepare_run(RunOptions("pendulum", out=tmp_path / "run"))
    with pytest.raises(RunError, match="a run lies there, not recordings"):
        recordings_of(run.bundle(1), "pendulum", run.root)


def test_recordings_of_a_bundle_are_read_as_its_controller_heard_them(tmp_path):
    driver = DriverSettings(velocity="derived", velocity_window=0.05, effort="ignored")
    file = tmp_path / "here.yaml"
    given = {"control": {"extra_delay": 0.02, "realtime_priority": 9}, "driver.effort": "applied"}
    file.write_text(yaml.safe_dump({"/**": {"ros__parameters": given}}))
    heard = heard_with(driver, "pendulum", file)
    run = recordings_of(tmp_path / "bundle", "pendulum", tmp_path / "run", heard)
    assert run.config.driver == driver.model_copy(update={"effort": "applied"})
    assert run.config.control.extra_delay == 0.02
    assert run.config.mode == "real_time", "also where a bag was cut off and doesn't say"
    assert recordings_of(tmp_path / "bundle", "pendulum", run.root, heard).root == run.root
    with pytest.raises(ConfigError, match=r"control\.extra_delay = 0\.0, but the run in"):
        recordings_of(tmp_path / "bundle", "pendulum", run.root, heard_with(driver))
    alone = recordings_of(tmp_path / "bundle", "mine", tmp_path / "alone", heard_with(driver))
    assert alone.config.driver == driver
