"""Robots whose driver none of our code is in: each works, or is refused in one line in seconds."""

import os
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
import yaml
from foreign_process import driver
from quick_run import Up, quick_arguments

from hucrl_ros.bags.contents import read_contents
from hucrl_ros.bags.course import IN_FORCE, LEAST_SHARE, REPORTED
from hucrl_ros.bags.interrupted import sound_part
from hucrl_ros.bags.messages import deserialize
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.cli import main
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.controller.ticks import Source
from hucrl_ros.learning.prior import prior_episodes
from hucrl_ros.robots import describe, make_robot
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import read_summary
from hucrl_ros.tasks import make_task

pytestmark = pytest.mark.ros
slow = pytest.mark.slow
SPEC = make_robot("pendulum").spec
STEPS = 400


@pytest.fixture
def robots_domain(monkeypatch, tmp_path_factory):
    """A ROS domain that `hucrl up` may take for itself: no `Domain` of the tests holds it."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    monkeypatch.setenv("ROS_DOMAIN_ID", str(100 - worker))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path_factory.mktemp("ros_log")))


def check(task="pendulum", *words):
    """`hucrl check`: exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", "hucrl_ros", "check", task, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    return done.returncode, done.stdout + done.stderr


ON_ROBOT = {
    "safety__velocity_limits": [100.0],  # the driver's pendulum may turn for ever
    "exploration__random_share": 1.0,  # what is learned from shall show in each period
    "exploration__random_bandwidth": 0.0,
}
"""Settings for a robot that nothing limits, which `hucrl up` refuses, and for lively efforts."""


def domain_here():
    return {"ROS_DOMAIN_ID": os.environ["ROS_DOMAIN_ID"]}


def up(out, *words, episodes=1):
    arguments = [
        "pendulum",
        *quick_arguments(**ON_ROBOT),
        "--no-figures",
        "--no-simulator",
        *words,
    ]
    return Up(*arguments, "--episodes", str(episodes), out=out, environment=domain_here())


def learned_from(out):
    """The run's only episode, as its learner has read it, and the one line on each event."""
    run = out
    episode = read_episode(run.bag(0), SPEC, STEPS, run.config)
    return episode, read_summary(run.summary).events


def unexplained(episode):
    """Deviation of the change of speed from that of a pendulum under the actions [rad/s]."""
    kept = episode.contiguous
    angle, speed = episode.states[:-1].T
    effort = episode.actions[:, 0]
    count = 50
    for _ in range(count):
        pull = 9.81 / 0.5 * np.sin(angle) + (effort - 0.005 * speed) / 0.075
        speed = speed + SPEC.period / count * pull
        angle = angle + SPEC.period / count * speed
    return float(np.median(np.abs(episode.states[1:, 1] - speed)[kept]))


TYPICAL = 0.0125 / 0.075 * 0.5
"""[rad/s] What a typical random effort changes the speed by in a control period."""


@pytest.mark.parametrize(
    ("how", "words", "acted"),
    [
        pytest.param({}, (), REPORTED, marks=slow),
        pytest.param({"effort": "last"}, (), IN_FORCE, marks=slow),
        ({"rate": 500, "best_effort": True, "effort": "none"}, (), IN_FORCE),
        pytest.param(
            {"rate": 1000, "best_effort": True, "drops": 0.1, "duplicates": 0.1, "swaps": 0.05},
            (),
            "",
            marks=slow,
        ),
    ],
    ids=["at the control rate", "the newest command", "500 Hz, no effort", "1 kHz, unreliable"],
)
def test_what_is_learned_from_is_what_happened(how, words, acted, robots_domain, tmp_path):
    with driver(**how), up(tmp_path / "run", *words) as process:
        assert process.end() == 0, process.stderr + process.logs
        episode, events = learned_from(process.run)
    assert episode.acted == acted or not acted, "at 1 kHz both are the same"
    assert len(episode.actions) > 0.95 * STEPS
    assert episode.contiguous.mean() >= LEAST_SHARE, "a busy machine's driver is late"
    assert np.ptp(episode.stamps_ns) / 1e9 == pytest.approx(5.0, rel=0.1)
    assert unexplained(episode) < (0.02 if acted == REPORTED else 0.2) * TYPICAL
    assert not any("velocities" in event for event in events)


@pytest.mark.parametrize(
    ("how", "line"),
    [
        pytest.param({"rate": 50}, "rate: 50 Hz for commands at 80 Hz", marks=slow),
        ({"velocity": "none"}, "velocities: none; have them derived from positions: --set "),
        pytest.param({"velocity": "nan"}, "velocities: that of joint ", marks=slow),
        pytest.param({"stamps": "zero"}, "stamps: all are 0; have the driver fill in", marks=slow),
    ],
    ids=["50 Hz", "no velocities", "NaN", "no stamps"],
)
def test_what_can_not_work_is_refused_in_one_line_before_anything_moves(
    how, line, robots_domain, tmp_path
):
    with driver(**how):
        code, shown = check()
        assert code == 1
        assert line.split(":")[0] in shown
        with up(tmp_path / "run") as process:
            assert process.end() == 1
    assert f"the robot can't be controlled: {line}" in process.stderr
    assert process.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists(), "nothing half-made is left"


@slow
def test_a_robot_begins_with_what_was_learned_in_simulation(robots_domain, tmp_path):
    """No random episode; its own transitions count whole, those of the simulator a tenth."""
    words = ["pendulum", *quick_arguments(), "--no-figures", "--episodes", "1"]
    simulated = tmp_path / "simulated"
    assert main(["train", *words, "--out", str(simulated)]) == 0
    chosen = ("--from", str(simulated), "--set", "driver.velocity=derived")
    with (
        driver(rate=500, best_effort=True, velocity="none", effort="none"),
        up(tmp_path / "run", *chosen) as process,
    ):
        assert process.end() == 0, process.stderr + process.logs
        episode, _ = learned_from(process.run)
    run = process.run
    first, second = (read_manifest(run.bundle(k)) for k in range(2))
    assert not first.random
    assert first.report.predicted_return is not None
    assert first.data_hash != second.data_hash
    assert second.report.surprise is not None, "of the simulator's model in the robot's episode"
    assert Source.RANDOM not in episode.ticks["source"]
    assert unexplained(episode) < TYPICAL
    weights = [each.weight for each in prior_episodes(run, make_task("pendulum", 0.2))]
    assert weights == [pytest.approx(0.1)]
    assert run.on_robot.exists()


@pytest.mark.parametrize("mode", ["--lockstep", pytest.param("--real-time", marks=slow)])
def test_what_is_meant_for_the_simulator_never_moves_a_robot(mode, robots_domain, tmp_path):
    told = tmp_path / "told"
    words = ["pendulum", *quick_arguments(), "--no-figures", "--episodes", "1", mode]
    with (
        driver(commands_log=str(told)),
        Up(*words, out=tmp_path / "run", environment=domain_here()) as process,
    ):
        assert process.end() == 1
    domain = domain_here()["ROS_DOMAIN_ID"]
    assert f"another robot is in ROS domain {domain}" in process.stderr
    assert "/joint_states comes from /foreign_driver as well" in process.stderr
    assert len(process.stderr.splitlines()) == 1
    assert not told.exists(), told.read_text()
    # Once it is gone the run goes on.
    with Up(*words, "--resume", out=tmp_path / "run", environment=domain_here()) as process:
        assert process.end() == 0


@slow
def test_without_a_driver_a_run_does_not_begin(robots_domain, tmp_path):
    with up(tmp_path / "run") as process:
        assert process.end() == 1
    assert "nobody publishes on /joint_states; start the robot's driver first" in process.stderr


def test_a_driver_by_the_usual_names_is_named_where_the_description_has_others(
    robots_domain, tmp_path
):
    robot = yaml.safe_load(describe("pendulum").path.read_text())
    robot["robot"]["model"] = str(describe("pendulum").model)
    robot["robot"]["topics"] = {"joint_states": "/arm/joint_states", "commands": "/arm/commands"}
    robot["task"] = {}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(robot))
    with driver():
        code, shown = check(str(tmp_path / "mine.yaml"))
    assert code == 1
    told = "but on {0}: name it in the description: topics: {{{1}: {0}}}"
    assert told.format("/joint_states", "joint_states") in shown
    assert told.format("/controller/commands", "commands") in shown


@slow
def test_velocities_of_an_encoder_are_derived_or_complained_about(robots_domain, tmp_path):
    how = {"rate": 500, "velocity": "difference", "counts": 4096, "best_effort": True}
    with driver(**how):
        with up(tmp_path / "measured") as process:
            assert process.end() == 0, process.stderr + process.logs
        assert "driver.velocity = derived" in process.stdout, "on the terminal"
        with up(tmp_path / "derived", "--set", "driver.velocity=derived") as process:
            assert process.end() == 0, process.stderr + process.logs
            episode, events = learned_from(process.run)
    assert not any("velocities" in event for event in events)
    assert unexplained(episode) < TYPICAL, "an encoder's steps, not noise of many of them"


@pytest.mark.parametrize(
    "how",
    [{"dies_for": 2.0}, pytest.param({"stamps": "jump"}, marks=slow)],
    ids=["driver gone for two seconds", "clock a second back"],
)
def test_after_an_outage_the_episode_begins_again_at_a_reset(how, robots_domain, tmp_path):
    with driver(rate=200, dies_after=1.5, **how), up(tmp_path / "run") as process:
        assert process.end() == 0, process.stderr + process.logs
        episode, events = learned_from(process.run)
        kept = [path.name for path in process.run.episodes.iterdir()]
    assert any("outage" in event and "playing the episode again" in event for event in events)
    assert "episode_000_interrupted_1" in kept
    assert episode.states[0, 0] == pytest.approx(np.pi, abs=0.05), "from the start on"
    assert len(episode.actions) > 0.95 * STEPS


@slow
@pytest.mark.parametrize(
    "how",
    [{"dies_after": 3.0, "dies_for": 2.0}, {"dies_after": 3.0, "stamps": "jump"}],
    ids=["driver gone for two seconds", "clock a second back"],
)
def test_what_came_before_an_outage_is_learned_from_on_request(how, robots_domain, tmp_path):
    words = ("--set", "model.interrupted=true")
    with driver(rate=200, **how), up(tmp_path / "run", *words) as process:
        assert process.end() == 0, process.stderr + process.logs
        run = process.run
        (attempt,) = run.interrupted(0)
        part = sound_part(attempt, SPEC, STEPS, run.config)
        events = read_summary(run.summary).events
    assert part.episode is not None, part.line
    assert 0 < len(part.episode.actions) < STEPS
    assert unexplained(part.episode) < 0.2 * TYPICAL, "the pendulum's own course"
    assert f"episode 0: {attempt.name}: {part.line}" in events
    assert len(read_summary(run.summary).episodes) == 1


@slow
def test_a_person_may_take_as_long_as_it_takes(robots_domain, tmp_path):
    words = ("--set", "driver.reset=person")
    with driver(), up(tmp_path / "run", *words) as process:
        process.wait_for_line("put the robot at the start")
        node = process.node("supervisor")
        time.sleep(3.0)
        assert node.status() != psutil.STATUS_ZOMBIE
        call = subprocess.run(
            [sys.executable, "-c", CALL], capture_output=True, text=True, check=True
        )
        assert call.stdout.split() == ["True"]
        assert process.end() == 0, process.stderr + process.logs
    assert len(read_summary(process.run.summary).episodes) == 1


CALL = """
import rclpy
from std_srvs.srv import Trigger
rclpy.init()
node = rclpy.create_node("person")
client = node.create_client(Trigger, "supervisor/start")
assert client.wait_for_service(30)
answer = client.call_async(Trigger.Request())
rclpy.spin_until_future_complete(node, answer, timeout_sec=30)
print(answer.result().success)
"""


SERVO = """<mujoco><option timestep="0.0025"/><worldbody><body><joint name="pendulum_joint"
  axis="0 1 0" damping="0.005"/><geom size="0.05" pos="0 0 0.5" mass="0.3"/></body></worldbody>
  <actuator>{actuator}</actuator></mujoco>"""
ACTUATORS = {
    "velocity": '<velocity joint="pendulum_joint" kv="0.4" ctrlrange="-3 3"/>',
    "position": '<position joint="pendulum_joint" kp="4" kv="0.4"/>',
}


def servo_robot(folder, command):
    """The driver's pendulum, as a user describes it."""
    (folder / "servo.xml").write_text(SERVO.format(actuator=ACTUATORS[command]))
    robot = {"model": "servo.xml", "period": 0.025, "steps": 60, "command": command}
    robot["start"] = {"pendulum_joint": float(np.pi)}
    if command == "position":
        robot["command_limits"] = [0.2]
    terms = [{"term": "upright", "joint": "pendulum_joint"}]
    path = folder / "servo.yaml"
    path.write_text(yaml.safe_dump({"robot": robot, "reward": {"terms": terms}}))
    return path


@slow
@pytest.mark.parametrize("command", ["velocity", "position"])
def test_a_driver_that_takes_something_else_than_efforts_is_learned_from(
    command, robots_domain, tmp_path
):
    """What the commands did, by the driver's own physics; efforts that it shows don't count."""
    robot = servo_robot(tmp_path, command)
    words = [*quick_arguments(**ON_ROBOT), "--no-figures", "--no-simulator", "--episodes", "1"]
    out = tmp_path / "run"
    with (
        driver(rate=200.0, interface=command, named=True),
        Up(str(robot), *words, out=out, environment=domain_here()) as process,
    ):
        assert process.end() == 0, process.stderr + process.logs
    run = RunFolder.open(out)
    spec = describe(str(robot)).robot.spec
    episode = read_episode(run.bag(0), spec, 60, run.config)
    kept = episode.contiguous
    assert kept.mean() > 0.9, episode.events
    acting, off = torque_of(command, episode)
    # A mean over the period stands for two commands in it, so it isn't exact.
    assert np.median(np.abs(off[kept])) < 0.15 * np.median(np.abs(acting[kept]))
    commands = [m for m in read_contents(run.bag(0)).messages if m.is_of("controller/commands")]
    sent = np.array([deserialize(m.data, m.type).data[0] for m in commands])
    assert np.isfinite(sent).all()
    if command == "velocity":
        assert np.abs(sent).max() <= 3.0 and sent[-1] == 0.0
    else:
        assert np.abs(np.diff(sent)).max() <= 2 * 0.2 + 1e-9
        assert sent[-1] == pytest.approx(episode.states[-1][0], abs=0.1), "it is held there"


def torque_of(command, episode):
    """What the actions change the speed by in a period, and how far the driver's is from that."""
    period, count = 0.025, 100
    changes = []
    for share in (0.0, 1.0):
        angle, speed = episode.states[:-1].T
        action = share * episode.actions[:, 0]
        target = angle + action
        for _ in range(count):
            drive = 0.4 * (action - speed)
            if command == "position":
                drive = 4.0 * (target - angle) - 0.4 * speed
            pull = 9.81 / 0.5 * np.sin(angle)
            speed = speed + period / count * (
                pull + (np.clip(drive, -1, 1) - 0.005 * speed) / 0.075
            )
            angle = angle + period / count * speed
        changes.append(speed)
    return changes[1] - changes[0], episode.states[1:, 1] - changes[1]


def test_a_driver_that_says_it_takes_something_else_is_refused(robots_domain, tmp_path):
    robot = servo_robot(tmp_path, "velocity")
    for interface, code in (("position", 1), ("velocity", 0)):
        with driver(rate=80.0, interface=interface, named=True):
            found, shown = check(str(robot), "--set", "safety.velocity_limits=[100.0]")
        assert found == code, shown
        assert ("has interface_name = 'position'" in shown) == (code == 1)
    with driver(rate=80.0, interface="velocity", named=True, joints=["elbow"]):
        found, shown = check(str(robot), "--set", "safety.velocity_limits=[100.0]")
    assert found == 1 and "has joints = ['elbow']" in shown
