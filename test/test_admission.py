"""A bundle plays only on the robot that it is for, and never makes it less safe."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from manifest_factory import write_manifest

from hucrl_ros.config.schema import Config, SafetySettings
from hucrl_ros.controller.admission import LIMITS, Admission, admit
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.errors import BundleError, ConfigError
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


def test_a_first_bundle_is_compared_with_the_robot_in_all_that_it_is(manifest):
    robot = manifest.spec
    for field, value in (
        ("name", "elbow"),
        ("joint_names", ("elbow",)),
        ("actuated_joints", ("elbow",)),
        ("effort_limits", (0.5,)),
        ("period", 0.1),
        ("observed", ("puck_x",)),
        ("context", ("goal_x",)),
        ("command", "velocity"),
    ):
        assert f"another robot: {field} is" in refusal(
            manifest, robot=replace(robot, **{field: value})
        )
    assert {field.name for field in fields(robot)} == {
        "name",
        "joint_names",
        "actuated_joints",
        "effort_limits",
        "period",
        "observed",
        "context",
        "command",
    }, "a new field has to be tried above"


# What the robot's side says is safe

OWN = {**STRICT, "outage_periods": 20.0, "surprise": 5.0, "filter": True, "backup_time": 0.5}
LOOSER = {
    "effort_limits": (0.6,),
    "effort_rate": 0.6,
    "position_limits": (-2.1, 2.0),
    "position_margin": 0.05,
    "velocity_limits": (5.1,),
    "stale_periods": 100.0,
    "outage_periods": 1e6,
    "surprise": 0.0,
    "safe_command": "zero",
    "damping": 0.4,
    "filter": False,
    "filter_beta": 1.0,
    "backup_time": 1.0,
}
"""A looser value of each setting."""
STRICTER_BUNDLE = {
    "effort_limits": (0.4,),
    "effort_rate": 0.4,
    "position_limits": (-1.9, 2.0),
    "position_margin": 0.2,
    "velocity_limits": (4.9,),
    "stale_periods": 2.0,
    "outage_periods": 10.0,
    "surprise": 4.0,
    "filter_beta": 3.0,
    "backup_time": 0.4,
}


def test_every_setting_of_safety_has_a_looser_value_here():
    assert LOOSER.keys() == SafetySettings.model_fields.keys()


@pytest.mark.parametrize("name", LOOSER)
def test_no_first_bundle_is_looser_than_the_robot_s_own_settings(manifest, name):
    own = SafetySettings(**OWN)
    loose = {**OWN, name: LOOSER[name]}
    ours = Guard(manifest.spec, own).room
    assert any(
        np.any(x > ours[k]) for k, x in Guard(manifest.spec, SafetySettings(**loose)).room.items()
    )
    guard = offer(manifest, loose, own=own)
    assert guard.safety == own
    assert not any(np.any(x > ours[k]) for k, x in guard.room.items())


@pytest.mark.parametrize("name", LOOSER)
def test_no_swap_is_looser_than_what_is_in_force(manifest, name):
    in_force = offer(manifest, OWN)
    assert "looser than the safety in force" in refusal(
        manifest, {**OWN, name: LOOSER[name]}, in_force=in_force
    )


@pytest.mark.parametrize("name", STRICTER_BUNDLE)
def test_a_bundle_may_be_stricter_than_the_robot_s_own_settings(manifest, name):
    strict = {**OWN, name: STRICTER_BUNDLE[name]}
    assert offer(manifest, strict, own=SafetySettings(**OWN)).safety == SafetySettings(**strict)


def test_each_limit_is_the_stricter_one_of_both(manifest):
    own = SafetySettings(effort_rate=0.1, stale_periods=5.0)
    guard = offer(manifest, {"effort_limits": (0.5,), "effort_rate": 0.3}, own=own)
    assert guard.safety == SafetySettings(effort_limits=(0.5,), effort_rate=0.1)


def test_limits_of_which_neither_are_the_stricter_ones_are_refused(manifest):
    joints = ("a", "b")
    two = {"joint_names": joints, "actuated_joints": joints, "effort_limits": (1.0, 1.0)}
    arm = manifest.model_copy(update=two)
    own = SafetySettings(effort_limits=(0.5, 1.0))
    assert "safety.effort_limits = (1.0, 0.5)" in refusal(
        arm, {"effort_limits": (1.0, 0.5)}, own=own
    )


def test_limits_that_are_stricter_only_together_are_obeyed_elsewhere_too(manifest):
    given = {"safety.position_limits": [-1.0, 1.0], "safety.position_margin": 0.2}
    here, there = (Admission("pendulum", given, None, name) for name in ("here", "there"))
    for admission in (here, there):
        admission.accept(PATH, *admission.admit(PATH, manifest))
    together = {"safety.position_limits": [-0.15, 0.15], "safety.position_margin": 0.0}
    assert there.follow(together).safety == here.tighten(together).safety
    for admission in (here, there):  # and under the next bundle
        assert admission.admit(PATH, manifest)[1].safety == here.guard.safety


def test_a_swap_is_limited_before_it_is_compared_with_what_is_in_force(manifest):
    own = SafetySettings(**OWN)
    in_force = offer(manifest, own=own)
    assert in_force.safety.effort_rate == OWN["effort_rate"], "the bundle has no such limit"
    assert offer(manifest, own=own, in_force=in_force).safety == in_force.safety


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


# Limits that are tightened while a node runs

REST = np.zeros(2)


@pytest.fixture
def in_force(manifest):
    """Accepts a bundle under the limits in `STRICT`, with which the node was started."""
    given = {f"safety.{name}": value for name, value in STRICT.items()}
    admission = Admission("pendulum", given, None, "parameters of node 'probe'")
    admission.accept(PATH, *admission.admit(PATH, manifest))
    return admission


STRICTER = {
    "safety.effort_limits": [0.25],
    "safety.effort_rate": 0.1,
    "safety.position_limits": [-1.0, 2.0],
    "safety.position_margin": 0.2,
    "safety.velocity_limits": [4.0],
    "safety.stale_periods": 4.0,
}


def test_all_limits_that_may_be_tightened_are_tried_here():
    assert set(STRICTER) == set(LIMITS)
    assert {name.removeprefix("safety.") for name in LIMITS} <= set(SafetySettings.model_fields)


@pytest.mark.parametrize("name", STRICTER)
def test_a_limit_may_be_made_stricter_and_not_looser_again(in_force, name):
    before = in_force.guard
    after = in_force.tighten({name: STRICTER[name]})
    assert in_force.guard is after and after is not before
    assert any(np.any(after.room[key] < before.room[key]) for key in after.room)
    assert not any(np.any(after.room[key] > before.room[key]) for key in after.room)
    looser = {name: STRICT[name.removeprefix("safety.")]}
    with pytest.raises(ConfigError, match=f"looser than the safety in force: .*{name} = ") as info:
        in_force.tighten(looser)
    assert "\n" not in str(info.value)
    assert in_force.guard is after
    assert in_force.tighten({name: STRICTER[name]}) is after, "the same again is no change"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("effort_limits", [-0.1]),
        ("effort_limits", [0.1, 0.1]),
        ("effort_limits", [float("nan")]),
        ("effort_rate", -0.1),
        ("position_limits", [1.0, -1.0]),
        ("position_limits", [-1.0]),
        ("position_margin", 2.0),
        ("velocity_limits", [0.0]),
        ("velocity_limits", [float("nan")]),
        ("stale_periods", 0.5),
    ],
)
def test_what_makes_no_sense_changes_nothing(in_force, name, value):
    before = in_force.guard
    with pytest.raises(ConfigError, match=name):
        in_force.tighten({"safety.effort_rate": 0.1, f"safety.{name}": value})
    assert in_force.guard is before and not in_force.tightened


def test_before_the_first_bundle_there_is_nothing_to_tighten():
    admission = Admission("pendulum", {}, None, "parameters of node 'probe'")
    with pytest.raises(ConfigError, match=r"safety\.effort_rate: no limits are in force"):
        admission.tighten({"safety.effort_rate": 0.1})


def test_a_stricter_guard_goes_on_from_the_last_command(in_force):
    before = in_force.guard
    assert before.check(np.array([0.5]), REST).action == 0.25, "a rate of half the limit"
    stricter = in_force.tighten({"safety.effort_rate": 0.1})
    stricter.reset(before)
    assert stricter.check(np.array([0.5]), REST).action == pytest.approx(0.3)


def test_a_tightened_limit_outlives_the_swap_of_a_bundle(in_force, manifest):
    in_force.tighten({"safety.effort_rate": 0.1, "safety.effort_limits": [0.25]})
    found, guard = in_force.admit(PATH, manifest)
    assert found.safety.effort_rate == 0.5, "what the bundle says, with the node's settings"
    guard = in_force.accept(PATH, found, guard)
    assert (guard.safety.effort_rate, guard.safety.effort_limits) == (0.1, (0.25,))
    in_force.tighten({"safety.effort_rate": 0.05})


def test_a_swap_may_not_drop_a_constraint(manifest):
    admission = Admission("pendulum", {}, None, "here")
    held = manifest.model_copy(update={"constraints": ("a", "b")})
    admission.accept(PATH, *admission.admit(PATH, held))
    with pytest.raises(BundleError, match=r"looser than the safety in force: no constraint 'b'"):
        admission.admit(PATH, manifest.model_copy(update={"constraints": ("a", "c")}))
    assert admission.admit(PATH, manifest.model_copy(update={"constraints": ("c", "b", "a")}))
    assert admission.admit(PATH, held), "what was never accepted is asked of nobody"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, ""),
        ({"deceleration": (2.9,), "acceleration": (6.1,), "steady_speed": (1.9,)}, ""),
        ({"deceleration": (3.0 * (1.0 + 1e-4),)}, ""),  # as two machines may reckon
        ({"deceleration": (3.1,)}, "deceleration"),
        ({"acceleration": (5.9,)}, "acceleration"),
        ({"steady_speed": (2.1,)}, "steady_speed"),
        ({"steady_speed": ()}, "steady_speed"),
        ({"deceleration": (), "acceleration": (), "steady_speed": ()}, "deceleration"),
        # Of half the effort, and of twice as much, of which half is in force.
        ({"safety": SafetySettings(effort_limits=(0.25,)), "acceleration": (3.0,)}, ""),
        (
            {"safety": SafetySettings(effort_limits=(0.25,)), "acceleration": (2.9,)},
            "acceleration",
        ),
        ({"safety": SafetySettings(), "deceleration": (9.0,), "acceleration": (12.0,)}, ""),
        (
            {"safety": SafetySettings(), "deceleration": (9.1,), "acceleration": (12.0,)},
            "deceleration",
        ),
    ],
)
def test_a_swap_counts_on_no_stronger_brakes_than_the_first_bundle(manifest, changes, fault):
    half = SafetySettings(effort_limits=(0.5,))
    admission = Admission("pendulum", {}, None, "here", half)
    admission.accept(PATH, *admission.admit(PATH, manifest))
    told = {"deceleration": (3.0,), "acceleration": (6.0,), "steady_speed": (2.0,)}
    first = manifest.model_copy(update={"safety": half, **told})
    admission.accept(PATH, *admission.admit(PATH, first))
    swap = first.model_copy(update=changes)
    if not fault:
        admission.accept(PATH, *admission.admit(PATH, swap))
        if swap.safety == half:
            assert admission.admit(PATH, first), "what is weaker once need not stay so"
        return
    line = rf"looser than the safety in force: {fault} is \(.*\), in force until the node ends \("
    with pytest.raises(BundleError, match=line):
        admission.admit(PATH, swap)


def test_a_bundle_that_is_stricter_than_what_was_tightened_stays_so(manifest):
    admission = Admission("pendulum", {}, None, "here")
    admission.accept(PATH, *admission.admit(PATH, manifest))
    admission.tighten({"safety.effort_rate": 0.3})
    strict = SafetySettings(effort_rate=0.2)
    found, guard = admission.admit(PATH, manifest.model_copy(update={"safety": strict}))
    assert admission.accept(PATH, found, guard).safety.effort_rate == 0.2


def test_a_limit_tightened_while_a_bundle_is_loaded_holds_for_it(in_force, manifest):
    found, guard = in_force.admit(PATH, manifest)
    in_force.tighten({"safety.stale_periods": 2.0})
    assert guard.safety.stale_periods == 5.0
    assert in_force.accept(PATH, found, guard).safety.stale_periods == 2.0


def test_a_bundle_whose_window_a_new_margin_would_open_is_refused(manifest):
    admission = Admission("pendulum", {}, None, "here")

    def with_window(limit, margin):
        safety = SafetySettings(position_limits=(-limit, limit), position_margin=margin)
        return manifest.model_copy(update={"safety": safety})

    admission.accept(PATH, *admission.admit(PATH, with_window(1.0, 0.1)))
    found, guard = admission.admit(PATH, with_window(1.2, 0.35))
    admission.tighten({"safety.position_margin": 0.2})
    with pytest.raises(BundleError, match="looser than the safety in force"):
        admission.accept(PATH, found, guard)
    assert admission.guard.safety.position_limits == (-1.0, 1.0)


def test_what_is_tightened_elsewhere_counts_where_it_is_stricter(in_force, manifest):
    guard = in_force.follow({"safety.effort_rate": 0.9, "safety.stale_periods": 2.0, "x": 1})
    assert (guard.safety.effort_rate, guard.safety.stale_periods) == (0.5, 2.0)
    late = Admission("pendulum", {}, None, "here")
    assert late.follow({"safety.stale_periods": 2.0}) is None
    assert late.admit(PATH, manifest)[1].safety.stale_periods == 2.0


def test_what_is_looser_elsewhere_loosens_nothing_that_was_tightened_here(in_force, manifest):
    in_force.tighten({"safety.effort_limits": [0.25]})
    in_force.follow({"safety.effort_limits": [0.4]})
    assert in_force.guard.safety.effort_limits == (0.25,)
    assert in_force.accept(PATH, *in_force.admit(PATH, manifest)).safety.effort_limits == (0.25,)


@pytest.mark.parametrize(
    ("given", "own", "on"),
    [
        ({}, None, False),
        ({}, SafetySettings(), False),
        ({}, SafetySettings(filter=True), True),
        ({"safety.filter": True}, None, True),
    ],
)
def test_it_tells_whether_bundles_play_with_the_filter_whatever_they_say(given, own, on, manifest):
    admission = Admission("pendulum", given, None, "here", own)
    assert admission.filters is on
    assert admission.admit(PATH, manifest)[1].safety.filter is on
