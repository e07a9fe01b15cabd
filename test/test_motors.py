"""What drives the joints of a user's model, and what of it the simulator keeps."""

import numpy as np
import pytest
import torch
from own_robots import changed, modelled, refusal, resolved, task_of

from hucrl_ros.robots import MujocoRobot
from hucrl_ros.robots.measured import elsewhere

CART = """<mujoco><option timestep="0.01"/><worldbody>
  <body><joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1"/><site name="tip"/>
    <body><joint name="swing" axis="0 1 0"/><geom size="0.05" pos="0 0 0.3"/></body></body>
</worldbody><tendon><fixed name="belt"><joint joint="swing" coef="1"/></fixed></tendon>
<actuator>{motors}</actuator></mujoco>"""
RAIL = '<motor name="drive" joint="rail" ctrlrange="-3 3" {more}/>'
SWING = '<motor name="turn" joint="swing" ctrlrange="-1 1"/>'


def cart(motors, more="", **robot):
    """The arguments of a description whose model has these motors."""
    return {"model": CART.format(motors=RAIL.format(more=more) + motors), **robot}


@pytest.mark.parametrize(
    ("motors", "message"),
    [
        ('<motor joint="rail" gear="2"/>', "joint 'rail' has two actuators; expected one at most"),
        ('<motor name="pull" tendon="belt"/>', "actuator 'pull' drives no joint (tendon, site"),
        ('<motor site="tip" gear="0 0 1 0 0 0"/>', "actuator 1 drives no joint (tendon, site"),
    ],
)
@pytest.mark.parametrize("actuated", [(), ("rail",)])
def test_a_motor_that_would_be_lost_is_refused(tmp_path, motors, message, actuated):
    found = refusal(tmp_path, modelled(tmp_path, **cart(motors, actuated=list(actuated))))
    assert message in found
    assert "model.xml" in found


@pytest.mark.parametrize("gear", ["-2", "0"])
def test_a_motor_that_pushes_backwards_is_refused(tmp_path, gear):
    found = refusal(tmp_path, modelled(tmp_path, **cart("", f'gear="{gear}"')))
    assert f"the motor of joint 'rail' has a gear of {gear}; a positive effort has to" in found


@pytest.mark.parametrize(
    "more",
    [
        '<keyframe><key qpos="0 0" ctrl="1 1"/></keyframe>',
        '<sensor><actuatorfrc actuator="drive"/></sensor>',
    ],
)
def test_what_needs_the_models_own_motors_is_refused_by_the_setting(tmp_path, more):
    model = CART.format(motors=RAIL.format(more="") + SWING).replace(
        "</mujoco>", f"{more}</mujoco>"
    )
    message = refusal(tmp_path, modelled(tmp_path, model, actuated=["swing"]))
    assert "model.xml: MuJoCo can't compile it" in message
    assert "robot.actuated = ['swing'] replaces the model's motors (rail, swing)" in message


LINK = """<link name="{0}"><inertial><mass value="1"/><origin xyz="0.1 0 0"/>
  <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
HAND = f"""<robot name="hand"><link name="base"/>{LINK.format("one")}{LINK.format("two")}
<joint name="first" type="revolute"><parent link="base"/><child link="one"/><axis xyz="0 0 1"/>
  <limit lower="-1" upper="1" effort="5" velocity="2"/></joint>
<joint name="second" type="{{kind}}"><parent link="one"/><child link="two"/><axis xyz="0 0 1"/>
  <limit lower="-1" upper="1" effort="5" velocity="2"/>{{mimic}}</joint></robot>"""


def test_a_link_without_inertia_is_told_what_it_lacks(tmp_path):
    light = HAND.format(kind="revolute", mimic="").replace(
        LINK.format("two"), '<link name="two"/>'
    )
    found = refusal(tmp_path, modelled(tmp_path, light))
    assert "Element name 'two'" in found
    assert found.endswith("above 0: in a URDF an <inertial> in each <link>")


def test_a_joint_that_another_one_moves_gets_no_motor(tmp_path):
    hand = HAND.format(kind="revolute", mimic='<mimic joint="first" multiplier="-1"/>')
    found = resolved(tmp_path, modelled(tmp_path, hand)).robot
    assert (found.joints, found.actuated) == (("first", "second"), ("first",))
    both = modelled(tmp_path, hand, actuated=["first", "second"])
    assert resolved(tmp_path, both).robot.effort_limits == (5.0, 5.0)


def test_a_joint_that_another_one_moves_starts_where_that_leads_it(tmp_path):
    """Elsewhere the simulator would hurl it there."""
    mimic = '<mimic joint="first" multiplier="-0.5" offset="0.1"/>'
    hand = modelled(tmp_path, HAND.format(kind="revolute", mimic=mimic))
    start = {"first": {"low": 0.2, "high": 0.8}, "first_velocity": 0.4}
    described = resolved(tmp_path, changed(hand, start=start))
    assert described.robot.start["second"].range == pytest.approx((-0.3, 0.0))
    assert described.robot.start["second_velocity"].middle == -0.2
    robot, draws = MujocoRobot(described), np.random.default_rng(0)
    for state in (robot.reset(draws), elsewhere(robot, robot.state, draws)):
        assert state[1] == pytest.approx(0.1 - 0.5 * state[0], abs=1e-9)
        assert state[3] == pytest.approx(-0.5 * state[2])
    robot.step(np.zeros(1))
    assert robot.state[2:] == pytest.approx([0.4, -0.2], abs=0.02)


def test_imagined_states_and_those_that_follow_one_that_follows_are_where_they_are_led(tmp_path):
    """No data ever tell of others, and a search that begins there learns what can't be."""
    third = (
        LINK.format("three")
        + """<joint name="third" type="revolute"><parent link="two"/>
    <child link="three"/><axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="5" velocity="2"/>
    <mimic joint="second" multiplier="2"/></joint></robot>"""
    )
    mimic = '<mimic joint="first" multiplier="-0.5" offset="0.1"/>'
    chain = HAND.format(kind="revolute", mimic=mimic).replace("</robot>", third)
    task = task_of(tmp_path, modelled(tmp_path, chain))
    states = task.imagined_states(50, torch.Generator().manual_seed(0))
    first, second, third, *speeds = states.T.numpy()
    assert np.ptp(first) > 1.0 and np.ptp(speeds[0]) > 0.1
    assert second == pytest.approx(0.1 - 0.5 * first, abs=1e-6)
    assert third == pytest.approx(2.0 * second, abs=1e-6)
    assert speeds[1:] == [pytest.approx(-0.5 * speeds[0]), pytest.approx(-speeds[0])]
    assert MujocoRobot(task.described).reset(np.random.default_rng(0))[2] == pytest.approx(0.2)


def test_a_planar_joint_is_refused_unless_its_motors_are_named(tmp_path):
    hand = HAND.format(kind="planar", mimic="")
    message = refusal(tmp_path, modelled(tmp_path, hand))
    assert "model.urdf: joint 'second' is planar; expected revolute, continuous" in message
    named = resolved(tmp_path, modelled(tmp_path, hand, actuated=["first"])).robot
    assert named.joints == ("first", "second_TX", "second_TY", "second_RZ")
    assert named.actuated == ("first",)


@pytest.mark.parametrize("actuated", [["rail", "swing"], ["swing", "rail"]])
def test_a_motors_least_limit_counts_in_any_order(tmp_path, actuated):
    document = modelled(tmp_path, **cart(SWING, 'forcerange="-2 2"', actuated=actuated))
    found = resolved(tmp_path, document)
    assert dict(zip(actuated, found.robot.effort_limits, strict=True)) == {"rail": 2, "swing": 1}
    robot = MujocoRobot(found)
    robot.set_state(np.zeros(4))
    robot.data.ctrl[:] = 3.0
    robot.substep(np.full(2, 3.0))
    drive = actuated.index("rail")
    assert robot.model.actuator_forcerange[drive].tolist() == [-2.0, 2.0]
    assert robot.data.actuator_force[drive] == 2.0


def test_an_uneven_largest_force_is_kept_and_its_lesser_side_is_the_limit(tmp_path):
    uneven = cart(SWING, 'forcerange="-2 1"', actuated=["swing", "rail"], effort_limits=[1.0, 1.0])
    found = resolved(tmp_path, modelled(tmp_path, **uneven))
    assert found.robot.effort_limits == (1.0, 1.0)
    assert MujocoRobot(found).model.actuator_forcerange[1].tolist() == [-2.0, 1.0]


def test_what_a_motors_rotor_and_wires_do_is_kept_in_any_order(tmp_path):
    """A small rotor behind a gear is most of what a motor moves."""
    more = 'gear="10" armature="0.05" damping="0.02" delay="0.02" nsample="4"'
    robots = {}
    for actuated in (["rail", "swing"], ["swing", "rail"], ["rail"]):
        document = modelled(tmp_path, **cart(SWING, more, actuated=actuated))
        robots[len(actuated), actuated[0]] = MujocoRobot(resolved(tmp_path, document))
    pushed = {}
    for key, robot in robots.items():
        drive = robot.spec.actuated_joints.index("rail")
        robot.set_state(np.array([0.0, 0.0, 1.0, 0.0]))
        pushed[key] = [robot.step(np.eye(len(robot.spec.actuated_joints))[drive]) for _ in "123"]
    assert pushed[2, "swing"] == pytest.approx(np.array(pushed[2, "rail"]))
    assert pushed[1, "rail"] == pytest.approx(np.array(pushed[2, "rail"]))


@pytest.mark.parametrize("default", ['ctrlrange="-1 1"', 'forcerange="-1 1"'])
def test_limits_of_motors_that_the_model_has_no_more_dont_hold_for_added_servos(tmp_path, default):
    """Robots of Gymnasium's have such a default; the range of a motor is none of positions."""
    model = CART.format(motors="").replace(
        "<worldbody>", f"<default><motor {default}/></default><worldbody>"
    )
    servos = {joint: {"kp": 100.0, "kv": 20.0} for joint in ("rail", "swing")}
    added = {"command": "position", "command_limits": [2.0, 2.0], "servos": servos}
    document = modelled(tmp_path, model, actuated=["rail", "swing"], timestep=0.001, **added)
    robot = MujocoRobot(resolved(tmp_path, document))
    robot.set_state(np.array([2.0, 0.0, 0.0, 0.0]))
    robot.substep(np.array([2.5, 0.0]))
    assert robot.efforts[0] == pytest.approx(50.0, rel=0.05)
