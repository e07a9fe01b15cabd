"""What makes a task of a description, the paper's and a user's own alike."""

import dataclasses

import numpy as np
import pytest
import torch
import yaml
from own_robots import ARM, PENDULUM, changed, refusal, resolved, task_of, write

from hucrl_ros.config.files import share_directory
from hucrl_ros.config.task_file import (
    find_description,
    known_tasks,
    read_description,
    store_description,
    task_of_path,
)
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots import MujocoRobot, describe, make_robot
from hucrl_ros.run.asked import RunOptions, asked_config
from hucrl_ros.tasks import Task, known_optimum, make_task

SIM = share_directory() / "sim"
STILL = """
import torch


def still(count, generator, robot):
    return torch.zeros(count, robot.spec.state_dim)


def narrow(count, generator, robot):
    return torch.zeros(count, 1)


def wrong(count, generator, robot):
    return robot.nothing


def other(count, generator, robot):
    return torch.rand(count, robot.spec.state_dim)
"""


@pytest.mark.parametrize("name", known_tasks())
def test_the_path_of_a_known_task_is_its_name(name, monkeypatch):
    monkeypatch.chdir(share_directory())
    for path in (f"config/{name}.yaml", f"sim/{name}.yaml", str(known_tasks()[name])):
        assert task_of_path(path) == name
        assert make_task(path, 0.1).name == name
        assert RunOptions(path).task == asked_config(RunOptions(path)).task == name


def test_the_path_of_another_file_stays_a_path(tmp_path):
    (tmp_path / "pendulum.yaml").write_text(known_tasks()["pendulum"].read_text())
    assert task_of_path(str(tmp_path / "pendulum.yaml")) == str(tmp_path / "pendulum.yaml")
    assert task_of_path("pendulum") == "pendulum"


@pytest.mark.parametrize("name", known_tasks())
def test_a_known_task_says_what_it_is_and_needs_no_simulation_to_say_it(name, monkeypatch):
    def fail(*_):
        raise AssertionError("random efforts were simulated")

    monkeypatch.setattr("hucrl_ros.robots.scales.measure", fail)
    described = describe(name)
    assert described.task.about
    assert described.robot.about


@pytest.mark.parametrize("name", known_tasks())
def test_a_stored_copy_of_a_task_is_the_task(name, tmp_path):
    store_description(describe(name), tmp_path)
    found = find_description(tmp_path, name)
    assert found is not None
    assert found.same_as(describe(name))
    task, original = Task(found, 0.1), make_task(name, 0.1)
    states = [x.imagined_states(8, torch.Generator().manual_seed(0)) for x in (task, original)]
    actions = torch.ones(8, task.spec.action_dim)
    assert torch.equal(*states)
    assert torch.equal(task.reward(states[0], actions), original.reward(states[0], actions))
    starts = [x.robot().reset(np.random.default_rng(2)) for x in (task, original)]
    np.testing.assert_array_equal(*starts)


def test_a_second_task_of_a_robot_names_the_first_ones_file(tmp_path):
    write(tmp_path / "one", ARM, "arm.yaml")
    second = {"robot": "one/arm.yaml", "reward": {"terms": [{"term": "effort"}]}}
    (tmp_path / "lazy.yaml").write_text(yaml.safe_dump({**second, "task": {"name": "lazy"}}))
    found = read_description(tmp_path / "lazy.yaml")
    assert (found.name, found.robot.name) == ("lazy", "arm")
    assert found.model == tmp_path / "one" / "planar_arm.urdf"
    assert make_task(str(tmp_path / "lazy.yaml"), 0.1).spec.name == "arm"


def test_a_robot_of_a_file_that_names_another_one_is_refused(tmp_path):
    reward = {"terms": [{"term": "effort"}]}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"robot": "mine.yaml", "reward": reward}))
    with pytest.raises(ConfigError, match="expected a section 'robot' with keys"):
        read_description(tmp_path / "mine.yaml")


def test_a_file_of_settings_is_no_task_and_says_where_it_belongs(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("/**: {ros__parameters: {seed: 1}}")
    with pytest.raises(ConfigError, match=f"settings alone.* `TASK --config {path}`"):
        read_description(path)


def test_a_file_whose_name_no_robot_can_have_is_refused_by_that_name(tmp_path):
    path = write(tmp_path, changed(ARM, name=None), "2dof arm.yaml")
    with pytest.raises(ConfigError, match=r"2dof arm\.yaml, whose name is the robot"):
        read_description(path)
    assert read_description(write(tmp_path, changed(ARM, name="arm"), "2dof arm.yaml"))


def test_two_functions_files_of_one_name_are_refused(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "planar_arm.py").write_text(STILL)
    described = resolved(tmp_path, {**ARM, "task": {"imagined": "more/planar_arm.py:still"}})
    with pytest.raises(ConfigError, match=r"planar_arm\.py and .*planar_arm\.py have one name"):
        store_description(described, tmp_path / "robot")


def test_an_optimum_is_what_the_description_says(tmp_path):
    described = resolved(tmp_path, {**PENDULUM, "task": {"optima": {0.3: 7.0}}})
    assert Task(described, 0.3).optimum == 7.0
    assert Task(described, 0.2).optimum is None
    assert known_optimum("pendulum", 0.2) == 278.5
    assert known_optimum("stick", 0.3) is None


def test_imagined_states_can_be_a_function(tmp_path):
    (tmp_path / "still.py").write_text(STILL)
    task = task_of(tmp_path, {**PENDULUM, "task": {"imagined": "still.py:still"}})
    assert not task.imagined_states(5, torch.Generator()).any()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("still.py:narrow", "64 imagined states are a Tensor of (64, 1) torch.float32; expected"),
        ("still.py:wrong", "still.py:14: AttributeError: "),
        ("still.py:none", "has no function 'none'; functions there: still, narrow, wrong"),
        ("still.py:other", "still.py: of two draws by the same generator the imagined states dif"),
        ("none.py:still", "task.imagined = 'none.py:still': no such file"),
    ],
)
def test_a_function_that_draws_no_states_is_refused(tmp_path, function, message):
    (tmp_path / "still.py").write_text(STILL)
    assert message in refusal(tmp_path, {**PENDULUM, "task": {"imagined": function}})


def test_limits_stops_and_vectors_replace_what_the_model_says(tmp_path):
    usual = task_of(tmp_path, ARM)
    assert [stop.joint for stop in usual.geometry.stops] == [1]
    other = changed(ARM, limits={"elbow": [-1.0, 2.0]}, vectors={})
    task = task_of(tmp_path, other)
    assert task.geometry.stops == ((1, -1.0, 2.0),)
    assert task.geometry.vectors == ()
    assert task.state_bounds[1] == (-1.3, 2.3)
    places = task.view.anywhere(200, torch.Generator().manual_seed(0))[:, 1]
    assert -1.0 <= places.min() < -0.9 < 1.9 < places.max() <= 2.0
    assert task_of(tmp_path, changed(other, stops=[])).geometry is None


def test_only_what_varies_is_drawn_where_the_description_says_so(tmp_path):
    described = resolved(tmp_path, changed(ARM, draw_fixed=False))
    state = MujocoRobot(described).initial_state(np.random.default_rng(5))
    first = np.random.default_rng(5).uniform(size=2)
    np.testing.assert_allclose(state[4:], [-0.4 + 0.8 * first[0], 0.1 + 0.3 * first[1]])
    assert not state[:4].any()


def test_an_origin_is_added_to_what_is_drawn(tmp_path):
    start = {"goal_x": {"low": -0.1, "high": 0.1, "origin": 5.0}, "goal_y": {"origin": 2.0}}
    described = resolved(tmp_path, changed(ARM, start=start))
    state = MujocoRobot(described).initial_state(np.random.default_rng(5))
    assert 4.9 <= state[4] <= 5.1
    assert state[5] == 2.0
    imagined = Task(described, 0.0).imagined_states(9, torch.Generator().manual_seed(0))
    assert ((imagined[:, 4] - 5.0).abs() <= 0.1).all()
    assert (imagined[:, 5] == 2.0).all()


def test_a_robot_made_by_name_is_its_own(monkeypatch):
    one, two = make_robot("pendulum"), make_robot("pendulum")
    one.model.dof_damping[:] = 0.0
    assert two.model.dof_damping.any()
    assert dataclasses.asdict(one.spec) == dataclasses.asdict(two.spec)


def test_a_description_of_before_is_read_with_one_line_that_names_the_new_word(tmp_path, caplog):
    now = write(tmp_path / "now", PENDULUM)
    section = dict(PENDULUM["robot"])
    section["reach"] = section.pop("state_bounds")
    before = write(tmp_path / "before", {**PENDULUM, "robot": section})
    found = [read_description(before).robot for _ in range(2)]
    assert found == [read_description(now).robot] * 2
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == f"{before}: robot.reach is deprecated; it is called robot.state_bounds now"
    both = write(tmp_path / "both", changed(PENDULUM, reach={}))
    with pytest.raises(ConfigError, match=r"robot\.reach is the old name of robot\.state_bounds"):
        read_description(both)
