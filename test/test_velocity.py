"""Slopes of positions against movements whose velocity is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hucrl_ros.controller.velocity import VelocityEstimator

WINDOW = 0.0125


def told(positions, rate, window=WINDOW):
    """Velocities at each of the samples of a movement."""
    estimator, velocities = VelocityEstimator(window), []
    for k, position in enumerate(positions):
        stamp_ns = round(1e9 * (5 + k / rate))
        estimator.add(stamp_ns, np.atleast_1d(position))
        velocities.append(estimator.at(stamp_ns)[0])
    return np.array(velocities)


@given(st.sampled_from([80, 250, 500, 1000]), st.floats(-5, 5), st.floats(-50, 50))
def test_of_even_movement_it_is_exact(rate, start, speed):
    times = np.arange(rate) / rate
    settled = told(start + speed * times, rate)[rate // 10 :]
    np.testing.assert_allclose(settled, speed, atol=1e-6)


@pytest.mark.parametrize("rate", [80, 500])
def test_of_accelerated_movement_it_is_that_of_half_a_window_ago(rate):
    times = np.arange(rate) / rate
    span = np.ceil(0.9 * WINDOW * rate) / rate
    settled = told(0.5 * 15.0 * times**2, rate)[rate // 10 :]
    np.testing.assert_allclose(settled, 15.0 * (times[rate // 10 :] - span / 2), atol=1e-6)


def test_an_encoders_steps_are_averaged():
    rate, step = 500, 2 * np.pi / 4096
    times = np.arange(2 * rate) / rate
    speed = 3.0
    positions = np.floor(speed * times / step) * step
    error = told(positions, rate)[50:] - speed
    plain = np.diff(positions) * rate - speed
    assert np.std(error) < 0.35 * np.std(plain)
    assert np.std(error) < 0.07


def test_a_turn_of_the_encoder_is_no_movement():
    positions = (3.0 + 2.0 * np.arange(500) / 500) % (2 * np.pi)
    np.testing.assert_allclose(told(positions, 500)[20:], 2.0, atol=1e-6)


def test_repetitions_old_samples_and_the_order_of_asking_change_nothing():
    estimator = VelocityEstimator(WINDOW)
    for k in (0, 1, 2, 2, 1, 3, 4, 5, 6, 7, 8):
        estimator.add(2_000_000 * k, np.array([0.01 * k]))
    late = estimator.at(16_000_000)
    np.testing.assert_allclose(late, [5.0])
    np.testing.assert_allclose(estimator.at(12_000_000), [5.0])
    np.testing.assert_array_equal(estimator.at(16_000_000), late)


def test_without_enough_of_the_past_a_joint_is_at_rest():
    estimator = VelocityEstimator(WINDOW)
    assert estimator.at(0).shape == (0,)
    estimator.add(0, np.array([1.0, 2.0]))
    np.testing.assert_array_equal(estimator.at(0), [0.0, 0.0])
    estimator.add(200_000_000, np.array([3.0, 2.0]))
    np.testing.assert_array_equal(estimator.at(200_000_000), [0.0, 0.0])
    estimator.reset()
    assert estimator.at(200_000_000).shape == (0,)
