"""The examples for ros2_control say the same of a robot as its description."""

import xml.etree.ElementTree as ElementTree

import mujoco
import numpy as np
import pytest
import yaml
from own_robots import EXAMPLES

from hucrl_ros.robots.resolve import describe

FOLDER = EXAMPLES / "ros2_control"
ROBOTS = {
    "furuta": (EXAMPLES / "furuta" / "furuta.yaml", "effort_controller"),
    "six_axis_arm": (FOLDER / "six_axis_arm.yaml", "velocity_controller"),
}


@pytest.fixture(params=ROBOTS)
def example(request):
    """The description's robot, the URDF, the controllers' parameters, and who takes commands."""
    description, controller = ROBOTS[request.param]
    urdf = ElementTree.parse(FOLDER / f"{request.param}.urdf").getroot()
    controllers = yaml.safe_load((FOLDER / f"{request.param}_controllers.yaml").read_text())
    return describe(str(description)).robot, urdf, controllers, controller


def parameters(controllers, node):
    return controllers[node]["ros__parameters"]


def test_the_controller_takes_what_the_description_sends(example):
    robot, _, controllers, name = example
    manager = parameters(controllers, "controller_manager")
    assert manager[name]["type"] == "forward_command_controller/ForwardCommandController"
    told = parameters(controllers, name)
    assert told["joints"] == list(robot.actuated), "in this order"
    assert told["interface_name"] == robot.command
    assert robot.topics.get("commands", f"/{name}/commands") == f"/{name}/commands"
    broadcaster = manager["joint_state_broadcaster"]["type"]
    assert broadcaster == "joint_state_broadcaster/JointStateBroadcaster"


def test_joint_states_come_in_whole_parts_of_a_control_period(example):
    robot, _, controllers, _ = example
    rate = parameters(controllers, "controller_manager")["update_rate"]
    assert isinstance(rate, int)
    assert rate * robot.period == pytest.approx(round(rate * robot.period))
    assert rate * robot.period >= 1


def test_the_hardware_has_the_joints_interfaces_and_limits(example):
    robot, urdf, _, _ = example
    joints = {joint.get("name"): joint for joint in urdf.findall("ros2_control/joint")}
    assert list(joints) == list(robot.joints)
    assert {joint.get("name") for joint in urdf.findall("joint")} == set(joints)
    for name, joint in joints.items():
        states = {state.get("name") for state in joint.findall("state_interface")}
        assert {"position", "velocity"} <= states
        commands = joint.findall("command_interface")
        assert [each.get("name") for each in commands] == [robot.command] * (
            name in robot.actuated
        )
    for name, limit in zip(robot.actuated, robot.action_limits, strict=True):
        bounds = {p.get("name"): float(p.text) for p in joints[name].iter("param")}
        assert bounds["min"] == -bounds["max"]
        hard = urdf.find(f"joint[@name='{name}']/limit")
        assert bounds["max"] == float(hard.get(robot.command))
        assert limit <= bounds["max"]


def test_the_pendulums_urdf_is_its_model():
    """The mass matrix and gravity in some poses; a URDF knows no inertia of a motor."""
    ours = mujoco.MjModel.from_xml_path(str(EXAMPLES / "furuta" / "furuta.xml"))
    theirs = mujoco.MjModel.from_xml_path(str(FOLDER / "furuta.urdf"))
    ours.dof_armature[:] = 0.0
    rng = np.random.default_rng(0)
    for _ in range(5):
        qpos, qvel = rng.uniform(-3, 3, (2, 2))
        forces = []
        for model in (ours, theirs):
            data = mujoco.MjData(model)
            data.qpos[:], data.qvel[:] = qpos, qvel
            mujoco.mj_forward(model, data)
            forces.append(data.qacc.copy())
        np.testing.assert_allclose(forces[0], forces[1], rtol=1e-6)
