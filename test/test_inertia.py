"""What the model says of efforts, against mass matrices in closed form."""

import math

import numpy as np
import pytest
from own_robots import EXAMPLES, modelled, resolved

from hucrl_ros.config.files import share_directory
from hucrl_ros.doctor.inertia import inertia
from hucrl_ros.robots import MujocoRobot
from hucrl_ros.robots.resolve import describe
from hucrl_ros.robots.stopping import promised


def test_one_joint_has_the_gain_of_its_inertia():
    found = inertia(describe("pendulum"), [math.pi])
    assert found.gains.tolist() == pytest.approx([1 / (0.3 * 0.5**2)])
    assert found.free[0].tolist() == pytest.approx(found.gains.tolist())
    assert found.coupling.tolist() == [[0.0]]


def test_a_motor_that_acts_late_has_the_same_gain(tmp_path):
    model = (share_directory() / "sim" / "pendulum.xml").read_text()
    late = model.replace('gear="1"', 'gear="1" delay="0.02" nsample="9"')
    found = inertia(resolved(tmp_path, modelled(tmp_path, late, period=0.0125)), [math.pi])
    assert found.gains.tolist() == pytest.approx([1 / (0.3 * 0.5**2)])
    assert found.free[0].tolist() == pytest.approx(found.gains.tolist())


@pytest.mark.parametrize("elbow", [0.0, 1.2, math.pi / 2])
def test_an_arm_of_two_links_has_its_mass_matrix(elbow):
    found = inertia(describe(str(EXAMPLES / "planar_arm" / "planar_arm.yaml")), [0.3, elbow])
    mass = planar_mass(elbow)
    held = np.diag(mass)
    assert found.gains == pytest.approx(1 / held)
    assert found.coupling == pytest.approx(mass / held[:, None] - np.eye(2))
    assert found.free == pytest.approx(np.linalg.inv(mass))


def planar_mass(elbow):
    """Of config/examples/planar_arm, by hand."""
    coupling = 0.7 * 0.3 * 0.15 * math.cos(elbow)
    outer = 0.006 + 0.7 * 0.15**2
    inner = 0.0085 + 1.0 * 0.15**2 + outer + 0.7 * 0.3**2 + 2 * coupling
    return np.array([[inner, outer + coupling], [outer + coupling, outer]])


def test_a_joint_without_a_motor_takes_part():
    found = inertia(describe("cartpole"), [0.0, 0.0])
    assert found.coupling.shape == found.free.shape == (1, 2)
    # With the pole held the cart pushes both masses; free, the pole falls back, and is light.
    assert 0 < found.gains[0] < found.free[0, 0]
    across = inertia(describe("cartpole"), [0.0, math.pi / 2])
    assert across.coupling[0, 1] == pytest.approx(0.0, abs=1e-9)
    assert across.gains[0] == pytest.approx(found.gains[0])


def test_joints_that_follow_are_carried_along(tmp_path):
    finger = (
        '<body><joint name="{0}" type="slide" axis="{1}" range="0 .1"/>'
        '<geom size=".01" mass=".1"/></body>'
    )
    axes = {"left": "1 0 0", "right": "-1 0 0", "third": "0 1 0"}
    fingers = "".join(finger.format(*each) for each in axes.items())
    model = f"""<mujoco><option gravity="0 0 0"/><worldbody><body pos="0 0 1"><geom size=".03"/>
      {fingers}</body></worldbody>
      <equality><joint joint1="right" joint2="left"/>
      <joint joint1="third" joint2="left"/></equality>
      <actuator><motor joint="left" ctrlrange="-1 1"/></actuator></mujoco>"""
    described = resolved(tmp_path, modelled(tmp_path, model))
    found = inertia(described)
    assert promised(MujocoRobot(described)).acceleration == pytest.approx((1 / 0.3,), rel=1e-3)
    assert found.gains == pytest.approx([1 / 0.3])
    assert found.free == pytest.approx(np.full((1, 3), 1 / 0.3))
    assert found.coupling == pytest.approx(np.zeros((1, 3)))
