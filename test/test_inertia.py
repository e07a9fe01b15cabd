"""What the model says of efforts, against mass matrices in closed form."""

import math

import numpy as np
import pytest
from own_robots import EXAMPLES

from hucrl_ros.doctor.inertia import inertia
from hucrl_ros.robots.resolve import describe


def test_one_joint_has_the_gain_of_its_inertia():
    found = inertia(describe("pendulum"), [math.pi])
    assert found.gains.tolist() == pytest.approx([1 / (0.3 * 0.5**2)])
    assert found.free[0].tolist() == pytest.approx(found.gains.tolist())
    assert found.coupling.tolist() == [[0.0]]


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
