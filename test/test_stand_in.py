"""The simulator as a driver of hardware: what others hear of it over DDS, and whole runs."""

import math

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from own_robots import EXAMPLES
from quick_run import Up, quick_arguments
from rclpy.qos import QoSProfile, ReliabilityPolicy
from ros_harness import Harness, stamp_ns
from scipy.stats import binom
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from hucrl_ros.bags.reader import read_episode
from hucrl_ros.config.files import load_config, share_directory
from hucrl_ros.nodes import topics
from hucrl_ros.run.summary import read_summary
from hucrl_ros.tasks import make_task

pytestmark = pytest.mark.ros
PATIENT = QoSProfile(depth=10_000, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Nothing is lost in this process."""
STEP = 2 * math.pi / 4096


@pytest.fixture
def stand_in(ros_domain, tmp_path):
    """Starts a simulator in real time; returns it and the joint states heard of it."""
    with Harness(tmp_path) as harness:

        def start(task="pendulum", **settings):
            given = {f"simulator.{name}": value for name, value in settings.items()}
            heard: list[JointState] = []
            harness.node.create_subscription(
                JointState, topics.JOINT_STATES, heard.append, PATIENT
            )
            harness.start("simulator", task=task, mode="real_time", **given)
            harness.spin_until(lambda: len(heard) > 0)
            return harness, heard

        yield start


def dropped(harness):
    healths = harness.listen(DiagnosticArray, topics.DIAGNOSTICS)
    harness.spin_until(lambda: len(healths) > 0)
    return int({v.key: v.value for v in healths[-1].status[0].values}["dropped"])


def test_rate_steps_and_what_is_missing_are_heard(stand_in):
    harness, heard = stand_in(rate=200.0, encoder_counts=4096, velocity="none", effort="none")
    harness.spin_until(lambda: len(heard) > 200)
    gaps = np.diff([stamp_ns(message) for message in heard])
    assert gaps.min() == np.median(gaps) == 5_000_000
    assert not (gaps % 5_000_000).any()
    steps = np.array([message.position[0] for message in heard]) / STEP
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)
    assert not any(len(message.velocity) or len(message.effort) for message in heard)
    assert dropped(harness) == 0


@pytest.mark.parametrize("best_effort", [False, True])
def test_others_see_whether_it_is_best_effort(stand_in, best_effort):
    harness, heard = stand_in(best_effort=best_effort)
    (found,) = harness.node.get_publishers_info_by_topic(f"/{topics.JOINT_STATES}")
    expected = ReliabilityPolicy.BEST_EFFORT if best_effort else ReliabilityPolicy.RELIABLE
    assert found.qos_profile.reliability == expected
    reliable = harness.listen(JointState, topics.JOINT_STATES)
    before = len(heard)
    harness.spin_until(lambda: len(heard) > before + 40)
    assert bool(reliable) != best_effort, "a reliable reader hears a reliable driver only"


@pytest.mark.slow
def test_as_many_joint_states_are_lost_as_was_said(stand_in):
    harness, heard = stand_in(rate=200.0, drops=0.2)
    harness.spin_until(lambda: stamp_ns(heard[-1]) - stamp_ns(heard[0]) > 4e9)
    stamps = np.array([stamp_ns(message) for message in heard])
    sent = (stamps[-1] - stamps[0]) // 5_000_000 + 1
    low, high = binom.interval(0.99999, sent, 0.2)
    assert low <= sent - len(stamps) <= high
    assert dropped(harness) >= sent - len(stamps)


def test_a_command_acts_a_dead_time_after_it_came(stand_in):
    dead_time = 0.1
    harness, heard = stand_in(rate=500.0, dead_time=dead_time, effort="commanded")
    commands = harness.node.create_publisher(Float64MultiArray, topics.COMMANDS, topics.STREAM)
    harness.spin_until(lambda: commands.get_subscription_count() > 0)
    delays = []
    for k in range(10):
        effort, since = 0.1 * (1 + k % 2), len(heard)
        harness.spin_until(lambda since=since: len(heard) > since)
        sent = stamp_ns(heard[-1])
        commands.publish(Float64MultiArray(data=[effort]))
        harness.spin_until(lambda effort=effort: heard[-1].effort[0] == effort)
        acted = next(m for m in heard if stamp_ns(m) > sent and m.effort[0] == effort)
        delays.append((stamp_ns(acted) - sent) / 1e9)
    assert min(delays) >= dead_time - 1e-9, "no command acts earlier, however fast it came"
    assert min(delays) < dead_time + 0.05, "the fastest one came within a moment"


def test_an_object_is_told_as_often_as_the_joints(stand_in):
    harness, heard = stand_in("pusher", rate=250.0, best_effort=True)
    poses: list[PoseStamped] = []
    harness.node.create_subscription(PoseStamped, topics.OBJECT_POSE, poses.append, PATIENT)
    harness.spin_until(lambda: len(poses) > 100)
    assert np.median(np.diff([stamp_ns(pose) for pose in poses])) == 4_000_000
    told = {stamp_ns(message) for message in heard}
    assert {stamp_ns(pose) for pose in poses[10:90]} <= told


FURUTA = str(EXAMPLES / "furuta" / "furuta.yaml")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "rate"), [("pendulum", 500), ("cartpole", 500), ("reacher", 1000), (FURUTA, 500)]
)
def test_a_run_like_hardware_learns_and_goes_on(task, rate, tmp_path):
    arguments = [task, *quick_arguments(simulator__rate=rate), "--no-figures"]
    out = tmp_path / "run"
    with Up(*arguments, "--like-hardware", "--episodes", "1", out=out) as process:
        assert process.end() == 0, process.stderr + process.logs
    # Once more, without a word of it.
    with Up(task, "--no-figures", "--resume", "--episodes", "2", out=out) as process:
        assert process.end() == 0, process.stderr + process.logs
    run, asked = process.run, load_config(share_directory() / "config" / "like_hardware.yaml")
    assert run.config.simulator == asked.simulator.model_copy(update={"rate": rate})
    assert run.config.body == asked.body
    known = make_task(run.config.task, run.config.action_penalty, run.robot)
    for index in range(2):
        episode = read_episode(run.bag(index), known.spec, known.steps, run.config)
        assert len(episode.actions) > 0.8 * known.steps
        assert episode.contiguous.mean() > 0.8
        if index == 0:  # the next one's policy has hardly learned, and may hold still
            assert np.abs(episode.actions).max() > 0.1 * min(known.spec.effort_limits)
            assert np.ptp(episode.states[:, 0]) > 0.01
    summary = read_summary(run.summary)
    assert [episode.index for episode in summary.episodes] == [0, 1]
    assert not any("refused" in event or "outage" in event for event in summary.events)
