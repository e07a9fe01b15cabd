"""Bodies that differ from their model, against closed forms."""

import math

import numpy as np
import pytest
from interfaces import task_with
from own_robots import modelled, task_of

from hucrl_ros.config.files import share_directory
from hucrl_ros.config.schema import BodySettings
from hucrl_ros.config.task_file import known_tasks
from hucrl_ros.errors import ConfigError
from hucrl_ros.nodes.pacing import Lockstep, RealTime
from hucrl_ros.robots import MujocoRobot, describe, make_robot
from hucrl_ros.robots.body import ROTOR
from hucrl_ros.robots.mujoco_robot import Plant

INERTIA = 0.3 * 0.5**2
"""[kg m²] Of the pendulum, whose weight pulls at 0.3 · 9.81 · 0.5 N m."""
PULL = 0.3 * 9.81 * 0.5


def pendulum(weightless=True, **body):
    """At rest, pointing up; the largest effort is 1 N m."""
    robot = make_robot("pendulum", body=BodySettings(**body))
    robot.model.dof_damping[:] = 0.0
    if weightless:
        robot.model.opt.gravity[:] = 0.0
    robot.set_state(np.zeros(2))
    return robot


def after(robot, seconds, effort):
    """Angle and speed."""
    for _ in range(round(seconds / robot.model.opt.timestep)):
        robot.substep(np.array([effort]))
    return robot.state


def played(robot):
    rng = np.random.default_rng(3)
    limits = np.asarray(robot.spec.effort_limits)
    states = [robot.reset(rng)]
    states += [robot.step(rng.uniform(-limits, limits)) for _ in range(50)]
    return np.array(states)


@pytest.mark.parametrize("task", known_tasks())
def test_without_a_difference_nothing_is_different(task):
    usual = played(MujocoRobot(describe(task)))
    assert np.array_equal(played(make_robot(task, body=BodySettings())), usual)
    # The same with all that a difference brings, of which there is none.
    assert np.array_equal(played(make_robot(task, body=BodySettings(drift_time=1.0))), usual)


def test_friction_holds_what_is_below_it():
    angle, speed = after(pendulum(friction=0.1), 1.0, 0.09)
    assert abs(angle) < 1e-4 and abs(speed) < 1e-4
    held = pendulum(weightless=False, friction=0.1)
    held.set_state(np.array([0.99 * math.asin(0.1 / PULL), 0.0]))
    before = held.state[0]
    assert after(held, 1.0, 0.0)[0] == pytest.approx(before, abs=1e-4)


def test_friction_takes_its_share_of_what_is_above_it():
    assert after(pendulum(friction=0.1), 0.5, 0.3)[1] == pytest.approx(
        (0.3 - 0.1) * 0.5 / INERTIA, rel=2e-3
    )


def test_friction_stops_what_moves():
    robot = pendulum(friction=0.1)
    robot.set_state(np.array([0.0, -2.0]))
    assert after(robot, 0.5, 0.0)[1] == pytest.approx(-2.0 + 0.1 * 0.5 / INERTIA, rel=2e-3)
    assert after(robot, 1.5, 0.0)[1] == pytest.approx(0.0, abs=1e-4)


def test_friction_is_that_of_the_motor_through_its_gear():
    friction = make_robot("cartpole", body=BodySettings(friction=0.02)).model.dof_frictionloss
    assert friction.tolist() == pytest.approx([0.02 * 3.0 * 100.0, 0.0])


def test_masses_change_the_torque_of_gravity_and_the_inertia():
    robot = pendulum(weightless=False, mass_error=0.2)
    robot.set_state(np.array([1.0, 0.0]))
    assert robot.data.qfrc_bias[0] == pytest.approx(-1.2 * PULL * math.sin(1.0))
    speed = after(pendulum(mass_error=0.2), 0.1, 0.5)[1]
    assert speed == pytest.approx(0.5 * 0.1 / (1.2 * INERTIA), rel=1e-6)


def test_an_object_keeps_its_mass():
    usual = make_robot("pusher").model
    heavier = make_robot("pusher", body=BodySettings(mass_error=0.5)).model
    object_id = usual.body("object").id
    masses, others = heavier.body_mass, np.arange(usual.nbody) != object_id
    assert masses[object_id] == usual.body_mass[object_id] > 0.0
    np.testing.assert_allclose(masses[others], 1.5 * usual.body_mass[others])


def test_motors_give_more_or_less_than_they_are_told():
    for error in (-0.3, 0.2):
        speed = after(pendulum(motor_error=error), 0.1, 0.5)[1]
        assert speed == pytest.approx((1 + error) * 0.5 * 0.1 / INERTIA, rel=1e-6)
        assert after(pendulum(motor_error=error), 0.1, 5.0)[1] == pytest.approx(
            (1 + error) * 1.0 * 0.1 / INERTIA, rel=1e-6
        )


@pytest.mark.parametrize(
    ("task", "last"),
    [
        ("pendulum", "pendulum"),
        ("cartpole", "cart"),
        ("reacher", "r_wrist_roll_link"),
        ("half_cheetah", "ffoot"),
    ],
)
def test_a_payload_is_in_the_last_body_that_a_motor_moves(task, last):
    usual, loaded = (make_robot(task, body=BodySettings(payload=kg)).model for kg in (0.0, 0.25))
    more = loaded.body_mass - usual.body_mass
    assert more[usual.body(last).id] == pytest.approx(0.25)
    assert more.sum() == pytest.approx(0.25)
    np.testing.assert_array_equal(loaded.body_inertia, usual.body_inertia)


@pytest.mark.parametrize(("body", "more"), [({"payload": 0.5}, 0.5), ({"mass_error": 0.2}, 0.4)])
def test_gravity_is_compensated_of_the_masses_in_the_model(tmp_path, body, more):
    model = """<mujoco><worldbody><body gravcomp="1"><joint name="arm" axis="0 1 0"/>
      <geom size="0.1" pos="0.3 0 0" mass="2"/></body></worldbody>
      <actuator><motor joint="arm" ctrlrange="-1 1"/></actuator></mujoco>"""
    robot = task_of(tmp_path, modelled(tmp_path, model)).robot(body=BodySettings(**body))
    robot.set_state(np.zeros(2))
    pull = robot.data.qfrc_passive - robot.data.qfrc_bias
    assert pull[0] == pytest.approx(more * 9.81 * 0.3)


def test_no_effort_acts_across_the_backlash_and_none_is_lost():
    gap, effort = 0.02, 0.3
    crossing = math.sqrt(2 * (gap / 2) * ROTOR * INERTIA / effort)
    robot = pendulum(backlash=gap)
    step = robot.model.opt.timestep
    assert crossing > 10 * step
    assert after(robot, crossing - 2 * step, effort).tolist() == [0.0, 0.0]
    # The rotor has gathered in the gap what the joint gets at its end.
    rest = 0.2 - (crossing - 2 * step)
    assert after(robot, rest, effort)[1] == pytest.approx(effort * 0.2 / INERTIA, rel=1e-3)


def test_a_motor_that_turns_round_has_the_whole_gap_before_it():
    gap, effort = 0.02, 0.3
    robot = pendulum(backlash=gap)
    after(robot, 0.5, effort)
    speed = robot.state[1]
    crossing = math.sqrt(2 * gap * ROTOR * INERTIA / effort)
    free = after(robot, crossing - 2 * robot.model.opt.timestep, -effort)[1]
    assert free == speed
    assert after(robot, 0.2, -effort)[1] < speed - 0.15 * effort / INERTIA


def test_a_reset_puts_rotors_into_the_middle_of_the_gap():
    fresh, used = (pendulum(backlash=0.02) for _ in range(2))
    after(used, 0.3, 1.0)
    used.set_state(np.zeros(2))
    assert np.array_equal(after(used, 0.1, -0.2), after(fresh, 0.1, -0.2))


def test_the_heat_of_a_motor_follows_its_exponential():
    drift, time = 0.4, 0.5
    robot = pendulum(drift=drift, drift_time=time)
    step = robot.model.opt.timestep
    speeds = [robot.state[1]]
    for _ in range(800):
        speeds.append(after(robot, step, 1.0)[1])
    given = np.diff(speeds) / step * INERTIA
    expected = 1 - drift * (1 - np.exp(-np.arange(800) * step / time))
    np.testing.assert_allclose(given, expected, rtol=1e-6)
    # Half of the effort warms a quarter as much; without any it cools.
    after(robot, 20 * time, 0.5)
    before = robot.state[1]
    assert (after(robot, step, 0.5)[1] - before) / step * INERTIA == pytest.approx(
        0.5 * (1 - drift / 4), rel=1e-6
    )
    after(robot, time, 0.0)
    before = robot.state[1]
    assert (after(robot, step, 1.0)[1] - before) / step * INERTIA == pytest.approx(
        1 - drift / 4 * math.exp(-1), rel=1e-6
    )


@pytest.mark.parametrize(("pacing", "stays_warm"), [(Lockstep, False), (RealTime, True)])
def test_motors_stay_warm_over_a_reset_in_real_time_only(pacing, stays_warm):
    robot = pendulum(drift=0.4, drift_time=0.1)
    plant = Plant(robot, seed=0)
    after(robot, 2.0, 1.0)
    pacing(plant, lambda sample: None).reset(1)
    speed = after(robot, robot.model.opt.timestep, 1.0)[1]
    given = speed / robot.model.opt.timestep * INERTIA
    assert given == pytest.approx(0.6 if stays_warm else 1.0, abs=1e-3)


def test_efforts_in_a_sample_are_what_the_motors_were_told():
    plant = Plant(pendulum(motor_error=-0.5, backlash=0.1, drift=0.5), seed=0)
    plant.command(np.array([0.7]))
    plant.period()
    assert plant.sample().efforts[0] == 0.7


def test_limits_of_a_joint_in_the_model_are_those_of_its_motor():
    arm = str(share_directory() / "config" / "examples" / "planar_arm" / "planar_arm.yaml")
    speeds = []
    for error in (0.0, 0.5):
        robot = make_robot(arm, body=BodySettings(motor_error=error))
        assert robot.model.jnt_actfrclimited.all()
        robot.set_state(np.zeros(len(robot.state)))
        robot.substep(np.array(robot.spec.effort_limits))
        speeds.append(robot.state[2:4])
    np.testing.assert_allclose(speeds[1], 1.5 * speeds[0], rtol=1e-3)


@pytest.mark.parametrize("setting", ["friction", "motor_error", "backlash", "drift"])
def test_what_a_drive_makes_of_efforts_is_refused_where_it_takes_positions(setting, tmp_path):
    described_robot = task_with(tmp_path, "position").described
    with pytest.raises(ConfigError, match=f"body.{setting} = 0.1: only for robots that take eff"):
        MujocoRobot(described_robot, BodySettings(**{setting: 0.1}))
    heavier = MujocoRobot(described_robot, BodySettings(payload=0.1))
    assert heavier.model.body_mass.sum() == pytest.approx(0.9)
