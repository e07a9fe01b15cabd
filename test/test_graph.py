"""The one list of nodes: complete, runnable, and the same for everybody who starts them."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from hucrl_ros.config.files import share_directory
from hucrl_ros.config.schema import Config
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.node_list import CONTROLLER, SUPERVISOR, NodeSpec, control_graph, learning_graph

NODES = {"simulator", "recorder", "watchdog", "controller", "learner", "supervisor"}


def test_learning_takes_each_node_of_the_contract_once(run_folder):
    names = [node.name for node in learning_graph(run_folder)]
    assert sorted(names) == sorted(NODES)


def test_a_learner_on_another_machine_has_a_stand_in_at_the_robot(run_folder):
    here = {node.name: node for node in learning_graph(run_folder)}
    there = {node.name: node for node in learning_graph(run_folder, listen="127.0.0.1:8642")}
    assert set(there) == NODES - {"learner"} | {"remote_learner"}
    assert there["remote_learner"].parameters["listen"] == "127.0.0.1:8642"
    assert there["remote_learner"].parameters["run"] == str(run_folder.root)
    assert there[SUPERVISOR].parameters["remote_learner"] is True
    assert "remote_learner" not in here[SUPERVISOR].parameters
    assert importlib.util.find_spec(there["remote_learner"].module) is not None


@pytest.mark.parametrize(("mode", "more"), [("lockstep", set()), ("real_time", {"homing"})])
def test_a_motion_to_the_start_has_a_node_of_its_own(mode, more, tmp_path):
    run = RunFolder.create(tmp_path / "run", Config(mode=mode, driver={"reset": "home"}))
    for simulated in (True, False):
        names = [node.name for node in learning_graph(run, simulated=simulated)]
        assert set(names) == (NODES | more) - (set() if simulated else {"simulator"})
        assert names[-1] == SUPERVISOR


def test_the_supervisor_starts_last(run_folder):
    assert learning_graph(run_folder)[-1].name == SUPERVISOR


def test_every_node_has_a_module_and_an_executable(run_folder):
    setup = (share_directory() / "setup.py").read_text()
    installed = set(re.findall(r'"(\w+)"', re.search(r"(?s)NODES = \((.+?)\)", setup)[1]))
    for node in learning_graph(run_folder):
        assert importlib.util.find_spec(node.module) is not None
        assert node.executable in installed


def test_every_node_of_a_run_reads_its_settings_in_its_folder(run_folder):
    for node in learning_graph(run_folder):
        assert node.parameter_file is None
        assert node.parameters["run"] == str(run_folder.root)
        assert node.required


def test_only_the_supervisor_is_told_of_lost_nodes(run_folder):
    for node in learning_graph(run_folder, parent_reports=True):
        assert node.parameters.get("parent_reports", False) == (node.name == SUPERVISOR)


def test_a_robot_is_controlled_by_controller_and_watchdog_alone(tmp_path):
    nodes = {node.name: node for node in control_graph(tmp_path / "bundle_003", "pendulum")}
    assert set(nodes) == {CONTROLLER, "watchdog"}
    assert nodes[CONTROLLER].parameters["bundle"] == str(tmp_path / "bundle_003")
    assert all(node.parameters["mode"] == "real_time" for node in nodes.values())
    assert all(node.parameter_file is None for node in nodes.values())


def test_controller_and_watchdog_are_told_of_the_robot_and_the_recorder_is_not(
    run_folder, tmp_path
):
    nodes = control_graph(tmp_path, "pendulum", robot="my.yaml", run=run_folder)
    assert {node.name: node.parameters.get("robot") for node in nodes} == {
        CONTROLLER: "my.yaml",
        "watchdog": "my.yaml",
        "recorder": None,
    }


def test_a_robots_recorder_is_not_required(run_folder, tmp_path):
    nodes = control_graph(tmp_path, "pendulum", run=run_folder)
    assert {node.name: node.required for node in nodes} == {
        CONTROLLER: True,
        "watchdog": True,
        "recorder": False,
    }


def test_a_robots_topics_are_renamed_for_every_node(tmp_path):
    remappings = {"controller/commands": "/forward/commands"}
    for node in control_graph(tmp_path, "pendulum", remappings=remappings):
        command = node.command
        assert command[command.index("-r") + 1] == "controller/commands:=/forward/commands"


def test_a_command_runs_the_nodes_module_with_this_interpreter(run_folder):
    node = learning_graph(run_folder)[0]
    assert node.command[:3] == [sys.executable, "-m", "hucrl_ros.nodes.simulator"]
    assert "--ros-args" in node.command


@pytest.mark.ros
@pytest.mark.parametrize("name", ["plain", "with space", "a: b # c", 'quo"te', "ümläut", "2024"])
def test_ros_reads_the_parameters_as_they_were_meant(ros_domain, tmp_path, name):
    import rclpy
    from rclpy.node import Node

    run = RunFolder.create(tmp_path / name, Config(seed=17))
    spec = NodeSpec(
        "probe", run.config_path, {"run": str(run.root), "text": name, "flag": True, "seed": 3}
    )
    context = rclpy.Context()
    rclpy.init(args=spec.command[3:], context=context)
    try:
        node = Node("probe", context=context, automatically_declare_parameters_from_overrides=True)
        values = {key: node.get_parameter(key).value for key in ("run", "text", "flag", "seed")}
        assert values == {"run": str(run.root), "text": name, "flag": True, "seed": 3}
        assert node.get_parameter("planner.horizon").value == Config().planner.horizon
        node.destroy_node()
    finally:
        rclpy.try_shutdown(context=context)


def test_no_other_code_lists_the_nodes():
    package = Path(importlib.util.find_spec("hucrl_ros").origin).parent
    starters = [package / "run" / "session.py", package / "cli" / "runs.py"]
    starters += (share_directory() / "launch").glob("*.launch.py")
    for path in starters:
        named = {name for name in NODES if re.search(rf"['\"]{name}['\"]", path.read_text())}
        assert named == set(), path
