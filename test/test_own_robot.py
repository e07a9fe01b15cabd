"""A robot of one's own: what its description means, and what is refused."""

import itertools
import math
import re
import shutil
import sys

import mujoco
import numpy as np
import pytest
import torch
import yaml
from own_robots import (
    ARM,
    EXAMPLES,
    PENDULUM,
    changed,
    modelled,
    pushing,
    refusal,
    resolved,
    task_of,
    write,
)
from PIL import Image

from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import find_description, read_description
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots import MujocoRobot, make_robot
from hucrl_ros.robots.resolve import resolve
from hucrl_ros.run.asked import RunOptions, asked_config, asked_run
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import Task, make_task
from hucrl_ros.tasks.export_check import check_export

CORNERS = itertools.product((0.0, 0.1), repeat=3)
WEDGE = "".join(f"v {x} {y} {z}\n" for x, y, z in CORNERS) + "f 1 2 3\nf 1 2 5\nf 1 3 5\nf 2 3 5\n"
"""A mesh, as a Wavefront file."""


@pytest.fixture(scope="module")
def stick(tmp_path_factory):
    return task_of(tmp_path_factory.mktemp("stick"), PENDULUM, 0.2)


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    return resolved(tmp_path_factory.mktemp("arm"), ARM)


# A description means what the Python classes mean


def test_the_pendulum_from_a_yaml_moves_like_the_built_in_one(stick):
    described, built_in = stick.robot(), make_robot("pendulum")
    assert described.spec.joint_names == built_in.spec.joint_names
    assert described.spec.effort_limits == built_in.spec.effort_limits
    rng = np.random.default_rng(0)
    states = [robot.reset(np.random.default_rng(1)) for robot in (described, built_in)]
    np.testing.assert_array_equal(*states)
    for effort in rng.uniform(-1.5, 1.5, (100, 1)):
        states = [robot.step(effort) for robot in (described, built_in)]
        np.testing.assert_array_equal(*states)


def test_the_pendulum_from_a_yaml_has_the_built_in_features_and_rewards(stick):
    task = make_task("pendulum", 0.2)
    generator = torch.Generator().manual_seed(0)
    states = 10 * torch.randn(500, 2, generator=generator)
    actions = torch.randn(500, 1, generator=generator)
    assert (stick.steps, stick.state_bounds, stick.angles) == (
        task.steps,
        task.state_bounds,
        task.angles,
    )
    torch.testing.assert_close(stick.features(states), task.features(states), rtol=0, atol=0)
    torch.testing.assert_close(stick.reward(states, actions), task.reward(states, actions))


def test_an_urdf_without_motors_gets_one_for_each_joint_with_an_effort_limit(arm):
    robot = MujocoRobot(arm)
    assert arm.robot.actuated == ("shoulder", "elbow")
    assert arm.robot.effort_limits == (2.0, 1.0)
    # A constant torque on the shoulder of the arm at rest: τ = I θ̈ with the arm stretched out.
    robot.set_state(np.zeros(6))
    robot.data.ctrl[:] = (0.5, 0.0)
    mujoco.mj_forward(robot.model, robot.data)
    inertia = np.empty((2, 2))
    for column, unit in enumerate(np.eye(2)):
        mujoco.mj_mulM(robot.model, robot.data, inertia[column], unit)
    # Upper arm: 0.0085 + 0.15²; forearm: 0.006 + 0.7 · 0.45² about the shoulder.
    assert inertia[0, 0] == pytest.approx(0.0085 + 0.15**2 + 0.006 + 0.7 * 0.45**2, rel=1e-6)
    np.testing.assert_allclose(inertia @ robot.data.qacc, (0.5, 0.0), atol=1e-9)


def test_starts_are_drawn_as_described(tmp_path):
    start = {"shoulder": {"mean": 1.0, "std": 0.1}, "elbow": -0.5, "goal_x": {"low": 0, "high": 1}}
    robot = MujocoRobot(resolved(tmp_path, changed(ARM, start=start)))
    draws = np.array([robot.initial_state(np.random.default_rng(k)) for k in range(500)])
    assert draws[:, 0].mean() == pytest.approx(1.0, abs=0.02)
    assert draws[:, 0].std() == pytest.approx(0.1, abs=0.02)
    assert (draws[:, 1] == -0.5).all()
    assert 0.0 <= draws[:, 4].min() < 0.05
    assert 0.95 < draws[:, 4].max() <= 1.0
    assert (draws[:, [2, 3, 5]] == 0.0).all()
    np.testing.assert_array_equal(robot.reset(np.random.default_rng(3)), draws[3])


def test_what_is_left_out_is_derived_the_same_every_time(tmp_path, arm):
    again = resolved(tmp_path, ARM)
    assert again.robot == arm.robot
    robot = arm.robot
    assert robot.angles == ("shoulder", "elbow")
    assert set(robot.scales) == {"shoulder_velocity", "elbow_velocity", "goal_x", "goal_y"}
    assert robot.state_bounds["shoulder"] is None  # It may wind.
    assert robot.state_bounds["elbow"] == pytest.approx(2.6 + 0.3)  # Its limits are opposite.
    assert robot.scales["goal_x"] == robot.scales["goal_y"] == 0.4
    assert "goal_x" not in robot.state_bounds  # The context isn't predicted.


def test_the_model_sees_the_stops_of_joints_with_limits(stick, arm):
    assert stick.geometry is None
    ((joint, lower, upper),) = Task(arm, 0.0).geometry.stops
    assert joint == 1
    assert (lower, upper) == pytest.approx((-2.6, 2.6))


def test_the_model_sees_contacts_with_round_objects(tmp_path):
    round_ = task_of(tmp_path, pushing(tmp_path, '<geom size="0.05"/>'))
    assert [touch.reach for touch in round_.geometry.touches] == pytest.approx([0.09, 0.07])
    assert round_.geometry.modelled_dim == 4 + 3
    box = task_of(tmp_path, pushing(tmp_path, '<geom type="box" size="0.05 0.05 0.05"/>'))
    assert box.geometry.modelled_dim == 4


def test_contacts_are_seen_without_stops_as_well(tmp_path):
    document = pushing(tmp_path, '<geom size="0.05"/>')
    model = tmp_path / "pusher.xml"
    model.write_text(model.read_text().replace(' range="-1 1"', ""))
    assert task_of(tmp_path, document).geometry.modelled_dim == 3


def test_an_objects_speed_is_measured_like_any_other_entry(tmp_path):
    found = resolved(tmp_path, pushing(tmp_path, '<geom size="0.05"/>')).robot
    assert 0.0 < found.scales["puck_x_velocity"] < found.state_bounds["puck_x_velocity"]
    assert found.start["puck_x_velocity"].mean == 0.0


def test_a_base_that_tells_its_height_is_measured_above_the_floor(tmp_path):
    """From under it MuJoCo hurls it up, metres high, as it did a hopper."""
    hopper = """<mujoco><worldbody><geom type="plane" size="9 9 1"/><body pos="0 0 1">
      <joint name="height" type="slide" axis="0 0 1" ref="1"/>
      <geom type="capsule" size="0.05 0.2"/>
      <body><joint name="leg" axis="0 1 0" range="-60 60"/>
      <geom type="capsule" size="0.05" fromto="0 0 0 0 0 -0.9"/></body></body></worldbody>
      <actuator><motor joint="leg" ctrlrange="-1 1"/></actuator></mujoco>"""
    found = resolved(tmp_path, modelled(tmp_path, hopper)).robot
    assert found.start["height"].mean == 1.0
    assert 0.9 < found.scales["height"] < 1.2
    assert found.state_bounds["height"] < 3.0


def test_uneven_limits_give_an_uneven_reach_that_a_run_keeps(tmp_path):
    path = write(tmp_path / "source", ARM)
    urdf = path.parent / "planar_arm.urdf"
    urdf.write_text(urdf.read_text().replace('upper="2.6"', 'upper="0.4"'))
    found = resolve(read_description(path))
    assert found.robot.state_bounds["elbow"] == pytest.approx((-2.6 - 0.3, 0.4 + 0.3))
    run = RunFolder.create(tmp_path / "run", Config(task="mine"), found)
    task = make_task("mine", 0.0, run.robot)
    assert task.bounds[:, 1].tolist() == pytest.approx([-2.9, 0.7])


def test_a_derived_reach_holds_what_the_robot_does(arm):
    robot, rng = MujocoRobot(arm), np.random.default_rng(5)
    least, largest = Task(arm, 0.0).bounds.double().numpy()
    for _ in range(5):
        state = robot.reset(rng)
        for _ in range(arm.robot.steps):
            state = robot.step(rng.choice([-1.0, 1.0], 2) * arm.robot.effort_limits)
            assert ((least <= state[:4]) & (state[:4] <= largest)).all()


def test_imagined_states_have_the_goals_of_starts_and_respect_limits(arm, tmp_path):
    task = task_of(tmp_path, ARM)
    states = task.imagined_states(1000, torch.Generator().manual_seed(0))
    assert states.shape == (1000, 6)
    assert states[:, 1].abs().max() <= 2.6
    assert (states[:500, :4] == 0.0).all()
    assert states[:, 4].abs().max() <= 0.4
    assert states[:, 5].min() >= 0.1


def test_motors_are_put_into_the_order_that_is_asked_for(tmp_path):
    robot = MujocoRobot(resolved(tmp_path, changed(ARM, actuated=["elbow", "shoulder"])))
    assert robot.spec.effort_limits == (1.0, 2.0)
    driven = [robot.model.joint(int(k)).name for k in robot.model.actuator_trnid[:, 0]]
    assert driven == ["elbow", "shoulder"]


GANTRY = """<mujoco><worldbody><body pos="1 2 3">
  <body name="tool"><joint name="tool_x" type="slide" axis="1 0 0"/>
    <joint name="tool_y" type="slide" axis="0 1 0"/><geom size="0.05"/>
    <site name="tool" pos="0 0 -1"/></body></body></worldbody>
<actuator><motor joint="tool_x" ctrlrange="-3 3"/>
<motor joint="tool_y" ctrlrange="-3 3"/></actuator></mujoco>"""


def test_a_joint_named_like_a_coordinate_is_none(tmp_path):
    task = task_of(tmp_path, modelled(tmp_path, GANTRY))
    assert task.view.point(torch.tensor([[0.1, 0.2, 0.0, 0.0]]), "tool").tolist() == [
        pytest.approx([1.1, 2.2, 2.0])
    ]
    with pytest.raises(ConfigError, match="body 'tool' isn't in the state; known: tool"):
        task.view.body(torch.zeros(1, 4), "tool")


def test_a_joint_named_like_another_entry_is_refused(tmp_path):
    gantry = modelled(tmp_path, GANTRY.replace("tool_x", "goal_x"), context=["goal_x", "goal_y"])
    assert "mine.yaml: 'goal_x' is in the state twice" in refusal(tmp_path, gantry)


STIFF = """<mujoco><option timestep="0.01"/><worldbody><body><joint name="turn"/>
  <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0" mass="0.2"/></body></worldbody>
<actuator><position joint="turn" kp="3000" kv="1"/></actuator></mujoco>"""


def test_a_simulation_that_is_unstable_is_refused_or_ends(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log.
    stiff = modelled(tmp_path, STIFF, command="position", command_limits=[0.3])
    line = (
        r"mine\.yaml: the simulation is unstable in steps of 10 ms: take a smaller robot\.timestep"
    )
    assert re.search(line, refusal(tmp_path, stiff))
    known = {"scales": {"turn_velocity": 1.0}, "state_bounds": {"turn_velocity": 1.0}}
    robot = MujocoRobot(resolved(tmp_path, changed(stiff, **known)))
    robot.reset(np.random.default_rng(0))
    with pytest.raises(ConfigError, match=line):
        for _ in range(100):
            robot.step(np.array([0.3]))
    robot.reset(np.random.default_rng(0))
    robot.step(np.zeros(1))  # Whatever comes after a reset counts anew.
    assert resolved(tmp_path, changed(stiff, timestep=0.0005))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"start": {"elbow": 90}}, "robot.start.elbow is 90, "),
        ({"limits": {"elbow": [-90, 90]}}, "robot.limits.elbow is -90 … 90, "),
    ],
)
def test_where_degrees_make_a_simulation_unstable_they_are_named(
    changes, told, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log.
    model = str(EXAMPLES / "planar_arm" / "planar_arm.urdf")
    arm = {"robot": {"model": model, "period": 0.04, "timestep": 0.004, "steps": 75, **changes}}
    line = refusal(tmp_path, arm | {"reward": {"terms": [{"term": "effort"}]}})
    assert line.partition("mine.yaml: ")[2].startswith(
        f"{told}where -2.6 … 2.6 are the model's limits [rad or m]; the simulation is unstable"
    )


def test_a_start_may_be_a_number_that_yaml_takes_for_a_text(tmp_path):
    path = tmp_path / "mine.yaml"
    text = yaml.safe_dump(PENDULUM).replace("3.141592653589793", "{}")
    path.write_text(text.format("1e-2"))
    assert read_description(path).robot.start["pendulum_joint"].mean == 0.01
    path.write_text(text.format("90 deg"))
    with pytest.raises(ConfigError, match=r"start\.pendulum_joint\.mean = '90 deg': .* number"):
        read_description(path)


FLYING = """<mujoco><worldbody><body name="base">{base}<geom size="0.1"/>
  <body><joint name="hip" axis="0 1 0"/><geom size="0.05" pos="0 0 0.3"/></body></body></worldbody>
<actuator><motor joint="hip" ctrlrange="-1 1"/></actuator></mujoco>"""


@pytest.mark.parametrize(
    ("base", "called"),
    [
        ('<freejoint name="root"/>', "joint 'root'"),
        ("<freejoint/>", "a joint of body 'base'"),
        ('<joint name="neck" type="ball"/>', "joint 'neck'"),
    ],
)
@pytest.mark.parametrize("joints", [[], ["hip"]])
def test_a_base_that_no_state_tells_is_refused(tmp_path, base, called, joints):
    message = refusal(tmp_path, modelled(tmp_path, FLYING.format(base=base), joints=joints))
    assert f"joint 'hip' hangs on {called}, a free or ball one, which no" in message


# What a run keeps


def test_a_run_keeps_all_that_it_needs_of_its_robot(tmp_path):
    source = tmp_path / "source"
    included = '<mujoco><include file="../parts/body.xml"/></mujoco>'
    body = """<mujoco><asset><mesh name="wedge" file="../parts/wedge.obj"/></asset>
      <worldbody><body name="b"><joint name="turn" axis="0 1 0"/>
      <geom type="mesh" mesh="wedge"/></body></worldbody>
      <actuator><motor joint="turn" ctrlrange="-1 1" ctrllimited="true"/></actuator></mujoco>"""
    for folder in ("parts", "models"):
        (source / folder).mkdir(parents=True)
    (source / "parts" / "body.xml").write_text(body)
    (source / "parts" / "wedge.obj").write_text(WEDGE)
    (source / "models" / "main.xml").write_text(included)
    robot = {"model": "models/main.xml", "period": 0.02, "steps": 10}
    reward = {"terms": [{"term": "speed", "joint": "turn"}]}
    path = write(source, {"robot": robot, "reward": reward})
    found = resolve(read_description(path))
    run = RunFolder.create(tmp_path / "run", Config(task="mine"), found)
    before = MujocoRobot(found)
    shutil.rmtree(source)
    moved = tmp_path / "elsewhere"
    run.root.rename(moved)
    kept = make_robot("mine", RunFolder(moved).robot)
    effort = np.array([0.7])
    np.testing.assert_array_equal(kept.reset(np.random.default_rng(0)), before.state)
    for _ in range(20):
        np.testing.assert_array_equal(kept.step(effort), before.step(effort))


@pytest.mark.parametrize(
    ("compiler", "mesh", "texture"),
    [
        ("", "{}/wedge.obj", "{}/dot.png"),
        ('meshdir="nowhere" texturedir="{}"', "{}/wedge.obj", "dot.png"),
        ('assetdir="{}"', "wedge.obj", "{}/dot.png"),
    ],
)
def test_a_run_names_no_file_of_a_model_by_an_absolute_path(tmp_path, compiler, mesh, texture):
    elsewhere, source = tmp_path / "elsewhere", tmp_path / "source"
    elsewhere.mkdir()
    (elsewhere / "wedge.obj").write_text(WEDGE)
    Image.new("RGB", (2, 2)).save(elsewhere / "dot.png")
    body = f"""<mujoco><compiler {compiler}/><asset><mesh name="/wedge" file="{mesh}"/>
      <texture name="dot" type="2d" file='{texture}'/></asset>
      <worldbody><body name="b"><joint name="turn" axis="0 1 0"/>
      <geom type="mesh" mesh="/wedge"/></body></worldbody>
      <actuator><motor joint="turn" ctrlrange="-1 1" ctrllimited="true"/></actuator></mujoco>"""
    (elsewhere / "body.xml").write_text(body.replace("{}", str(elsewhere)))
    included = f'<mujoco><include file="{elsewhere / "body.xml"}"/></mujoco>'
    path = write(source, modelled(tmp_path, included))
    found = resolve(read_description(path))
    run = RunFolder.create(tmp_path / "run", Config(task="mine"), found)
    assert find_description(run.robot, "mine").same_as(found)
    shutil.rmtree(elsewhere)
    shutil.rmtree(source)
    model = make_robot("mine", run.robot).model
    assert (model.nmesh, model.texture("dot").width[0]) == (1, 2)


@pytest.mark.parametrize(
    ("compiler", "named", "place"),
    [
        ('strippath="true"', "package://arm/meshes/wedge.obj", "wedge.obj"),
        ('meshdir="parts"', "wedge.obj", "parts/wedge.obj"),
        ('meshdir="{}/parts"', "wedge.obj", "parts/wedge.obj"),
        ("", "{}/parts/wedge.obj", "parts/wedge.obj"),
        ('meshdir="nowhere"', "{}/parts/wedge.obj", "parts/wedge.obj"),
    ],
)
def test_a_run_keeps_the_meshes_of_an_urdf(tmp_path, compiler, named, place):
    path = write(tmp_path / "source", ARM)
    urdf = path.parent / "planar_arm.urdf"
    text = urdf.read_text().replace('discardvisual="false"', f'discardvisual="false" {compiler}')
    text = text.replace('<box size="0.3 0.03 0.03"/>', f'<mesh filename="{named}"/>')
    urdf.write_text(text.replace("{}", str(path.parent)))
    (path.parent / place).parent.mkdir(exist_ok=True)
    (path.parent / place).write_text(WEDGE)
    run = RunFolder.create(tmp_path / "run", Config(task="mine"), resolve(read_description(path)))
    stored = find_description(run.robot, "mine")
    assert stored.same_as(resolve(read_description(path)))
    (path.parent / place).write_text(WEDGE.replace("f 2 3 5", "f 5 3 2"))
    assert not stored.same_as(resolve(read_description(path)))
    shutil.rmtree(path.parent)
    assert make_robot("mine", run.robot).model.nmesh == 1


@pytest.mark.parametrize(
    "example",
    [
        "furuta/furuta",
        "planar_arm/planar_arm",
        "double_pendulum/pendubot",
        "double_pendulum/acrobot",
    ],
)
def test_the_examples_say_all_that_is_needed_and_are_kept_as_they_are(example, tmp_path):
    path = EXAMPLES / f"{example}.yaml"
    name, found = path.stem, resolve(read_description(path))
    run = RunFolder.create(tmp_path / "run", Config(task=name), found)
    stored = find_description(run.robot, name)
    assert stored is not None
    assert stored.robot.model_copy(update={"model": ""}) == found.robot.model_copy(
        update={"model": ""}
    )
    assert stored.same_as(found)
    assert resolve(stored).robot == stored.robot  # Nothing is left to derive.
    task = make_task(name, 0.1, run.robot)
    assert task.spec == found.robot.spec


def test_the_double_pendulum_moves_by_the_textbooks_equations():
    """Spong and Vidyasagar's, with the robot's published moments of inertia about the joints."""
    m1, m2, l1, r1, r2 = 0.52346023, 0.62556772, 0.2, 0.2, 0.25569305
    about1, about2, g = 0.0318871996, 0.0508698481, 9.81
    path = EXAMPLES / "double_pendulum" / "double_pendulum.xml"
    model = mujoco.MjModel.from_xml_path(str(path))
    data, generate = mujoco.MjData(model), np.random.default_rng(0)
    for _ in range(20):
        (q1, q2), (v1, v2), u = generate.uniform(-3, 3, (3, 2))
        couple = m2 * l1 * r2
        mass = np.array(
            [
                [about1 + about2 + m2 * l1**2 + 2 * couple * np.cos(q2), 0.0],
                [about2 + couple * np.cos(q2), about2],
            ]
        )
        mass[0, 1] = mass[1, 0]
        bias = couple * np.sin(q2) * np.array([-(2 * v1 + v2) * v2, v1**2])
        below = m2 * g * r2 * np.sin(q1 + q2)
        weight = np.array([(m1 * r1 + m2 * l1) * g * np.sin(q1) + below, below])
        data.qpos[:], data.qvel[:], data.ctrl[:] = (q1, q2), (v1, v2), u
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(data.qacc, np.linalg.solve(mass, u - bias - weight), rtol=1e-5)


@pytest.mark.parametrize(("name", "joint"), [("pendubot", "shoulder"), ("acrobot", "elbow")])
def test_upright_earns_most_and_one_joint_has_a_motor(name, joint):
    task = Task(resolve(read_description(EXAMPLES / "double_pendulum" / f"{name}.yaml")), 0.0)
    assert task.spec.actuated_joints == (joint,)
    states = torch.tensor([[np.pi, 0, 0, 0], [0, 0, 0, 0], [np.pi, np.pi, 0, 0]]).float()
    up, down, folded = task.reward(states, torch.zeros(3, 1)).tolist()
    assert up == pytest.approx(1.0, abs=1e-5)
    assert down < 0.01 < folded < 0.2


def test_the_name_is_that_of_the_file_and_the_settings_lie_next_to_it(tmp_path):
    document = {**ARM, "/**": {"ros__parameters": {"episodes": 3, "planner": {"horizon": 7}}}}
    path = write(tmp_path, document, "robo.yaml")
    config = asked_config(RunOptions(str(path), overrides={"seed": 4}))
    assert (config.task, config.episodes, config.planner.horizon, config.seed) == ("robo", 3, 7, 4)


# What is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": None}, "robot.model is missing"),
        ({"period": -1}, "robot.period = -1: Input should be greater than or equal to 0.0001"),
        ({"perod": 1}, "unknown key 'robot.perod'; did you mean 'period'?"),
        (
            {"period": None, "perod": 1},
            "robot.period is missing; is it the unknown key 'perod'?",
        ),
        ({"name": "a b"}, "robot.name: 'a b': expected letters"),
        ({"model": "none.xml"}, "robot.model = 'none.xml': no such file"),
        ({"model": "."}, "robot.model = '.': a folder, not a file: "),
        ({"model": "mine.yaml"}, "MuJoCo can't read it"),
        ({"joints": ["hip_x"]}, "robot.joints: 'hip_x' is no revolute or prismatic joint"),
        ({"joints": ["elbow"]}, "reward: "),
        ({"actuated": ["wrist"]}, "robot.actuated: 'wrist' is no one of robot.joints; known: sh"),
        ({"effort_limits": [1.0]}, "robot.effort_limits = [1.0]: expected 2, one for each of"),
        (
            {"effort_limits": [1.0, 3.0]},
            "3 for joint 'elbow' exceeds the limit of planar_arm.urdf",
        ),
        ({"timestep": 0.007}, "robot.period = 0.04 s is no multiple of the timestep 0.007 s"),
        ({"angles": ["hand"]}, "robot.angles: 'hand' is no revolute one of robot.joints"),
        ({"scales": {"shoulder": 1.0}}, "robot.scales: 'shoulder' is no entry of the state"),
        (
            {"state_bounds": {"goal_x": 1.0}},
            "robot.state_bounds: 'goal_x' is no entry of the state",
        ),
        (
            {"state_bounds": {"elbow": [1.0, -1.0]}},
            "robot.state_bounds.elbow: [1.0, -1.0]: expected the largest",
        ),
        (
            {"state_bounds": {"elbow": [None, 1.0]}},
            "robot.state_bounds.elbow: [None, 1.0]: expected the la",
        ),
        (
            {"state_bounds": {"elbow": [0.0, math.inf]}},
            "robot.state_bounds.elbow: [0.0, inf]: expected the",
        ),
        (
            {"state_bounds": {"elbow": -2.0}},
            "robot.state_bounds.elbow: -2.0: expected the largest absolute",
        ),
        (
            {"state_bounds": {"elbow": "far"}},
            "robot.state_bounds.elbow: 'far': expected the largest absolute",
        ),
        ({"limits": {"wrist": [0, 1]}}, "robot.limits: 'wrist' is no one of robot.joints"),
        ({"limits": {"elbow": [1, 0]}}, "robot.limits.elbow: [1.0, 0.0]: expected [lower, upper"),
        ({"stops": ["shoulder"]}, "robot.stops: 'shoulder' is no joint with limits; known: elbow"),
        ({"vectors": {"hand": []}}, "robot.vectors: 'hand' is no body in the state; known: goal"),
        ({"vectors": {"goal": ["toe"]}}, "robot.vectors.goal: 'toe' is no site of the model; kn"),
        ({"start": {"gaol_x": 1.0}}, "robot.start: 'gaol_x' is no entry of the state"),
        ({"start": {"elbow": {"low": 1}}}, "robot.start.elbow: low and high belong together"),
        ({"start": {"elbow": {"low": 1, "high": 0}}}, "low = 1 exceeds high = 0"),
        ({"start": {"elbow": {"std": 1e308}}}, "start.elbow.std = 1e+308: Input should be less"),
        ({"start": {"elbow": -1e6}}, "start.elbow.mean = -1000000.0: Input should be greater"),
        (
            {"timestep": 1e-9},
            "robot.timestep = 1e-09 s divides robot.period = 0.04 s into 4e+07 steps; at most "
            "10000 accepted, a timestep of at least 4e-06 s",
        ),
        (
            {"sites": {"hand": {"body": "foot"}}},
            "robot.sites.hand.body = 'foot': the model has no",
        ),
        ({"context": ["forearm_x"]}, "robot.context: 'forearm_x': expected <body>_x"),
        ({"context": ["goal_w"]}, "context entry 'goal_w' has no topic"),
        ({"observed": ["forearm_x"]}, "can be observed"),
        ({"observed": ["puck_x"]}, "'puck_x': the MJCF has no such body or joint"),
        ({"context": ["a_x", "b_x"]}, "'b_x' has no topic; expected"),
        *(
            ({"topics": {"commands": name}}, f"robot.topics.commands: {name!r}: expected the name")
            for name in ("/x y", "", "/", "x/", "//x", "/9x", "a:=b", "/é", "x\n")
        ),
    ],
)
def test_a_wrong_robot_is_refused_in_one_line(tmp_path, changes, message):
    assert message in refusal(tmp_path, changed(ARM, **changes))


@pytest.mark.parametrize("name", ["commands", "/arm/joint_states", "_x/y9"])
def test_a_topic_may_have_any_name_that_ros_takes(tmp_path, name):
    found = read_description(write(tmp_path, changed(ARM, topics={"commands": name})))
    assert found.robot.topics == {"commands": name}


def test_a_place_may_be_of_numbers_that_yaml_reads_as_text(tmp_path):
    terms = [{"term": "distance", "of": "hand", "to": ["1e-3", 0, 0.5]}]
    found = task_of(tmp_path, changed(ARM, "reward", function=None, terms=terms))
    assert found.described.reward.terms[0].to == (0.001, 0.0, 0.5)


def with_elbow(folder, lower, upper, kind="revolute"):
    """The arm's description, with other limits of its elbow in the URDF."""
    path = write(folder, ARM)
    urdf = folder / "planar_arm.urdf"
    text = urdf.read_text().replace('lower="-2.6" upper="2.6"', f'lower="{lower}" upper="{upper}"')
    urdf.write_text(text.replace('"elbow" type="revolute"', f'"elbow" type="{kind}"'))
    return read_description(path)


def test_limits_of_a_urdf_in_the_wrong_order_are_refused(tmp_path):
    for kind in ("revolute", "prismatic"):
        with pytest.raises(
            ConfigError, match=r"planar_arm\.urdf: joint 'elbow': <limit>"
        ) as caught:
            resolve(with_elbow(tmp_path, 1, -1, kind))
        assert "lower = 1 above upper = -1; expected" in str(caught.value)
    # A continuous joint has none, whatever stands there.
    assert resolve(with_elbow(tmp_path, 1, -1, "continuous")).constraints == ()


def test_limits_of_a_urdf_that_leave_no_room_are_refused(tmp_path):
    """MuJoCo would let the joint turn for ever."""
    for kind in ("revolute", "prismatic"):
        with pytest.raises(ConfigError, match="joint 'elbow': <limit> has lower and upper = 0 "):
            resolve(with_elbow(tmp_path, 0, 0, kind))
    assert resolve(with_elbow(tmp_path, 0, 0, "continuous")).constraints == ()
    described = with_elbow(tmp_path, -1, 1)
    text = described.model.read_text()
    described.model.write_text(re.sub(r'<limit lower="-1" upper="1"[^>]*/>', "", text))
    with pytest.raises(ConfigError, match="joint 'elbow': <limit> has lower and upper = 0 "):
        resolve(described)


def test_limits_that_are_many_turns_apart_are_worth_a_warning(tmp_path, caplog):
    resolve(with_elbow(tmp_path, -9, 9))  # A cable drum
    assert caplog.messages == []
    resolve(with_elbow(tmp_path, -180, 180))
    (line,) = caplog.messages
    assert line.endswith(
        "planar_arm.urdf: the limits of joint 'elbow' are 360 rad apart, 57.3 turns; if degrees "
        "are meant, write radians"
    )
    resolve(with_elbow(tmp_path, -180, 180, "prismatic"))
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"function": None}, "expected either function: FILE.py:NAME or a list of terms"),
        ({"function": "planar_arm.py"}, "reward.function: 'planar_arm.py': expected FILE.py:NAME"),
        ({"function": "none.py:reward"}, "reward.function = 'none.py:reward': no such file"),
        ({"function": "planar_arm.py:rward"}, "has no function 'rward'; functions there: reward"),
        (
            {"success": {"of": "foot", "to": "goal", "within": 1}},
            "no site 'foot'; known: goal, ha",
        ),
    ],
)
def test_a_wrong_reward_is_refused_in_one_line(tmp_path, changes, message):
    assert message in refusal(tmp_path, changed(ARM, "reward", **changes))


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([{"term": "nearr"}], "terms.0: 'nearr' is unknown; did you mean 'near'? known: "),
        ([{"term": "near", "of": "hand", "to": "goal"}], "reward.terms.0.near.length is missing"),
        (
            [{"term": "near", "of": "hand", "to": [0, 0], "length": 1}],
            "reward.terms.0.near.to: [0, 0]: expected the name of a site or body, or three "
            "numbers [m], 2 given",
        ),
        (
            [{"term": "distance", "of": "hand", "to": [0, 0, "x"]}],
            "terms.0.distance.to: [0, 0, 'x",
        ),
        ([{"term": "speed", "joints": "hip"}], "joint is missing; is it the unknown key 'jo"),
        ([{"term": "speed", "joint": "hip"}], "reward.terms.0 (speed): "),
        ([{"term": "effort"}, {"term": "height", "of": "toe"}], "reward.terms.1 (height): "),
        (
            [{"term": "effort", "scal": 1}],
            "unknown key 'reward.terms.0.effort.scal'; did you mean 'scale'? known here: ",
        ),
        (
            [{"term": "product", "factors": [{"term": "position", "joint": "hip", "length": 1}]}],
            "factors.0.position.length'; known here: joint, target, term, weight",
        ),
    ],
)
def test_a_wrong_term_is_refused_by_its_number(tmp_path, terms, message):
    wrong = changed(ARM, "reward", function=None, success=None, terms=terms)
    assert message in refusal(tmp_path, wrong)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 1 +", "wrong.py:2: SyntaxError"),
        ("return state[..., 0", "wrong.py:2: SyntaxError"),
        (
            "return state.sum(dim=0)",
            "the reward of states (64, 6) is (6,) torch.float32; expected",
        ),
        ("return state", "the reward of states (64, 6) is (64, 6) torch.float32; expected (64,)"),
        ("return 0.0", "the reward is a float, not a torch.Tensor"),
        ("return state[..., 0].long()", "torch.int64; expected (64,) of floating point"),
        ("return torch.log(state[..., 2])", "wrong.py: the reward is -inf in the state (0, 0, 0"),
        ("return state[:, 0]", "expected (4, 16)"),
        ("return state[..., 9]", "wrong.py:2: IndexError: index 9 is out of bounds"),
        ("return robot.site(state, 'toe')[..., 0]", "the model has no site 'toe'; known: goal"),
        ("state[..., 0] -= 1.0; return state[..., 0]", "wrong.py: the reward changes the states"),
        ("return action.mul_(2.0)[..., 0]", "the reward changes the states or actions"),
    ],
)
def test_a_function_that_is_no_reward_is_refused(tmp_path, body, message):
    (tmp_path / "wrong.py").write_text(
        f"def reward(state, action, robot):\n    {body}\n"
        + ("" if "torch" not in body else "import torch\n")
    )
    wrong = changed(ARM, "reward", function="wrong.py:reward", success=None)
    assert message in refusal(tmp_path, wrong)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "return state[..., 0] if state[0, 0] > 0 else action[..., 0]",
            "can't be exported to ONNX",
        ),
        ("return torch.as_tensor(state.numpy()[..., 0]) * 1", "ONNX"),
        ("return state[..., 0] * torch.ones(len(state))", "len(x) be x.shape[0]"),
        (
            "k = state[..., 0].long()\n    return (k // torch.full_like(k, 3)).float()",
            "not by numbers above 0 that are known before",
        ),
    ],
)
def test_a_reward_that_is_no_graph_is_refused(tmp_path, body, message):
    (tmp_path / "wrong.py").write_text(
        f"import torch\ndef reward(state, action, robot):\n    if state.dim() > 2:\n"
        f"        return state[..., 0]\n    {body}\n"
    )
    task = task_of(tmp_path, changed(ARM, "reward", function="wrong.py:reward", success=None))
    with pytest.raises(ConfigError) as caught:
        check_export(task)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_functions_may_multiply_by_matrices_in_single_precision(tmp_path):
    (tmp_path / "cost.py").write_text(
        "import torch\nQ = torch.diag(torch.tensor([1.0, 0.5]))\n"
        "def reward(state, action, robot):\n    return -(state @ Q * state).sum(-1)\n"
        "def room(state, action, robot):\n    return 20.0 + reward(state, action, robot)\n"
    )
    described = {
        **PENDULUM,
        "reward": {"function": "cost.py:reward"},
        "constraints": [{"kind": "function", "function": "cost.py:room", "margin": 2.0}],
    }
    task = task_of(tmp_path, described)
    check_export(task)
    states, actions = np.array([[1.0, 2.0], [0.1, 0.0]]), np.zeros((2, 1))
    rewards, rooms = task.rewards(states, actions), task.rooms(states, actions)
    assert rewards.dtype == rooms.dtype == np.float64
    np.testing.assert_allclose(rewards, [-3.0, -0.01], rtol=1e-6)
    np.testing.assert_allclose(rooms, [[8.5], [9.995]], rtol=1e-6)


def test_a_search_by_gradients_refuses_a_reward_without_any(tmp_path):
    (tmp_path / "steps.py").write_text(
        "import torch\ndef reward(state, action, robot):\n    return torch.sign(state[..., 0])\n"
    )
    path = write(tmp_path, changed(ARM, "reward", function="steps.py:reward", success=None))
    options = RunOptions(str(path), overrides={"search.algorithm": "pathwise"})
    with pytest.raises(ConfigError, match="has none with respect to the state; choose one of"):
        asked_run(options)


@pytest.mark.parametrize(
    ("reward", "where"),
    [
        ("-(state[..., 2:4] ** 2).sum(-1).sqrt()", "state in"),
        ("-state[..., 0] ** 2 - (action * 0.0).sum(-1).sqrt()", "action in"),
        ("-((state[..., 2:4] ** 2).sum(-1) + 1e-6).sqrt()", ""),
    ],
)
def test_a_search_by_gradients_refuses_one_that_is_no_number(reward, where, tmp_path):
    """Episodes begin at rest, and there the root of a square has no gradient."""
    (tmp_path / "roots.py").write_text(f"def reward(state, action, robot):\n    return {reward}\n")
    path = write(tmp_path, changed(ARM, "reward", function="roots.py:reward", success=None))
    options = RunOptions(str(path), overrides={"search.algorithm": "pathwise"})
    if where:
        line = f"is no number with respect to the {where} .* of .* states, such as .*choose one of"
        with pytest.raises(ConfigError, match=line):
            asked_run(options)
    else:
        asked_run(options)


def test_a_position_servo_is_no_motor(tmp_path):
    model = """<mujoco><worldbody><body><joint name="turn"/><geom size="0.1"/></body></worldbody>
      <actuator><position name="servo" joint="turn"/></actuator></mujoco>"""
    (tmp_path / "servo.xml").write_text(model)
    robot = {"model": "servo.xml", "period": 0.02, "steps": 10}
    message = refusal(tmp_path, {"robot": robot, "reward": {"terms": [{"term": "effort"}]}})
    assert "actuator 'servo' of joint 'turn' is no motor" in message


def test_a_model_without_motors_and_limits_asks_for_them(tmp_path):
    body = '<body><joint name="turn"/><geom size="0.1"/></body>'
    model = f"<mujoco><worldbody>{body}</worldbody></mujoco>"
    (tmp_path / "bare.xml").write_text(model)
    robot = {"model": "bare.xml", "period": 0.02, "steps": 10}
    reward = {"terms": [{"term": "effort"}]}
    message = refusal(tmp_path, {"robot": robot, "reward": reward})
    assert "robot.actuated is missing: bare.xml has neither motors nor effort limits" in message
    message = refusal(tmp_path, {"robot": {**robot, "actuated": ["turn"]}, "reward": reward})
    assert "robot.effort_limits is missing" in message
    complete = {**robot, "actuated": ["turn"], "effort_limits": [0.5]}
    assert task_of(tmp_path, {"robot": complete, "reward": reward}).robot().model.nu == 1


@pytest.mark.parametrize(
    ("motor", "joint", "most"),
    [
        ('ctrlrange="-1 5"', "", 1.0),
        ('ctrlrange="-1 5" gear="3"', 'actuatorfrcrange="-50 50"', 1.0),
        ('ctrlrange="0 5"', "", 0.0),
        ('gear="2"', 'actuatorfrcrange="-9 8"', 4.0),
        ('ctrlrange="-3 3" forcerange="-0.4 3"', "", 0.4),
        ('forcerange="-2 3" gear="5"', "", 2.0),
    ],
)
def test_an_uneven_limit_of_a_motor_is_one_both_ways(tmp_path, motor, joint, most):
    model = f"""<mujoco><worldbody><body><joint name="turn" {joint}/><geom size="0.1"/></body>
      </worldbody><actuator><motor joint="turn" {motor}/></actuator></mujoco>"""
    (tmp_path / "uneven.xml").write_text(model)
    robot = {"model": "uneven.xml", "period": 0.02, "steps": 10}
    reward = {"terms": [{"term": "effort"}]}
    message = refusal(tmp_path, {"robot": robot, "reward": reward})
    assert "robot.effort_limits is missing: uneven.xml has no symmetric limit for joint" in message
    assert message.endswith(f"'turn'; at most {most:g} is accepted")
    robot["effort_limits"] = [most + 0.5]
    message = refusal(tmp_path, {"robot": robot, "reward": reward})
    assert message.endswith(f"joint 'turn' exceeds the limit of uneven.xml, {most:g}")
    if most:
        robot["effort_limits"] = [most]
        assert task_of(tmp_path, {"robot": robot, "reward": reward}).spec.effort_limits == (most,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("3", "expected keys and values, found int"),
        ("robot: {}\nrewards: {}", "unknown section 'rewards'; did you mean 'reward'?"),
        ("reward: {}", "expected a section 'robot'"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"mine\.yaml: ") as caught:
        read_description(path)
    assert message in str(caught.value)


def test_the_name_of_a_task_of_the_paper_is_refused(tmp_path):
    path = write(tmp_path, changed(ARM, name="reacher"))
    with pytest.raises(ConfigError, match="'reacher' is a task of the paper"):
        asked_config(RunOptions(str(path)))


def test_settings_that_are_wrong_are_refused_by_name(tmp_path):
    document = {**ARM, "/**": {"ros__parameters": {"planner": {"horizn": 3}}}}
    path = write(tmp_path, document)
    with pytest.raises(ConfigError, match=r"mine\.yaml: unknown key 'planner\.horizn'"):
        asked_config(RunOptions(str(path)))


def test_a_file_may_have_dataclasses_whose_annotations_are_texts(tmp_path):
    (tmp_path / "gains.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Gains:\n    speed: float = 2.0\n"
        "def reward(state, action, robot):\n"
        "    return Gains().speed * robot.velocity(state, 'elbow')\n"
    )
    task = task_of(tmp_path, changed(ARM, "reward", function="gains.py:reward", success=None))
    assert task.rewards(np.array([[0.0, 0.0, 0.0, 3.0, 0.0, 0.0]]), np.zeros((1, 2))) == [6.0]
    assert not [name for name in sys.modules if "gains" in name]


def test_no_file_is_left_next_to_the_users_function(tmp_path):
    task_of(tmp_path, ARM)
    assert {p.name for p in tmp_path.iterdir()} == {
        "mine.yaml",
        "planar_arm.py",
        "planar_arm.urdf",
    }
    assert yaml.safe_load((tmp_path / "mine.yaml").read_text()) == ARM


def test_limits_wider_than_the_models_are_worth_a_warning(tmp_path, caplog):
    for limits in ([-2.6, 2.6], [-2.0, 1.0]):
        resolved(tmp_path, changed(ARM, limits={"elbow": limits}))
    assert caplog.messages == []
    resolved(tmp_path, changed(ARM, limits={"elbow": [-2.0, 3.0]}))
    (line,) = caplog.messages
    assert (
        "robot.limits.elbow: [-2.0, 3.0] is wider than the model's own limits, -2.6 … 2.6" in line
    )


@pytest.mark.parametrize("name", ["planar_arm.urdf", "planar_arm.xml"])
def test_a_joint_that_loses_its_motor_is_worth_a_warning(tmp_path, caplog, name):
    path = write(tmp_path, changed(ARM, model=name))
    text = (tmp_path / "planar_arm.urdf").read_text()
    narrow = text.replace(' effort="1.0"', "").replace('"-2.6" upper="2.6"', '"0" upper="0.1"')
    (tmp_path / name).write_text(narrow)
    assert resolve(read_description(path)).robot.actuated == ("shoulder",)
    (line,) = caplog.messages
    assert f"{name}: joint 'elbow' has no motor" in line
    path = write(tmp_path, changed(ARM, model=name, actuated=["shoulder"]), "limp.yaml")
    resolve(read_description(path))
    assert len(caplog.messages) == 1, "it was asked for"


def test_a_joint_without_a_servo_is_told_so_whatever_its_effort_limit(tmp_path, caplog):
    arm = changed(ARM, command="velocity", command_limits=[1.0], servos={"shoulder": {"kv": 30}})
    assert resolve(read_description(write(tmp_path, arm))).robot.actuated == ("shoulder",)
    (line,) = caplog.messages
    assert "joint 'elbow' has no motor, as robot.servos doesn't name it" in line
    none = changed(ARM, command="velocity", command_limits=[1.0, 1.0])
    expected = "has no <velocity>, and robot.servos names none of its joints; joints: shoulder, "
    assert expected in refusal(tmp_path, none)


def test_a_start_where_no_joint_leads_an_object_is_worth_a_warning(tmp_path, caplog):
    puck = pushing(tmp_path, '<geom size="0.05"/>')
    resolved(tmp_path, changed(puck, start={"puck_x": {"low": 0.1, "high": 0.3}}))
    assert not caplog.messages
    resolved(tmp_path, changed(puck, start={"puck_y": 0.2}))
    (line,) = caplog.messages
    assert "robot.start.puck_y: the simulator begins at 0.1 where 0.2 is said" in line


def test_radians_in_an_mjcf_of_degrees_are_worth_a_warning(tmp_path, caplog):
    model = """<mujoco><worldbody><body><joint name="hinge" range="-3.14 3.14" limited="true"/>
      <geom size="0.1"/></body></worldbody><actuator><motor joint="hinge" ctrlrange="-1 1"/>
      </actuator></mujoco>"""
    task_of(tmp_path, modelled(tmp_path, model))
    (line,) = caplog.messages
    assert "the limits of joint 'hinge' are only 0.11 rad apart" in line


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('<robot name="a" xmlns:xacro="x"><link name="b"><collision><geometry><cylinder radius='
         '"${r}" length="1"/></geometry></collision></link></robot>', "it is xacro"),
        ('<robot name="a"><link name="b"><collision><geometry><mesh filename="package://a/b.stl"/>'
         "</geometry></collision></link></robot>", "MuJoCo knows no ROS packages"),
        # What xacro has made
        ('<robot name="a" xmlns:xacro="x"><link name="b"><collision><geometry><mesh filename='
         '"file:///a/b.stl"/></geometry></collision></link></robot>', "packages and no file://"),
        ('<robot name="a"><link name="b"><collision><geometry><mesh filename="seen.dae"/>'
         "</geometry></collision></link></robot>", "MuJoCo reads meshes in STL and OBJ"),
    ],
)  # fmt: skip
def test_a_file_of_ros_that_mujoco_cannot_read_says_what_it_lacks(text, hint, tmp_path):
    (tmp_path / "seen.dae").write_text("<COLLADA/>")
    assert hint in refusal(tmp_path, modelled(tmp_path, text))


def test_a_site_that_the_model_has_already_is_refused(tmp_path):
    model = """<mujoco><worldbody><body name="link"><joint name="turn"/><geom size="0.1"/>
      <site name="tip"/></body></worldbody><actuator><motor joint="turn" ctrlrange="-1 1"/>
      </actuator></mujoco>"""
    message = refusal(tmp_path, modelled(tmp_path, model, sites={"tip": {"body": "link"}}))
    assert "robot.sites.tip: the model has a site 'tip' already" in message


def test_a_joint_that_slides_is_never_upright(tmp_path):
    puck = pushing(tmp_path, '<geom size="0.05"/>')
    wrong = {**puck, "reward": {"terms": [{"term": "upright", "joint": "rail"}]}}
    assert "reward.terms.0 (upright): joint 'rail' is prismatic" in refusal(tmp_path, wrong)
    task_of(tmp_path, {**puck, "reward": {"terms": [{"term": "upright", "joint": "swing"}]}})


@pytest.mark.parametrize(
    ("site", "reason"),
    [
        ("loose", "hangs at joint 'swing'; expected only"),
        ("mark", "hangs on 'goal', which is put"),
    ],
)
def test_a_vector_to_what_no_joint_state_tells_is_refused(tmp_path, site, reason):
    model = """<mujoco><worldbody><body name="goal" mocap="true"><site name="mark"/></body>
      <body><joint name="turn"/><geom size="0.1"/><body><joint name="swing"/><geom size="0.1"/>
      <site name="loose"/></body></body></worldbody>
      <actuator><motor joint="turn" ctrlrange="-1 1"/></actuator></mujoco>"""
    robot = {"joints": ["turn"], "context": ["goal_x"], "vectors": {"goal": [site]}}
    message = refusal(tmp_path, modelled(tmp_path, model, **robot))
    assert f"mine.yaml: robot.vectors: site '{site}' {reason}" in message


def test_a_misspelt_joint_and_a_link_are_named_as_such(tmp_path):
    speed = {"constraints": [{"kind": "speed", "joint": "elbo", "largest": 2.0}]}
    assert "'elbo' is no joint; known: shoulder, elbow" in refusal(tmp_path, {**ARM, **speed})
    near = {"reward": {"terms": [{"term": "height", "of": "forearm"}]}}
    assert "it is a body, of which robot.sites names a point" in refusal(tmp_path, {**ARM, **near})
    named = {"reward": {"function": "planar_arm.py"}}
    assert "expected FILE.py:NAME, e.g. planar_arm.py:reward" in refusal(
        tmp_path, {**ARM, **named}
    )


@pytest.mark.parametrize("name", ["tip.001", "half", "forward"])
def test_a_site_may_have_any_name(tmp_path, name):
    terms = {"reward": {"terms": [{"term": "height", "of": name}]}}
    task = task_of(tmp_path, {**changed(ARM, sites={name: {"body": "forearm"}}), **terms})
    check_export(task)


def test_goals_beside_the_plane_of_a_flat_arm_are_worth_a_warning(tmp_path, caplog):
    hand = {"hand": {"body": "forearm", "position": [0.3, 0.0, 0.1]}}
    task_of(tmp_path, changed(ARM, sites=hand))
    (line,) = caplog.messages
    assert "501 of 501 starts have goal out of reach: its z is 0 m, that of 'hand' always" in line
    assert line.endswith("0.1 m; robot.context names no goal_z")
    caplog.clear()
    fixed = {
        "reward": {
            **ARM["reward"],
            "success": {"of": "hand", "to": [0.3, 0.2, 0.3], "within": 0.03},
        }
    }
    task_of(tmp_path, {**changed(ARM, sites=hand), **fixed})
    assert caplog.messages[0].endswith("its z is 0.3 m, that of 'hand' always 0.1 m")
    caplog.clear()
    named = {"context": ["goal_x", "goal_y", "goal_z"]}
    start = {"goal_x": 0.3, "goal_y": 0.2, "goal_z": 0.1}
    task_of(tmp_path, changed(ARM, sites=hand, start=start, **named))
    assert caplog.messages == []


def test_goals_that_nobody_can_meet_are_worth_a_warning(tmp_path, caplog):
    far = changed(ARM, start={"goal_x": {"low": 0.5, "high": 1.0}, "goal_y": 0.0})
    task_of(tmp_path, far)
    (line,) = caplog.messages
    assert re.search(
        r"[23]\d\d of 501 starts have goal out of reach: 'hand' gets no further", line
    )
    caplog.clear()
    region = {"shape": "sphere", "center": [0.4, 0.0, 0.0], "radius": 0.15}
    box = {"kind": "outside", "of": "hand", "region": region, "about": "a post"}
    near = changed(ARM, start={"goal_x": 0.4, "goal_y": 0.0, "shoulder": 2.0})
    task_of(tmp_path, {**near, "constraints": [box]})
    (line,) = caplog.messages
    assert "501 of 501 starts have goal where 'hand' mustn't be" in line
    caplog.clear()
    task_of(tmp_path, ARM)
    assert caplog.messages == []


def test_a_run_keeps_meshes_that_are_links(tmp_path):
    meshes = tmp_path / "arm" / "meshes"
    meshes.mkdir(parents=True)
    (tmp_path / "abc123.obj").write_text(WEDGE)
    (meshes / "link.obj").symlink_to(tmp_path / "abc123.obj")
    model = """<mujoco><compiler meshdir="meshes"/><asset><mesh name="l" file="link.obj"/></asset>
      <worldbody><body pos="0 0 1"><joint name="h" axis="0 1 0"/>
      <geom type="mesh" mesh="l"/></body></worldbody>
      <actuator><motor joint="h" ctrlrange="-1 1"/></actuator></mujoco>"""
    found = resolved(tmp_path / "arm", modelled(tmp_path / "arm", model))
    run = RunFolder.create(tmp_path / "run", Config(task=found.name), found)
    assert MujocoRobot(find_description(run.robot, found.name)).model.nmesh == 1
