"""The simulated robot with its clock, alone and as a process behind real DDS."""

import dataclasses
import math
import signal
import threading
import time
import types

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from ros_harness import Harness, ScriptedController, stamp_ns, stop
from waiting import PATIENCE, wait_until

from hucrl_ros.config.robot import Draw
from hucrl_ros.config.task_file import known_tasks
from hucrl_ros.errors import ConfigError
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.pacing import Lockstep, RealTime
from hucrl_ros.robots import MujocoRobot, describe, make_robot
from hucrl_ros.robots.mujoco_robot import RESET_PERIODS, Plant

PERIOD_NS = 12_500_000


def shifted_pendulum():
    """A pendulum whose episodes start at random."""
    found = describe("pendulum")
    start = dict.fromkeys(found.robot.entries, Draw(low=-1.0, high=1.0))
    robot = found.robot.model_copy(update={"start": start})
    return MujocoRobot(dataclasses.replace(found, robot=robot))


def test_first_sample_is_the_start_without_effort_and_with_a_stamp():
    sample = Plant(make_robot("pendulum"), seed=0).sample()
    assert sample.stamp_ns == PERIOD_NS
    assert (sample.positions[0], sample.velocities[0], sample.efforts[0]) == (math.pi, 0.0, 0.0)


def test_effort_is_the_mean_of_what_was_applied_and_saturated():
    plant = Plant(make_robot("pendulum"), seed=0)
    for effort in [5.0] * 4 + [-0.5] * 6:
        plant.command(np.array([effort]))
        plant.substep()
    assert plant.sample().efforts[0] == pytest.approx((4 * 1.0 - 6 * 0.5) / 10)
    plant.period()
    assert plant.sample().efforts[0] == -0.5
    assert plant.sample().efforts[0] == 0.0  # nothing was applied since


def test_stamps_are_exact_periods():
    plant = Plant(make_robot("pendulum"), seed=0)
    stamps = [plant.stamp_ns]
    for _ in range(1000):
        plant.period()
        stamps.append(plant.stamp_ns)
    assert set(np.diff(stamps)) == {PERIOD_NS}


def test_time_goes_on_over_a_reset_by_more_than_a_transition():
    plant = Plant(make_robot("pendulum"), seed=0)
    plant.command(np.array([1.0]))
    plant.period()
    plant.reset(1)
    sample = plant.sample()
    assert sample.stamp_ns == (2 + RESET_PERIODS) * PERIOD_NS
    assert (sample.positions[0], sample.efforts[0]) == (math.pi, 0.0)
    plant.period()
    assert plant.sample().efforts[0] == 0.0  # the command of the last episode is gone


def test_start_depends_on_seed_and_episode_only():
    def start(seed, episode, before=()):
        plant = Plant(shifted_pendulum(), seed)
        for earlier in before:
            plant.reset(earlier)
        plant.reset(episode)
        return tuple(plant.robot.state)

    assert start(1, 2) == start(1, 2, before=(0, 1))
    assert len({start(1, 2), start(1, 3), start(2, 2)}) == 3


def test_a_goal_is_told_with_the_first_sample_of_each_episode():
    plant = Plant(make_robot("reacher"), seed=0)
    first = plant.sample()
    np.testing.assert_array_equal(first.goal, plant.robot.state[14:])
    plant.period()
    assert plant.sample().goal is None
    plant.reset(1)
    second = plant.sample()
    np.testing.assert_array_equal(second.goal, plant.robot.state[14:])
    assert (first.goal != second.goal).all()
    assert first.object is None


def test_an_object_is_told_with_every_sample_and_moves_when_it_is_pushed():
    plant = Plant(make_robot("pusher"), seed=0)
    velocity = plant.robot.data.joint("object_slide_x").qvel
    for speed in (0.0, 0.5):
        velocity[0] = speed
        plant.period()
        sample = plant.sample()
        np.testing.assert_array_equal(sample.object, plant.robot.state[14:17])
        assert sample.goal is None
    start = Plant(make_robot("pusher"), seed=0).sample().object
    assert sample.object[0] - start[0] == pytest.approx(0.5 * 0.04, rel=0.3)


def test_a_joint_of_which_only_the_velocity_counts_is_told_like_the_others():
    plant = Plant(make_robot("half_cheetah"), seed=0)
    plant.command(np.full(6, 2.0))
    for _ in range(5):
        plant.period()
    sample = plant.sample()
    assert plant.joints == (*make_robot("half_cheetah").spec.joint_names, "rootx")
    state = np.concatenate([sample.positions[:8], sample.velocities])
    np.testing.assert_array_equal(state, plant.robot.state)
    assert (sample.positions[8], sample.efforts[8]) == (plant.robot.data.joint("rootx").qpos[0], 0)
    assert sample.efforts[2:8].tolist() == [2.0] * 6


def test_lockstep_publishes_one_state_a_command():
    published = []
    pacing = Lockstep(Plant(make_robot("pendulum"), seed=0), published.append)
    pacing.start()
    robot = make_robot("pendulum")
    expected = [robot.reset(np.random.default_rng(0))]
    for effort in np.linspace(-1, 1, 20):
        pacing.apply(np.array([effort]))
        expected.append(robot.step(np.array([effort])))
    states = [np.concatenate([s.positions, s.velocities]) for s in published]
    np.testing.assert_array_equal(states, expected)


def test_real_time_catches_up_after_a_late_wake_up_and_counts_it():
    published = []
    enough = threading.Event()

    def publish(sample):
        if len(published) == 5:
            time.sleep(0.2)  # 16 periods in which the thread does not run
        now = time.monotonic()
        published.append((sample.stamp_ns, now))
        late = now - begin - (sample.stamp_ns - published[0][0]) / 1e9
        if len(published) >= 60 and late < 0.1:  # it has caught up
            enough.set()

    pacing = RealTime(Plant(make_robot("pendulum"), seed=0), publish)
    begin = time.monotonic()
    pacing.start()
    assert enough.wait(PATIENCE)
    pacing.stop()
    stamps, times = np.array(published).T
    assert set(np.diff(stamps)) == {PERIOD_NS}
    # Never early, and no drift: it waits for the steady clock, then has no delay left to make up.
    lateness = (times - begin) - (stamps - stamps[0]) / 1e9
    assert lateness.min() > -1e-6
    assert pacing.overruns >= 10 and pacing.failure is None


@pytest.mark.parametrize("error", [RuntimeError, ConfigError])
def test_failure_of_the_physics_is_not_silent(error, caplog):
    def publish(sample):
        if sample.stamp_ns > PERIOD_NS:
            raise error("no")

    pacing = RealTime(Plant(make_robot("pendulum"), seed=0), publish)
    pacing.start()
    wait_until(lambda: pacing.failure is not None)
    assert str(pacing.failure) == "no"
    pacing.stop()
    (record,) = caplog.records
    assert bool(record.exc_info) == (error is RuntimeError)  # What a user can mend is one line.


@pytest.mark.ros
def test_lockstep_over_dds(ros_domain, tmp_path):
    script = [[math.sin(k)] for k in range(200)]
    with Harness(tmp_path) as harness:
        simulator = harness.start("simulator", mode="lockstep")
        controller = ScriptedController(harness.node)
        harness.spin_until(lambda: len(controller.seen) >= 3 and controller.is_heard)
        # Unanswered, the same state is repeated.
        assert {stamp_ns(m) for m in controller.seen} == {PERIOD_NS}

        episodes = []
        for _ in range(2):
            assert harness.reset().success
            controller.play(script)
            harness.spin_until(lambda: not controller.playing)
            episodes.append(
                [(m.position[0], m.velocity[0], m.effort[0]) for m in controller.answered]
            )
        assert episodes[0] == episodes[1]
        stamps = [stamp_ns(m) for m in controller.answered]
        assert set(np.diff(stamps)) == {PERIOD_NS}
        assert min(np.diff([stamp_ns(m) for m in controller.seen])) >= 0

        # Refused commands: time goes on without effort, and the node says so once.
        harness.reset()
        controller.play([[0.5], [math.nan], [0.5, 0.5], [], [0.5]])
        harness.spin_until(lambda: not controller.playing)
        assert [m.effort[0] for m in controller.answered] == [0.0, 0.5, 0.0, 0.0, 0.0, 0.5]
        assert harness.log("simulator").count("command refused") == 1
        assert "efforts [nan]; expected finite numbers" in harness.log("simulator")
        healths = harness.listen(DiagnosticArray, topics.DIAGNOSTICS)
        harness.spin_until(lambda: len(healths) > 0)
        values = {v.key: v.value for v in healths[0].status[0].values}
        assert healths[0].status[0].level == DiagnosticStatus.WARN
        assert (values["refused_commands"], values["resets"]) == ("3", "3")
        assert stop(simulator, signal.SIGINT) == 0
        assert "Traceback" not in harness.log("simulator")


@pytest.mark.ros
def test_real_time_over_dds(ros_domain, tmp_path):
    with Harness(tmp_path) as harness:
        simulator = harness.start("simulator", mode="real_time")
        controller = ScriptedController(harness.node)
        harness.spin_until(lambda: len(controller.seen) > 40)
        steps = np.diff([stamp_ns(m) for m in controller.seen])
        # Nobody commands, yet time passes; this process may have lost some of it.
        assert steps.min() == PERIOD_NS and not (steps % PERIOD_NS).any()
        harness.spin_until(lambda: controller.is_heard)
        controller.send([0.25])
        harness.spin_until(lambda: controller.seen[-1].effort[0] == 0.25)
        before = len(controller.seen)
        harness.spin_until(lambda: len(controller.seen) > before + 20)
        assert controller.seen[-1].effort[0] == 0.25  # as an effort controller would
        harness.reset()
        harness.spin_until(lambda: any(m.position[0] == math.pi for m in controller.seen[before:]))
        assert controller.seen[-1].effort[0] == 0.0
        assert stop(simulator, signal.SIGTERM) == 0


@pytest.mark.ros
def test_simulator_without_parent_stops(ros_domain, tmp_path, monkeypatch):
    monkeypatch.setenv("HUCRL_PARENT_PID", "1")
    with Harness(tmp_path) as harness:
        assert harness.start("simulator").wait(PATIENCE) == 1
        assert "process 1 has ended" in harness.log("simulator")


@pytest.mark.ros
def test_unknown_task_gets_one_line(ros_domain, tmp_path):
    with Harness(tmp_path) as harness:
        assert harness.start("simulator", task="juggling").wait(PATIENCE) == 2
        line = harness.log("simulator")
        known = ", ".join(sorted(known_tasks()))
        assert line.startswith(f"simulator: task: 'juggling' is unknown; known tasks: {known}")
        assert line.count("\n") == 1


def test_a_delayed_command_acts_that_much_later_however_late_the_physics_thread_wakes_up(
    monkeypatch,
):
    clock = types.SimpleNamespace(now=100.0)
    monkeypatch.setattr(
        "hucrl_ros.nodes.pacing.time", types.SimpleNamespace(monotonic=lambda: clock.now)
    )
    published = []
    pacing = RealTime(Plant(make_robot("pendulum"), seed=0), published.append, dead_time=0.020)
    pacing._restart()
    for arrival, effort in ((0.004, 0.5), (0.0165, -1.0)):
        clock.now = 100.0 + arrival
        pacing.apply(np.array([effort]))
    clock.now = 100.101  # it overslept: everything up to now is made up for
    while pacing._advance() == 0.0:
        pass
    # Substeps of 1.25 ms: 0.5 from 24 ms on is from 25 ms on, -1 from 36.5 ms on from 37.5 ms on.
    efforts = [sample.efforts[0] for sample in published]
    assert efforts[1:] == pytest.approx([0.0, 0.0, 0.5, -1.0, -1.0, -1.0, -1.0, -1.0])


def test_a_reset_forgets_commands_on_their_way():
    pacing = RealTime(Plant(make_robot("pendulum"), seed=0), lambda sample: None, dead_time=0.5)
    pacing.apply(np.array([1.0]))
    pacing.reset(1)
    assert not pacing._coming


@pytest.mark.ros
@pytest.mark.parametrize(
    ("mode", "delay", "reason"),
    [("lockstep", 0.02, "in real time only"), ("real_time", -1.0, "greater than or equal to 0")],
)
def test_a_dead_time_that_makes_no_sense_gets_one_line(ros_domain, tmp_path, mode, delay, reason):
    given = {"mode": mode, "simulator.dead_time": delay}
    with Harness(tmp_path) as harness:
        assert harness.start("simulator", **given).wait(PATIENCE) == 2
        line = harness.log("simulator")
        assert f"simulator.dead_time = {delay}: " in line and reason in line
        assert line.count("\n") == 1
