"""The node `homing` and whole runs with it, on a driver that shares no code with ours."""

import math
import os
import signal

import numpy as np
import psutil
import pytest
import yaml
from foreign_process import driver
from quick_run import Up, quick_arguments
from rcl_interfaces.msg import ParameterEvent
from rclpy.serialization import deserialize_message
from ros_harness import Harness
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import Trigger
from waiting import PATIENCE, wait_until

from hucrl_ros.bags.contents import read_contents
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.setting_parameters import limits_message
from hucrl_ros.robots import describe
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import prepare_run
from hucrl_ros.run.summary import read_summary

pytestmark = pytest.mark.ros
slow = pytest.mark.slow
JOINT = """<mujoco><option timestep="0.0025" gravity="0 0 0"/><worldbody><body>
  <joint name="pendulum_joint" axis="0 1 0" damping="0.005"/>
  <geom size="0.05" pos="0 0 0.5" mass="0.3"/></body></worldbody>
  <actuator>{actuator}</actuator></mujoco>"""
ACTUATORS = {
    "effort": '<motor joint="pendulum_joint" ctrlrange="-1 1"/>',
    "velocity": '<velocity joint="pendulum_joint" kv="0.4" ctrlrange="-3 3"/>',
    "position": '<position joint="pendulum_joint" kp="4" kv="0.4"/>',
}
BEGINS, STEPS = 1.2, 60
OUTAGE_S, PATIENT_S = 3.0, 60.0
"""[s] What counts as an outage, and what does where none is tried: a busy machine makes them."""
HOW = {"begins_at": BEGINS, "gravity": 0.0, "rate": 200.0}
"""The joint turns in a horizontal plane, away from its start."""


def robot(folder, command="effort", constraint=None):
    """The driver's joint, as a user describes it; episodes start at 0."""
    (folder / "joint.xml").write_text(JOINT.format(actuator=ACTUATORS[command]))
    described = {"model": "joint.xml", "period": 0.025, "steps": STEPS, "command": command}
    if command == "position":
        described["command_limits"] = [0.2]
    terms = [{"term": "upright", "joint": "pendulum_joint"}]
    document = {"robot": described, "reward": {"terms": terms}}
    if constraint is not None:
        low, high = constraint
        named = {"joint": "pendulum_joint", "low": low, "high": high}
        document["constraints"] = [{"kind": "position", **named}]
    path = folder / "joint.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


class Scene:
    """A driver, the node, and who asks it."""

    def __init__(self, harness, folder, command, how, outage_s, constraint=None, settings=None):
        self.harness, self.log = harness, folder / "commands.txt"
        patience = {"safety.outage_periods": outage_s / 0.025, "safety.stale_periods": 20.0}
        options = {"driver.reset": "home", "mode": "real_time", **patience, **(settings or {})}
        path = str(robot(folder, command, constraint))
        self.run = prepare_run(RunOptions(path, None, options, folder / "run"))
        self.driver = driver(**HOW, interface=command, commands_log=str(self.log), **(how or {}))
        self.active = harness.node.create_publisher(Bool, topics.ACTIVE, topics.LATCHED)
        self.stop = harness.node.create_publisher(Bool, topics.STOP, topics.STREAM)
        self.states = []
        harness.node.create_subscription(
            JointState, topics.JOINT_STATES, self.states.append, topics.MEASURED
        )

    @property
    def commands(self):
        """All that the driver was told so far."""
        lines = self.log.read_text().split("\n") if self.log.is_file() else []
        return [float(line) for line in lines[:-1]]

    @property
    def place(self):
        return self.states[-1].position[0]

    def begin(self):
        """Start the node, and have it begin; returns its process and the answer to come."""
        process = self.harness.start("homing", run=self.run.root)
        answer = self.harness.call_async(Trigger, topics.HOME, Trigger.Request())
        return process, answer

    def until_moving(self):
        self.harness.spin_until(
            lambda: any(self.commands) and self.states and self.place < BEGINS - 0.1
        )

    def stoppers(self, process):
        return [
            child
            for child in psutil.Process(process.pid).children()
            if "stopper" in " ".join(child.cmdline())
        ]


@pytest.fixture
def scene(ros_domain, tmp_path):
    with Harness(tmp_path) as harness:

        def scene(command="effort", outage_s=PATIENT_S, constraint=None, settings=None, **how):
            return Scene(harness, tmp_path, command, how, outage_s, constraint, settings)

        yield scene


@pytest.mark.parametrize(
    "command", ["effort", *(pytest.param(c, marks=slow) for c in ("velocity", "position"))]
)
def test_it_brings_the_robot_to_the_start(command, scene):
    at = scene(command, friction=0.02 if command == "effort" else 0.0)
    with at.driver:
        process, answer = at.begin()
        at.harness.spin_until(answer.done)
        assert answer.result().success, answer.result().message
        assert abs(at.place) < 0.05
        sent = len(at.commands)
        at.harness.spin_for(1.0)
        assert len(at.commands) == sent, "it is silent until it is asked again"
        again = at.harness.call(Trigger, topics.HOME, Trigger.Request())
        assert again.success, again.message
        assert process.poll() is None
    if command == "effort":
        assert np.abs(at.commands).max() <= 0.5 and at.commands[-1] == 0.0
    if command == "velocity":
        assert np.abs(at.commands).max() <= 0.3 and at.commands[-1] == 0.0
    if command == "position":
        assert max(at.commands) <= BEGINS + 0.2 and abs(at.commands[-1]) < 0.05
        assert np.abs(np.diff(at.commands)).max() < 0.3, "never far from the one before"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", ["effort", pytest.param("velocity", marks=slow)])
def test_whatever_ends_it_in_mid_motion_the_last_command_is_zero(command, number, scene):
    at = scene(command)
    with at.driver:
        process, _ = at.begin()
        at.until_moving()
        stoppers = at.stoppers(process)
        assert len(stoppers) == 1
        process.send_signal(number)
        process.wait(PATIENCE)
        psutil.wait_procs(stoppers, timeout=PATIENCE)
        at.harness.spin_until(lambda: at.commands[-1] == 0.0)
        sent = len(at.commands)
        at.harness.spin_for(0.5)
        assert len(at.commands) == sent, "nobody sends any more"
        assert not any(each.is_running() for each in stoppers)


def test_killed_in_mid_motion_a_place_near_the_robot_is_held(scene):
    at = scene("position")
    with at.driver:
        process, _ = at.begin()
        at.until_moving()
        process.kill()
        process.wait(PATIENCE)
        at.harness.spin_for(1.0)
        held = at.commands[-1]
        assert 0.1 < held < BEGINS
        assert at.place == pytest.approx(held, abs=0.05), "not far from where it was"


def test_where_it_hangs_the_robot_is_stopped(scene):
    at = scene("effort", OUTAGE_S)
    with at.driver:
        process, answer = at.begin()
        at.until_moving()
        psutil.Process(process.pid).suspend()
        at.harness.spin_until(lambda: at.commands[-1] == 0.0)
        at.harness.spin_for(1.5 * OUTAGE_S)
        assert at.commands[-1] == 0.0
        psutil.Process(process.pid).resume()
        at.harness.spin_until(answer.done)
        assert not answer.result().success, "longer than an outage"
        at.harness.spin_until(lambda: at.commands[-1] == 0.0)


def test_a_blocked_joint_is_named_in_one_line(scene):
    at = scene("effort", stop_at=0.5)
    with at.driver:
        _, answer = at.begin()
        at.harness.spin_until(answer.done)
        said = answer.result()
        assert not said.success
        assert said.message.startswith("joint 'pendulum_joint' is 0.5 from the start")
        assert said.message.endswith("comes no nearer") and "\n" not in said.message
        at.harness.spin_until(lambda: at.commands[-1] == 0.0)
    assert np.abs(at.commands).max() <= 0.5


def test_a_joint_outside_a_constraint_is_not_moved(scene):
    at = scene("effort", constraint=(-1.0, 0.5))
    with at.driver:
        _, answer = at.begin()
        at.harness.spin_until(answer.done)
        message = answer.result().message
        assert message.startswith("joint 'pendulum_joint' is at 1.2, and a constraint keeps it")
        assert not any(at.commands)


def test_limits_told_by_others_make_it_no_looser_than_its_own(scene):
    at = scene("effort", settings={"safety.effort_limits": [0.02], "safety.effort_rate": 0.5})
    told = at.harness.node.create_publisher(ParameterEvent, topics.LIMITS, topics.LATCHED)
    limits = {"safety.effort_limits": [1.0], "safety.effort_rate": 0.25}
    told.publish(limits_message(limits))
    with at.driver:
        at.harness.start("homing", run=at.run.root)
        at.harness.spin_until(lambda: told.get_subscription_count() > 0)
        at.harness.spin_for(0.5)
        said = at.harness.call(Trigger, topics.HOME, Trigger.Request())
        assert said.success, said.message
    assert 0.01 < np.abs(at.commands).max() <= 0.02, "what is looser doesn't hold"
    assert np.abs(np.diff(at.commands)).max() <= 0.005 + 1e-9, "what is stricter does"
    at.harness.node.destroy_publisher(told)


def test_it_is_silent_from_the_moment_an_episode_begins_and_refuses_in_one(scene):
    at = scene("effort")
    with at.driver:
        _, answer = at.begin()
        at.until_moving()
        at.active.publish(Bool(data=True))
        at.harness.spin_until(answer.done)
        assert answer.result().message == "an episode began"
        sent = len(at.commands)
        at.harness.spin_for(1.0)
        assert len(at.commands) == sent, "not even a zero: the controller has the robot now"
        refused = at.harness.call(Trigger, topics.HOME, Trigger.Request())
        assert (refused.success, refused.message) == (False, "an episode is under way")
        at.active.publish(Bool(data=False))


def test_somebody_may_stop_it(scene):
    at = scene("effort")
    with at.driver:
        _, answer = at.begin()
        at.until_moving()
        at.stop.publish(Bool(data=True))
        at.harness.spin_until(answer.done)
        assert answer.result().message == "stopped on the topic '/stop'"
        at.harness.spin_until(lambda: at.commands[-1] == 0.0)
        refused = at.harness.call(Trigger, topics.HOME, Trigger.Request())
        assert refused.message == "stopped on the topic '/stop'"
        at.stop.publish(Bool(data=False))
        at.harness.spin_for(0.5)
        assert at.harness.call(Trigger, topics.HOME, Trigger.Request()).success


def test_it_does_not_move_a_robot_that_somebody_else_commands(scene):
    at = scene("effort")
    other = at.harness.node.create_publisher(Float64MultiArray, topics.COMMANDS, topics.STREAM)
    with at.driver:
        _, answer = at.begin()
        at.harness.spin_until(answer.done)
        message = answer.result().message
        assert message == "harness publishes commands, too; stop it first"
        assert not any(at.commands)
    at.harness.node.destroy_publisher(other)


def test_it_stops_where_joint_states_stay_away(scene):
    at = scene("effort", OUTAGE_S)
    with at.driver as process:
        _, answer = at.begin()
        at.until_moving()
        process.send_signal(signal.SIGSTOP)
        at.harness.spin_until(answer.done)
        process.send_signal(signal.SIGCONT)
        assert answer.result().message.startswith("no joint state for ")
        at.harness.spin_until(lambda: at.commands[-1] == 0.0)


# Whole runs


@pytest.fixture
def robots_domain(monkeypatch, tmp_path_factory):
    """A ROS domain that `hucrl up` may take for itself: no `Domain` of the tests holds it."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    monkeypatch.setenv("ROS_DOMAIN_ID", str(80 - worker))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path_factory.mktemp("ros_log")))


def up(folder, path, *words, episodes=2):
    return Up(
        str(path),
        *quick_arguments(
            driver__reset="home",
            safety__velocity_limits=[100.0],
            safety__outage_periods=PATIENT_S / 0.025,
        ),
        "--no-figures",
        "--no-simulator",
        *words,
        "--episodes",
        str(episodes),
        out=folder / "run",
        environment={"ROS_DOMAIN_ID": os.environ["ROS_DOMAIN_ID"]},
    )


def test_a_run_moves_the_robot_home_before_each_episode(robots_domain, tmp_path):
    path = robot(tmp_path)
    with driver(**HOW), up(tmp_path, path) as process:
        assert process.end() == 0, process.stderr + process.logs
    run = RunFolder.open(tmp_path / "run")
    assert process.stdout.count("moving the robot to the start") == 2
    spec = describe(run.config.task, run.robot).robot.spec
    for index in range(2):
        episode = read_episode(run.bag(index), spec, STEPS, run.config)
        place, speed = episode.states[0]
        assert abs(math.remainder(place, math.tau)) < 0.06 and abs(speed) < 0.1
        sent = [m for m in read_contents(run.bag(index)).messages if m.is_of(topics.COMMANDS)]
        # Zeros of the watchdog may be among them, as many as the machine is late.
        moving = [m for m in sent if any(deserialize_message(m.data, Float64MultiArray).data)]
        assert len(moving) <= STEPS, "the motion to the start is none of the episode"
    assert not process.remaining()


def test_where_it_does_not_get_there_a_person_is_asked(robots_domain, tmp_path):
    path = robot(tmp_path)
    with driver(**HOW, stop_at=0.5), up(tmp_path, path, episodes=1) as process:
        process.wait_for_line("put the robot at the start")
        assert "homing: joint 'pendulum_joint' is 0.5 from the start" in process.stdout
        process.signal(signal.SIGINT)
        assert process.end() == 130
    events = read_summary(process.run.summary).events
    assert any("comes no nearer; a person has to do it" in event for event in events)


@slow
def test_a_run_whose_motion_is_killed_ends_with_zero_effort(robots_domain, tmp_path):
    path, log = robot(tmp_path), tmp_path / "commands.txt"
    with driver(**HOW, commands_log=str(log)), up(tmp_path, path) as process:
        process.wait_for_line("moving the robot to the start")
        wait_until(lambda: log.is_file() and len(log.read_text()) > 100)
        process.node("homing").kill()
        assert process.end() == 1
        assert "homing was killed by signal 9" in process.stderr
        wait_until(lambda: float(log.read_text().split()[-1]) == 0.0)


@slow
def test_the_stand_in_is_moved_home_and_not_put_there(robots_domain, tmp_path):
    run = tmp_path / "run"
    words = [*quick_arguments(driver__reset="home"), "--no-figures", "--real-time"]
    with Up("cartpole", *words, "--episodes", "2", out=run) as process:
        assert process.end() == 0, process.stderr + process.logs
    assert process.stdout.count("moving the robot to the start") == 2
    spec = describe("cartpole").robot.spec
    for index in range(2):
        episode = read_episode(process.run.bag(index), spec, 200, process.run.config)
        assert np.abs(episode.states[0, :2]).max() < 0.21
