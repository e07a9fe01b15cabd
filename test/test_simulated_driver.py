"""What the simulator's driver tells of the robot, without ROS."""

import math
import types

import numpy as np
import pytest
from scipy.stats import binom

from hucrl_ros.config.schema import SimulatorSettings
from hucrl_ros.nodes.pacing import RealTime
from hucrl_ros.nodes.simulated_driver import SimulatedDriver
from hucrl_ros.robots import make_robot
from hucrl_ros.robots.mujoco_robot import Plant

COUNTS = 4096
STEP = 2 * math.pi / COUNTS


def driven(task="pendulum", **settings):
    """A plant and its driver."""
    chosen = SimulatorSettings(**settings)
    plant = Plant(make_robot(task), 0, chosen.rate)
    return plant, SimulatedDriver(chosen, plant, np.random.default_rng(0))


def told(plant, driver, samples, effort=1.0):
    """What the driver tells of successive samples under an effort."""
    found = [driver.tell(plant.sample())]
    plant.command(np.full(plant.robot.spec.action_dim, effort))
    for _ in range(samples):
        plant.period()
        found.append(driver.tell(plant.sample()))
    return found


def test_an_ideal_driver_tells_all_of_a_sample():
    plant, driver = driven()
    sample = plant.sample()
    again = driver.tell(sample)
    for given, expected in zip(again, sample, strict=True):
        np.testing.assert_array_equal(given, expected)
    assert driver.lateness() == 0.0


@pytest.mark.parametrize("rate", [50.0, 80.0, 333.0, 500.0, 1000.0])
@pytest.mark.parametrize("task", ["pendulum", "cartpole"])
def test_samples_come_at_the_rate_and_physics_steps_are_no_longer_than_the_models(task, rate):
    longest = make_robot(task).model.opt.timestep
    plant, _ = driven(task, rate=rate)
    timestep = plant.robot.model.opt.timestep
    assert timestep <= longest * (1 + 1e-9)
    assert timestep * plant.substeps == pytest.approx(1 / rate)
    stamps = [plant.stamp_ns]
    for _ in range(20):
        plant.period()
        stamps.append(plant.stamp_ns)
    assert np.abs(np.diff(stamps) - 1e9 / rate).max() <= 1
    assert plant.robot.data.time == pytest.approx(20 / rate)


def test_a_rate_of_the_control_periods_changes_nothing():
    plant, usual = Plant(make_robot("pendulum"), 0, 80.0), Plant(make_robot("pendulum"), 0)
    for each in (plant, usual):
        each.command(np.ones(1))
        for _ in range(40):
            each.period()
    assert plant.stamp_ns == usual.stamp_ns
    np.testing.assert_allclose(plant.robot.state, usual.robot.state, atol=1e-12)


def test_an_encoder_tells_the_nearest_of_its_steps():
    exact = told(*driven(rate=500), 200)
    coarse = told(*driven(rate=500, encoder_counts=COUNTS, velocity="none"), 200)
    apart = [given.positions - true.positions for given, true in zip(coarse, exact, strict=True)]
    assert STEP / 4 < np.abs(apart).max() <= STEP / 2 * (1 + 1e-9)
    steps = np.array([given.positions for given in coarse]) / STEP
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)
    assert all(given.velocities.size == 0 for given in coarse)


def test_an_encoder_of_a_sliding_joint_counts_metres():
    given = told(*driven("cartpole", encoder_counts=100, velocity="none"), 30)
    cart, pole = np.array([each.positions for each in given]).T
    np.testing.assert_allclose(cart * 100, np.round(cart * 100), atol=1e-9)
    turns = pole / (2 * math.pi) * 100
    np.testing.assert_allclose(turns, np.round(turns), atol=1e-9)
    assert len(set(cart)) > 3


def test_differences_are_those_of_the_positions_told_and_none_leads_across_a_reset():
    plant, driver = driven(rate=500, encoder_counts=COUNTS, velocity="differences")
    given = told(plant, driver, 100)
    positions, speeds, stamps = (
        np.array([getattr(each, name) for each in given])
        for name in ("positions", "velocities", "stamp_ns")
    )
    assert speeds[0] == 0.0
    np.testing.assert_allclose(
        speeds[1:, 0], np.diff(positions[:, 0]) / (1e-9 * np.diff(stamps)), rtol=1e-12
    )
    assert np.abs(speeds).max() >= 500 * STEP, "steps of the encoder"
    plant.reset(1)
    assert driver.tell(plant.sample()).velocities.tolist() == [0.0]


def test_efforts_are_those_that_acted_or_the_command_or_missing():
    for effort, expected in (("applied", [0.3]), ("commanded", [0.6]), ("none", [])):
        plant, driver = driven(effort=effort)
        plant.sample()
        for k in range(plant.substeps):
            if k == plant.substeps // 2:
                plant.command(np.array([0.6]))
            plant.substep()
        assert driver.tell(plant.sample()).efforts.tolist() == pytest.approx(expected)


def test_as_many_samples_are_lost_as_chance_has_it():
    plant, driver = driven(drops=0.1)
    sample = plant.sample()
    lost = sum(driver.tell(sample) is None for _ in range(2000))
    low, high = binom.interval(0.9999, 2000, 0.1)
    assert low <= lost <= high
    assert driver.dropped == lost


def run_for(monkeypatch, seconds, **settings):
    """Times and stamps of what is published, since the start [s]; the clock is the test's."""
    clock = types.SimpleNamespace(now=100.0)
    monkeypatch.setattr(
        "hucrl_ros.nodes.pacing.time", types.SimpleNamespace(monotonic=lambda: clock.now)
    )
    plant, driver = driven(**settings)
    published = []
    pacing = RealTime(
        plant,
        lambda sample: published.append((clock.now - 100.0, sample.stamp_ns)),
        lateness=driver.lateness,
    )
    pacing._restart()
    while clock.now < 100.0 + seconds:
        clock.now += pacing._advance()
    times, stamps = np.array(published).T
    return times, (stamps - stamps[0]) / 1e9


def test_without_jitter_a_sample_is_published_when_it_is_taken(monkeypatch):
    times, stamps = run_for(monkeypatch, 0.5, rate=500)
    np.testing.assert_allclose(times, stamps, atol=1e-9)


@pytest.mark.parametrize("jitter", [0.001, 0.005])
def test_jitter_delays_publications_by_up_to_so_much_and_keeps_their_order(monkeypatch, jitter):
    times, stamps = run_for(monkeypatch, 2.0, rate=500, jitter=jitter)
    late = times - stamps
    assert np.diff(stamps).min() > 0.0
    assert -1e-9 <= late.min() < 0.2 * jitter
    assert 0.8 * jitter < late.max() <= jitter + 1e-9
    assert len(times) > 990


def test_a_reset_forgets_what_was_not_published_yet():
    plant, _ = driven(rate=500)
    published = []
    pacing = RealTime(plant, published.append, lateness=lambda: 10.0)
    pacing._leaving.append((0.0, plant.sample()))
    pacing.reset(1)
    assert not pacing._leaving
    assert len(published) == 1


def test_an_encoder_that_measures_velocities_is_refused():
    with pytest.raises(ValueError, match="encoder_counts = 4096: an encoder measures no veloc"):
        SimulatorSettings(encoder_counts=4096)
