"""A bundle plays only on the robot that it is for, and never makes it less safe."""

from dataclasses import replace
from pathlib import Path

import pytest
from manifest_factory import write_manifest

from hucrl_ros.config.schema import Config, SafetySettings
from hucrl_ros.controller.admission import admit
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.errors import BundleError
from hucrl_ros.robots import describe
from hucrl_ros.run.folder import RunFolder

PATH = Path("bundle")
STRICT = {
    "effort_limits": (0.5,),
    "effort_rate": 0.5,
    "position_limits": (-2.0, 2.0),
    "position_margin": 0.1,
    "velocity_limits": (5.0,),
    "stale_periods": 5.0,
    "safe_command": "damping",
    "damping": 0.5,
}


@pytest.fixture
def manifest(tmp_path):
    return read_manifest(write_manifest(tmp_path / "bundle", 1))


def offer(manifest, safety=None, task="pendulum", **known):
    return admit(PATH, manifest, task, SafetySettings(**(safety or {})), **known)


def refusal(manifest, safety=None, **known):
    with pytest.raises(BundleError) as info:
        offer(manifest, safety, **known)
    assert "\n" not in str(info.value)
    return str(info.value)


def test_the_first_bundle_says_what_is_in_force(manifest):
    guard = offer(manifest, STRICT)
    assert guard.spec == manifest.spec
    assert guard.safety == SafetySettings(**STRICT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("effort_limits", (0.6,)),
        ("effort_limits", ()),
        ("effort_rate", 0.6),
        ("effort_rate", 0.0),
        ("position_limits", (-2.1, 2.0)),
        ("position_limits", (-2.0, 2.1)),
        ("position_limits", ()),
        ("position_margin", 0.0),
        ("velocity_limits", (5.1,)),
        ("velocity_limits", ()),
        ("stale_periods", 6.0),
        ("safe_command", "zero"),
        ("damping", 0.4),
        ("damping", 0.6),
    ],
)
def test_a_looser_setting_is_refused_with_both_values(manifest, name, value):
    in_force = offer(manifest, STRICT)
    message = refusal(manifest, {**STRICT, name: value}, in_force=in_force)
    loose, strict = message.split("in force: ")[1].split(", in force ")
    assert f"safety.{name} = {value}" in loose
    assert f"safety.{name} = {STRICT[name]}" in strict


@pytest.mark.parametrize(
    "stricter",
    [
        {},
        {"effort_limits": (0.4,)},
        {"effort_rate": 0.4},
        {"position_limits": (-1.0, 2.0)},
        {"position_margin": 0.2},
        {"velocity_limits": (4.0,)},
        {"stale_periods": 4.0},
    ],
)
def test_what_is_as_strict_is_admitted(manifest, stricter):
    in_force = offer(manifest, STRICT)
    assert offer(manifest, {**STRICT, **stricter}, in_force=in_force)


def test_nothing_that_a_guard_is_told_is_left_out(manifest):
    guard = Guard(manifest.spec, SafetySettings())
    named = {name for names in guard.room for name in names}
    assert named == set(SafetySettings.model_fields)


def test_a_swap_is_for_the_same_robot(manifest):
    in_force = offer(manifest)
    slower = manifest.model_copy(update={"period": 0.1})
    assert "another robot: period is 0.1 in the bundle, 0.0125 here" in refusal(
        slower, in_force=in_force
    )


def test_the_robot_s_own_limits_hold_from_the_first_bundle_on(manifest):
    robot = manifest.spec
    strong = manifest.model_copy(update={"effort_limits": (1e6,)})
    message = refusal(strong, robot=robot)
    assert "effort_limits is (1000000.0,) in the bundle, (1.0,) here" in message
    assert refusal(manifest, robot=replace(robot, joint_names=("elbow",)))
    assert offer(manifest.model_copy(update={"effort_limits": (0.5,)}), robot=robot)


def test_a_bundle_of_another_task_is_refused(manifest):
    message = refusal(manifest, task="cartpole")
    assert "made for the task 'pendulum'; this controller's is 'cartpole'" in message


def test_the_run_that_a_first_bundle_lies_in_tells_its_robot(tmp_path):
    run = RunFolder.create(tmp_path / "run", Config(), describe("pendulum"))
    manifest = read_manifest(write_manifest(run.bundle(1), 1))
    strong = manifest.model_copy(update={"effort_limits": (1e6,)})
    safety = SafetySettings()
    with pytest.raises(BundleError, match=r"1000000.0,. in the bundle, .1.0,. here"):
        admit(run.bundle(1), strong, "pendulum", safety)
    assert admit(run.bundle(1), manifest, "pendulum", safety).spec == manifest.spec
    assert admit(tmp_path / "alone", strong, "pendulum", safety).spec == strong.spec
