"""What moves a robot before there is a model: as large and as fast as was asked for."""

import numpy as np
import pytest

from hucrl_ros.controller.random_efforts import SPREAD, RandomEfforts

LARGEST = np.array([1.0, 0.2])
PERIOD = 1 / 80


def drawn(bandwidth, count=40_000, seed=0, largest=LARGEST):
    source, rng = RandomEfforts(largest, bandwidth, PERIOD), np.random.default_rng(seed)
    source.reset()
    return np.array([source.draw(rng) for _ in range(count)])


def test_without_a_bandwidth_they_are_uniform_and_new_in_each_period():
    efforts = drawn(0.0)
    expected = np.random.default_rng(0).uniform(-LARGEST, LARGEST, (40_000, 2))
    np.testing.assert_array_equal(efforts, expected)


@pytest.mark.parametrize("bandwidth", [0.5, 2.0, 10.0])
def test_smooth_ones_have_their_power_below_the_bandwidth(bandwidth):
    efforts = drawn(bandwidth, largest=np.array([1.0]))[:, 0]
    power = np.abs(np.fft.rfft(efforts - efforts.mean())) ** 2
    frequency = np.fft.rfftfreq(len(efforts), PERIOD)
    assert power[frequency < bandwidth].sum() > 0.75 * power.sum()
    assert power[frequency > 5 * bandwidth].sum() < 0.03 * power.sum()


@pytest.mark.parametrize("bandwidth", [0.5, 2.0, 10.0])
def test_they_use_the_range_and_never_leave_it(bandwidth):
    shares = drawn(bandwidth) / LARGEST
    assert np.abs(shares).max() == 1.0
    np.testing.assert_allclose(shares.std(axis=0), SPREAD, rtol=0.15)
    np.testing.assert_allclose(shares.mean(axis=0), 0.0, atol=0.1)


def test_they_begin_at_none_in_each_episode():
    source, rng = RandomEfforts(LARGEST, 1.0, PERIOD), np.random.default_rng(0)
    for _ in range(3):
        source.reset()
        assert (np.abs(source.draw(rng)) < 0.05 * LARGEST).all()
        assert max(np.abs(source.draw(rng)).max() for _ in range(200)) > 0.1
