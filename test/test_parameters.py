"""A node's settings: those of its run, replaced by the parameters that it was given."""

import pytest

pytest.importorskip("rclpy", reason="nodes are ROS 2's")

from lone_node import LoneNode
from manifest_factory import write_manifest
from own_robots import PENDULUM, resolved

from hucrl_ros.config.files import override
from hucrl_ros.config.schema import Config, PlannerSettings
from hucrl_ros.config.task_file import find_description, known_tasks
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.errors import BundleError, ConfigError, RunError
from hucrl_ros.nodes.parameters import (
    given_settings,
    make_admission,
    make_trust,
    read_config,
    robot_of_run,
)
from hucrl_ros.robots.resolve import describe, resolve
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import prepare_run


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


# What a node is told of its robot

OWN = ("run", "robot")
BY_ITSELF = "the first bundle itself says what the robot is and what is safe"


@pytest.fixture
def bundle(tmp_path):
    """For the pendulum, with the schema's settings of safety."""
    return write_manifest(tmp_path / "bundle", 1)


def offer(node, bundle, **changes):
    """The guard under which a bundle would play, and what the node said at its start."""
    admission = make_admission(node, read_config(node, OWN), "safety")
    manifest = read_manifest(bundle).model_copy(update=changes)
    return admission.admit(bundle, manifest)[1]


def test_a_run_says_what_its_bundles_may_do_the_first_one_included(tmp_path, bundle):
    config = Config(safety={"effort_rate": 0.1, "stale_periods": 2.0})
    run = RunFolder.create(tmp_path / "run", config, describe("pendulum"))
    node = Node(run=str(run.root))
    assert offer(node, bundle).safety == config.safety
    with pytest.raises(BundleError, match=r"effort_limits is .10000.0,. in the bundle, .1.0,."):
        offer(node, bundle, effort_limits=(1e4,))
    with pytest.raises(BundleError, match=r"period is 0.1 in the bundle, 0.0125 here"):
        offer(node, bundle, period=0.1)
    assert not node.lines


def test_a_node_without_a_run_may_be_told_of_a_task_s_robot(bundle):
    node = Node(robot="pendulum", task="pendulum", mode="real_time")
    with pytest.raises(BundleError, match=r"effort_limits is .10000.0,. in the bundle"):
        offer(node, bundle, effort_limits=(1e4,))
    assert offer(node, bundle).safety.filter, "as in a run on that robot"
    assert not node.lines


def test_a_robot_s_yaml_says_what_is_safe_and_parameters_replace_it(tmp_path):
    limited = "/**: {ros__parameters: {safety: {effort_rate: 0.1, velocity_limits: [9.0]}}}\n"
    described = resolved(tmp_path, PENDULUM)
    path = described.path
    path.write_text(path.read_text() + limited)
    robot = described.robot.spec
    bundle = write_manifest(tmp_path / "bundle", 1)
    changes = {
        "task": "stick",
        "robot": "stick",
        "joint_names": robot.joint_names,
        "actuated_joints": robot.actuated_joints,
        "effort_limits": robot.effort_limits,
        "period": robot.period,
    }
    node = Node(robot=str(path), task="stick")
    safety = offer(node, bundle, **changes).safety
    assert (safety.effort_rate, safety.velocity_limits) == (0.1, (9.0,))
    node = Node(robot=str(path), task="stick", safety__effort_rate=0.3)
    safety = offer(node, bundle, **changes).safety
    assert (safety.effort_rate, safety.velocity_limits) == (0.3, (9.0,))


def test_a_robot_of_another_task_is_refused(bundle):
    with pytest.raises(ConfigError, match="describes 'pendulum'; the task is 'cartpole'"):
        offer(Node(robot="pendulum", task="cartpole"), bundle)
    with pytest.raises(ConfigError, match="No such file"):
        offer(Node(robot="nowhere.yaml", task="pendulum"), bundle)


def test_without_either_the_bundle_says_what_is_safe_and_so_does_a_line(bundle):
    node = Node(task="pendulum", safety__effort_rate=0.1)
    guard = offer(node, bundle, effort_limits=(1e4,))
    assert (guard.spec.effort_limits, guard.safety.effort_rate) == ((1e4,), 0.1)
    assert len(node.lines) == 1 and BY_ITSELF in node.lines[0]


def test_bundles_of_a_run_lie_in_its_folder(tmp_path, bundle):
    run = RunFolder.create(tmp_path / "run", Config())
    inside = write_manifest(run.bundle(1), 1)
    node = Node(run=str(run.root))
    trust = make_trust(node, read_config(node, OWN))
    trust.require_inside(inside)
    with pytest.raises(BundleError, match="not inside"):
        trust.require_inside(bundle)
    wider = Node(run=str(run.root), control__bundle_root=str(tmp_path))
    make_trust(wider, read_config(wider, OWN)).require_inside(bundle)
    alone = Node(task="pendulum")
    make_trust(alone, read_config(alone, OWN)).require_inside(bundle)
