"""Real processes: a simulator, a recorder, and a scripted controller in the test's process."""

import signal

import numpy as np
import pytest
import yaml
from bag_messages import actions_so_far
from ros_harness import Harness, ScriptedController, stamp_ns, stop
from rosbags.highlevel import AnyReader
from std_srvs.srv import SetBool
from waiting import PATIENCE

from hucrl_ros.bags.contents import read_contents
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.bags.writer import repair
from hucrl_ros.config.schema import Config
from hucrl_ros.nodes import topics
from hucrl_ros.robots import make_robot
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.session import Domain
from hucrl_ros.tasks import make_task

pytestmark = pytest.mark.ros

STEPS = 400
SCRIPT = [[0.8 * np.sin(0.05 * k)] for k in range(STEPS)]
SPEC = make_robot("pendulum").spec


class Session:
    """A simulator, a recorder and a controller that have found each other."""

    def __init__(self, harness, run, mode):
        self.harness = harness
        self.run = run
        self.controller = ScriptedController(harness.node)
        self.simulator = harness.start("simulator", mode=mode)
        self.recorder = harness.start("recorder", run=run.root)
        self.wait_until_matched()

    def wait_until_matched(self):
        self.harness.spin_until(lambda: self.controller.matched and len(self.controller.seen) > 0)

    def play(self, steps):
        harness, seen = self.harness, self.controller.seen
        before = stamp_ns(seen[-1])
        harness.reset()
        # The answer may be here before the states that were published before it.
        harness.spin_until(lambda: stamp_ns(seen[-1]) > before + 2 * round(SPEC.period * 1e9))
        self.controller.play(SCRIPT[:steps])
        self.harness.spin_until(lambda: not self.controller.playing)


@pytest.fixture(scope="module")
def lockstep(tmp_path_factory):
    """One session for all tests that let its processes live."""
    folder = tmp_path_factory.mktemp("lockstep")
    with pytest.MonkeyPatch.context() as patch, Domain() as domain:
        patch.setenv("ROS_DOMAIN_ID", str(domain.number))
        patch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        patch.setenv("ROS_LOG_DIR", str(folder))
        with Harness(folder) as harness:
            yield Session(harness, RunFolder.create(folder / "run", Config()), "lockstep")


@pytest.fixture(scope="module")
def bag(lockstep):
    """A whole episode."""
    opened = lockstep.harness.record(True)
    assert (opened.success, opened.message) == (True, str(lockstep.run.bag(0)))
    lockstep.play(STEPS)
    closed = lockstep.harness.record(False)
    assert (closed.success, closed.message) == (True, str(lockstep.run.bag(0)))
    assert lockstep.run.finished_episodes() == 1
    return lockstep.run.bag(0)


@pytest.fixture(scope="module")
def expected_states():
    robot = make_robot("pendulum")
    states = [robot.reset(np.random.default_rng(0))]
    states += [robot.step(np.array(command)) for command in SCRIPT]
    return np.stack(states)


@pytest.fixture
def real_time(ros_domain, tmp_path, run_folder):
    with Harness(tmp_path) as harness:
        yield Session(harness, run_folder, "real_time")


def test_lockstep_episode_is_recorded_completely_and_in_order(bag, expected_states):
    episode = read_episode(bag, SPEC, STEPS)
    assert not episode.interrupted and episode.events == [] and episode.contiguous.all()
    np.testing.assert_array_equal(episode.states, expected_states)
    np.testing.assert_array_equal(episode.actions, SCRIPT)
    np.testing.assert_array_equal(episode.ticks["step"], np.arange(STEPS))
    np.testing.assert_array_equal(episode.ticks["stamp_ns"], episode.stamps_ns[:-1])
    commands = [m for m in read_contents(bag).messages if m.topic == "/controller/commands"]
    assert len(commands) == STEPS


def test_return_recomputed_from_the_bag_is_that_of_the_robot(bag, expected_states):
    task = make_task("pendulum", 0.2)
    episode = read_episode(bag, SPEC, STEPS)
    recomputed = task.rewards(episode.states[:-1], episode.actions).sum()
    assert recomputed == task.rewards(expected_states[:-1], np.array(SCRIPT)).sum()
    assert recomputed < -10.0  # ρ has its price, and nothing is won


def test_bag_opens_with_another_reader_and_tells_what_is_in_it(bag):
    with AnyReader([bag]) as reader:
        counts = {c.topic: c.msgcount for c in reader.connections}
        types = {c.topic: c.msgtype for c in reader.connections}
        received = [stamp for _, stamp, _ in reader.messages()]
    assert counts["/controller/commands"] == counts["/controller/ticks"] == STEPS
    assert counts["/joint_states"] >= STEPS + 2 and counts["/controller/active"] >= 2
    assert types["/joint_states"] == "sensor_msgs/msg/JointState"
    assert types["/watchdog/tripped"] == "diagnostic_msgs/msg/DiagnosticStatus"
    assert received == sorted(received)
    document = yaml.safe_load((bag / "metadata.yaml").read_text())
    information = document["rosbag2_bagfile_information"]
    assert information["version"] == 9 and information["storage_identifier"] == "mcap"
    assert information["message_count"] == sum(counts.values()) == len(received)


def test_episode_whose_controller_vanished_does_not_count(lockstep):
    harness, controller, run = lockstep.harness, lockstep.controller, lockstep.run
    finished = run.finished_episodes()
    harness.record(True)
    harness.reset()
    controller.play(SCRIPT)
    harness.spin_until(lambda: len(controller.answered) > 20)
    controller.playing = False  # and no `active` False
    closed = harness.record(False)
    assert not closed.success and "never said that it ended" in closed.message
    assert run.finished_episodes() == finished
    episode = read_episode(run.episodes / f"episode_{finished:03d}_interrupted_1", SPEC, STEPS)
    assert episode.interrupted and len(episode.actions) >= 19


def test_closing_what_was_never_opened_is_refused(lockstep):
    closed = lockstep.harness.record(False)
    assert (closed.success, closed.message) == (False, "no bag is open")


def test_folder_that_cannot_be_written_is_reported_and_the_recorder_lives(lockstep):
    episodes = lockstep.run.episodes
    aside = episodes.rename(episodes.with_name("aside"))
    episodes.write_text("in the way")
    opened = lockstep.harness.record(True)
    assert not opened.success and "can't record there" in opened.message
    episodes.unlink()
    aside.rename(episodes)
    assert lockstep.harness.record(True).success
    lockstep.play(5)
    assert lockstep.harness.record(False).success


def test_killed_recorder_loses_the_last_messages_only_and_its_successor_keeps_them(real_time):
    harness, controller, run = real_time.harness, real_time.controller, real_time.run
    harness.record(True)
    harness.reset()
    controller.play(SCRIPT[:200])
    harness.spin_until(lambda: len(controller.answered) > 120)
    answered = len(controller.answered)
    harness.spin_until(lambda: actions_so_far(run.bag(0), SPEC, STEPS) > answered - 40)
    stop(real_time.recorder, signal.SIGKILL)

    assert not (run.bag(0) / "metadata.yaml").exists() and run.finished_episodes() == 0
    episode = read_episode(run.bag(0), SPEC, STEPS)
    assert episode.interrupted and "the recording was interrupted" in episode.events
    assert len(episode.actions) > answered - 40  # half a second at 80 Hz
    np.testing.assert_array_equal(episode.ticks["step"], np.arange(len(episode.ticks)))
    with AnyReader([repair(run.bag(0))]) as reader:
        assert reader.message_count == len(read_contents(run.bag(0)).messages)

    left = (run.bag(0) / "episode_000.mcap").read_bytes()
    harness.start("recorder", run=run.root)
    # The dead one's service stays in the graph for a while.
    harness.spin_until(lambda: harness.node.count_services(topics.RECORD) == 2)
    real_time.wait_until_matched()
    assert harness.record(True).message == str(run.bag(0))
    kept = run.episodes / "episode_000_interrupted_1"
    assert (kept / "episode_000.mcap").read_bytes() == left


def test_recorder_waits_for_the_last_state_and_a_stop_does_not_finish_an_episode(real_time):
    harness, controller, run = real_time.harness, real_time.controller, real_time.run
    harness.record(True)
    harness.reset()
    controller.play(SCRIPT[:30])
    harness.spin_until(lambda: len(controller.answered) >= 30)
    # What a controller does that stops with its last command, before it sees its effect.
    real_time.simulator.send_signal(signal.SIGSTOP)
    controller.announce(active=False)
    closed = harness.call_async(SetBool, topics.RECORD, SetBool.Request(data=False))
    harness.spin_for(0.2)
    real_time.simulator.send_signal(signal.SIGCONT)
    harness.spin_until(closed.done)
    assert closed.result().success
    assert len(read_episode(run.bag(0), SPEC, 30).actions) == 30

    harness.record(True)
    real_time.play(20)
    # The recorder may hear the last state later than this process did.
    harness.spin_until(lambda: actions_so_far(run.bag(1), SPEC, 20) == 20)
    assert stop(real_time.recorder, signal.SIGINT) == 0
    assert "Traceback" not in harness.log("recorder")
    assert not run.bag(1).exists() and run.finished_episodes() == 1
    kept = run.episodes / "episode_001_interrupted_1"
    assert (kept / "metadata.yaml").exists()
    episode = read_episode(kept, SPEC, 20)
    assert episode.interrupted and len(episode.actions) == 20


def test_bad_parameters_get_one_line(ros_domain, tmp_path):
    cases = [
        ({}, 2, "run is missing"),
        ({"run": "/nowhere"}, 1, "/nowhere: no run lies there"),
        ({"run": 3}, 2, "run = 3: expected str, got int"),
        ({"modle.heads": 3}, 2, "unknown key 'modle'"),
    ]
    with Harness(tmp_path) as harness:
        for parameters, code, line in cases:
            before = len(harness.log("recorder"))
            assert harness.start("recorder", **parameters).wait(PATIENCE) == code
            log = harness.log("recorder")[before:]
            assert log.startswith("recorder: ") and line in log and log.count("\n") == 1
