"""A node's settings: those of its run, replaced by the parameters that it was given."""

import pytest

pytest.importorskip("rclpy", reason="nodes are ROS 2's")

from lone_node import LoneNode
from own_robots import PENDULUM, resolved

from hucrl_ros.config.files import override
from hucrl_ros.config.schema import Config, PlannerSettings
from hucrl_ros.config.task_file import find_description, known_tasks
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.nodes.parameters import given_settings, read_config, robot_of_run
from hucrl_ros.robots.resolve import describe, resolve
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import RunOptions, prepare_run


def Node(**given):  # noqa: N802  # stands for rclpy's
    """Has parameters."""
    node = LoneNode("probe")
    node._parameters.clear()  # what another test gave
    for name, value in given.items():
        node.declare_parameter(name.replace("__", "."), value)
    return node


def test_parameters_replace_the_settings_of_the_run(tmp_path):
    run = RunFolder.create(tmp_path / "run", Config(seed=7, episodes=3))
    config = read_config(Node(run=str(run.root), seed=8, planner__horizon=5), ("run",))
    assert (config.seed, config.episodes) == (8, 3)
    assert config.planner == PlannerSettings(horizon=5)
    assert read_config(Node(run=str(run.root)), ("run",)) == run.config


def test_without_a_run_they_replace_the_defaults():
    assert read_config(Node(seed=8, use_sim_time=False)) == Config(seed=8)


def test_a_node_that_is_told_of_no_run_is_refused(tmp_path):
    with pytest.raises(RunError, match="no run lies there"):
        read_config(Node(run=str(tmp_path)), ("run",))


def test_a_wrong_parameter_is_refused_with_its_node():
    message = r"^parameters of node 'probe': unknown key 'planner\.horizn'; did you mean"
    with pytest.raises(ConfigError, match=message):
        read_config(Node(planner__horizn=3))


def test_only_what_a_node_was_given_replaces_a_bundles_settings():
    node = Node(safety__damping=0.5, planner__elites=4, seed=3)
    assert given_settings(node, "safety") == {"safety.damping": 0.5}
    given = given_settings(node, "planner", "safety")
    bundle = Config(safety={"safe_command": "damping", "damping": 0.1, "effort_rate": 0.2})
    played = override(bundle, given, "here")
    assert played.planner == PlannerSettings(elites=4)
    assert played.safety == bundle.safety.model_copy(update={"damping": 0.5})


def test_settings_that_do_not_go_together_are_refused_in_one_line():
    message = r"^bundle with p: planner: elites \(400\) must not exceed particles \(32\)$"
    with pytest.raises(ConfigError, match=message):
        override(Config(), {"planner.elites": 400}, "bundle with p")


def test_a_run_that_describes_its_robot_tells_its_limits(tmp_path):
    described = resolved(tmp_path, PENDULUM)
    run = RunFolder.create(tmp_path / "run", Config(task="stick"), described)
    spec = robot_of_run(Node(run=str(run.root)), "stick")
    assert spec is not None
    assert (spec.name, spec.effort_limits) == ("stick", (1.0,))


def test_without_such_a_run_the_robot_is_not_known(tmp_path):
    run = RunFolder.create(tmp_path / "run", Config())
    assert robot_of_run(Node(run=str(run.root)), "pendulum") is None
    assert robot_of_run(Node(run=""), "pendulum") is None


@pytest.mark.parametrize("task", known_tasks())
def test_a_new_run_of_a_known_task_tells_its_robot_too(tmp_path, task):
    run = prepare_run(RunOptions(task, out=tmp_path / "run"))
    found = describe(task).robot
    assert robot_of_run(Node(run=str(run.root)), task) == found.spec
    stored = find_description(run.robot, task)
    assert stored.robot == found.model_copy(update={"model": stored.robot.model})
    assert stored.model.is_relative_to(run.robot)
    assert resolve(stored).robot == stored.robot
