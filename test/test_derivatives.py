"""Differences are the derivatives of functions whose derivatives are known."""

import numpy as np

from hucrl_ros.planners.derivatives import expand, scalar_derivatives

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((3, 3)), RNG.standard_normal((3, 2))
Q = RNG.standard_normal((5, 5))
Q = -Q @ Q.T
LINEAR = RNG.standard_normal(5)


class Quadratic:
    """s' = As + Ba, r = b z + z'Qz / 2 with z = (s, a)."""

    def step(self, states, actions):
        return states @ A.T + actions @ B.T, self.rewards(states, actions)

    def rewards(self, states, actions):
        z = np.concatenate([states, actions], axis=1)
        return z @ LINEAR + 0.5 * (z @ Q * z).sum(axis=1)


def test_a_linear_quadratic_system_is_expanded_exactly():
    states, actions = RNG.standard_normal((4, 3)), RNG.standard_normal((4, 2))
    found = expand(Quadratic(), states, actions, np.array([1.0, 0.1, 10.0]))
    z = np.concatenate([states, actions], axis=1)
    np.testing.assert_allclose(found.jacobian, np.tile(np.hstack([A, B]), (4, 1, 1)), atol=1e-8)
    np.testing.assert_allclose(found.gradient, LINEAR + z @ Q, atol=1e-7)
    np.testing.assert_allclose(found.hessian, np.tile(Q, (4, 1, 1)), atol=1e-5)


def test_curved_functions_up_to_the_square_of_the_difference():
    points = RNG.uniform(-1, 1, (6, 2))
    gradient, hessian = scalar_derivatives(
        lambda z: np.sin(z[:, 0]) * np.exp(z[:, 1]), points, np.full(2, 1e-3)
    )
    s, c, e = np.sin(points[:, 0]), np.cos(points[:, 0]), np.exp(points[:, 1])
    np.testing.assert_allclose(gradient, np.stack([c * e, s * e], axis=1), atol=1e-5)
    expected = np.stack([[-s * e, c * e], [c * e, s * e]]).transpose(2, 0, 1)
    np.testing.assert_allclose(hessian, expected, atol=1e-4)


def test_functions_of_one_number_have_no_pairs():
    gradient, hessian = scalar_derivatives(lambda z: z[:, 0] ** 2, np.ones((2, 1)), np.ones(1))
    np.testing.assert_allclose(gradient, [[2.0], [2.0]])
    np.testing.assert_allclose(hessian, [[[2.0]], [[2.0]]])
