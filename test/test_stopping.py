"""What motors promise, against closed forms."""

import numpy as np
import pytest
from own_robots import ARM, changed, resolved

from hucrl_ros.robots.mujoco_robot import MujocoRobot
from hucrl_ros.robots.stopping import LEAST, LOST, promised

HEAD = "<mujoco><compiler angle='radian'/><option timestep='0.01' gravity='0 0 {g}'/><worldbody>"
SLIDE = """<body><joint name="j" type="slide" axis="1 0 0"/>
<geom type="sphere" size="0.1" mass="2"/></body></worldbody>
<actuator><motor joint="j" gear="10" ctrlrange="-3 3"/></actuator></mujoco>"""
PENDULUM = """<body><joint name="j" axis="0 1 0"/><inertial pos="0 0 -0.5" mass="2"
diaginertia="1e-9 1e-9 1e-9"/></body></worldbody>
<actuator><motor joint="j" ctrlrange="-{most} {most}"/></actuator></mujoco>"""
CART = """<body><joint name="j" type="slide" axis="1 0 0"/><inertial pos="0 0 0" mass="3"
diaginertia="1 1 1"/><body><joint name="pole" axis="0 1 0"/><inertial pos="0 0 -1" mass="1"
diaginertia="1e-9 1e-9 1e-9"/></body></body></worldbody>
<actuator><motor joint="j" ctrlrange="-8 8"/></actuator></mujoco>"""
TWO_LINKS = """<body><joint name="a" axis="0 0 1"/><inertial pos="1 0 0" mass="1"
diaginertia="1e-9 1e-9 1e-9"/><body pos="1 0 0"><joint name="b" axis="0 0 1"/>
<inertial pos="1 0 0" mass="1" diaginertia="1e-9 1e-9 1e-9"/></body></body></worldbody>
<actuator><motor joint="a" ctrlrange="-4 4"/><motor joint="b" ctrlrange="-4 4"/></actuator>
</mujoco>"""


def robot_of(folder, body, gravity=0.0, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.xml").write_text(HEAD.format(g=gravity) + body)
    robot = {"name": "r", "model": "model.xml", "period": 0.02, "steps": 10, **changes}
    reward = {"terms": [{"term": "effort"}]}
    return MujocoRobot(resolved(folder, {"robot": robot, "reward": reward}))


def test_a_mass_on_a_slide_stops_with_force_over_mass(tmp_path):
    found = promised(robot_of(tmp_path, SLIDE, gravity=-9.81))
    assert found.deceleration == found.acceleration == pytest.approx((30.0 / 2.0,))
    assert found.speed == ()


def test_how_late_a_motor_acts_doesnt_change_what_it_promises(tmp_path):
    late = SLIDE.replace('gear="10"', 'gear="10" delay="0.05" nsample="5"')
    robot = robot_of(tmp_path, late)
    found = promised(robot)
    assert found.deceleration == found.acceleration == pytest.approx((30.0 / 2.0,))
    robot.set_state(np.zeros(2))
    assert [robot.step(np.ones(1))[1] > 0.0 for _ in "123"] == [False, False, True]


def test_smaller_limits_promise_less(tmp_path):
    assert promised(robot_of(tmp_path, SLIDE), (1.5,)).deceleration == pytest.approx((7.5,))


def test_gravity_takes_its_share_where_it_pulls_most(tmp_path):
    """m l^2 = 0.5, m g l = 9.81 at a right angle, which one of the poses comes close to."""
    found = promised(robot_of(tmp_path, PENDULUM.format(most=15), gravity=-9.81))
    assert found.deceleration == pytest.approx(((15 - 9.81) / 0.5,), rel=0.01)
    assert found.deceleration[0] >= (15 - 9.81) / 0.5 - 1e-4
    assert found.acceleration == pytest.approx((15 / 0.5,), rel=1e-5)


FOLLOWER = """<body><joint name="j" type="slide" axis="1 0 0"/><geom size="0.1" mass="0.3"/></body>
<body pos="0 1 0"><joint name="f" type="slide" axis="1 0 0"/><geom size="0.1" mass="0.7"/></body>
<body pos="0 2 0"><joint name="g" type="slide" axis="1 0 0"/><geom size="0.1" mass="0.1"/></body>
</worldbody><equality>{chain}</equality>
<actuator><motor joint="j" ctrlrange="-3 3"/></actuator></mujoco>"""
CHAINS = {
    "leader last": ((("g", "f", 3), ("f", "j", -2)), 0.3 + 4 * 0.7 + 36 * 0.1),
    "leader first": ((("j", "f", -0.5), ("g", "f", 3)), 0.3 + 4 * 0.7 + 36 * 0.1),
    "one free": ((("f", "j", -2),), 0.3 + 4 * 0.7),
    "one held": ((("f", None, 0), ("g", "j", 1)), 0.3 + 0.1),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_joints_that_follow_are_carried_along(tmp_path, chain):
    """As a URDF's mimic joints are: of a ratio r each adds r² of its mass."""
    pairs, mass = CHAINS[chain]
    told = "".join(
        f'<joint joint1="{one}" {f"""joint2="{other}" """ * bool(other)}polycoef="0 {by} 0 0 0"/>'
        for one, other, by in pairs
    )
    found = promised(robot_of(tmp_path, FOLLOWER.format(chain=told)))
    assert found.deceleration == found.acceleration == pytest.approx((3.0 / mass,), rel=1e-5)


def test_something_is_promised_where_gravity_is_stronger_than_the_motor(tmp_path):
    found = promised(robot_of(tmp_path, PENDULUM.format(most=5), gravity=-9.81))
    assert found.deceleration == pytest.approx((LEAST * 5 / 0.5,), rel=1e-5)


def test_other_joints_are_held_while_braking_and_free_while_speeding_up(tmp_path):
    """The pole held, its mass is carried along: 8 / 4. Free, it hangs and stays behind: 8 / 3."""
    found = promised(robot_of(tmp_path, CART, gravity=-9.81))
    assert found.deceleration == pytest.approx((2.0,), rel=1e-5)
    assert found.acceleration == pytest.approx((8 / 3,), rel=0.01)


def test_speeds_leave_half_of_the_effort_to_brake(tmp_path):
    """Two unit masses at unit distances: |c_a| = |2 v_a v_b + v_b^2|, c_b = v_a^2, by sin(b).

    With both speeds of one sign and the elbow at a right angle the first is the largest.
    """
    found = promised(robot_of(tmp_path, TWO_LINKS))
    assert found.deceleration == pytest.approx((4 / 5, 4 / 1), rel=0.01)
    a, b = found.speed
    assert b / a == pytest.approx(np.sqrt(found.deceleration[1] / found.deceleration[0]), rel=1e-4)
    assert max(2 * a * b + b * b, a * a) == pytest.approx(LOST * 4.0, rel=0.01)


def test_it_is_the_same_every_time_and_empty_for_drives(tmp_path):
    arm = MujocoRobot(resolved(tmp_path / "arm", ARM))
    assert promised(arm) == promised(arm)
    servos = {"shoulder": {"kv": 1.0}, "elbow": {"kv": 1.0}}
    driven = changed(ARM, command="velocity", command_limits=[1.0, 1.0], servos=servos)
    assert promised(MujocoRobot(resolved(tmp_path / "driven", driven))) == ((), (), ())
