"""`hucrl check --move` on robots whose driver none of our code is in."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import psutil
import pytest
import yaml
from foreign_process import driver
from waiting import PATIENCE, wait_until

from hucrl_ros.cli import main
from hucrl_ros.config.files import share_directory
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.doctor.nodes.mover import LONGEST_TICK, guard_of

pytestmark = pytest.mark.ros
slow = pytest.mark.slow
GAIN = 1 / (0.3 * 0.5**2)
PATIENT = ("--set", "safety.stale_periods=20", "--set", "safety.outage_periods=400")
"""For a machine with more to do than this."""


@pytest.fixture(autouse=True)
def wide(ros_domain, monkeypatch):
    """In a ROS domain of the test's own, and no line of a table is broken."""
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def log(tmp_path):
    """Where the driver writes all commands that it gets."""
    return tmp_path / "commands"


def commands(log):
    return [float(line) for line in log.read_text().split()] if log.exists() else []


def words_of(*words, task="pendulum"):
    # Nothing else limits that one.
    limits = ("--set", "safety.velocity_limits=[100.0]") if task == "pendulum" else ()
    return [sys.executable, "-m", "hucrl_ros", "check", task, "--move", *PATIENT, *limits, *words]


def moved(*words, task="pendulum"):
    """Exit code and output of `hucrl check --move --yes`."""
    for _ in range(5):  # where processes need longer than 3 s to find each other
        done = subprocess.run(
            words_of("--yes", *words, task=task),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if "nobody publishes" not in done.stdout and "nobody listens" not in done.stdout:
            break
    return done.returncode, done.stdout + done.stderr


def row(shown, name):
    """State and text of a row of the table."""
    (found,) = re.findall(rf"^{name} +(ok|note|fault) +(.*?) *$", shown, re.MULTILINE)
    return found


def number(text):
    return float(re.match(r"-?[\d.e-]+", text).group())


def settings_in(shown):
    """The settings that are proposed."""
    text = shown.partition("of the robot's YAML:\n\n")[2].partition("\n\n")[0]
    return yaml.safe_load(text)


CHEAP = {"rate": 500, "best_effort": True, "velocity": "none", "effort": "none", "counts": 4096}


@pytest.mark.parametrize(
    ("how", "code", "gain", "delay_ms", "driver_settings"),
    [
        pytest.param({}, 0, 1.0, 1.0, ("measured", "applied"), marks=slow),
        pytest.param({"gain": -1.0}, 1, -1.0, 1.0, ("measured", "applied"), marks=slow),
        pytest.param(
            {"gain": 0.4, "effort": "last", "rate": 200},
            1,
            0.4,
            1.0,
            ("measured", "commanded"),
            marks=slow,
        ),
        pytest.param(
            {**CHEAP, "dead_time": 0.01, "friction": 0.02, "drops": 0.02, "timeout": 0.1},
            0,
            1.0,
            11.0,
            ("derived", "ignored"),
            marks=slow,
        ),
    ],
    ids=["clean", "wrong sign", "gain", "a cheap robot"],
)
def test_what_was_built_in_is_measured(how, code, gain, delay_ms, driver_settings, log):
    derived = ("--set", "driver.velocity=derived") if how.get("velocity") == "none" else ()
    with driver(**how, commands_log=str(log)):
        got, shown = moved(*derived)
    assert got == code, shown
    state, found = row(shown, "gain of pendulum_joint")
    assert number(found) == pytest.approx(gain * GAIN, rel=0.1)
    assert state == ("ok" if gain == 1.0 else "fault")
    assert number(row(shown, "dead time")[1]) == pytest.approx(delay_ms, abs=4.0)
    friction = row(shown, "friction of pendulum_joint")[1]
    if how.get("friction"):
        assert number(friction) == pytest.approx(how["friction"], abs=0.015)
    state, timeout = row(shown, "timeout")
    if how.get("timeout"):
        assert int(re.search(r"lets go (\d+) ms", timeout)[1]) == pytest.approx(100, abs=20)
    else:
        assert state == "note"
    proposed = settings_in(shown)
    assert (proposed["driver"]["velocity"], proposed["driver"]["effort"]) == driver_settings
    sent = commands(log)
    assert sent[-1] == 0.0
    assert 0.0 < max(sent) <= 0.2
    assert -0.2 <= min(sent) < 0.0


@slow
def test_each_joint_of_an_arm_has_its_own_gain_though_the_others_follow(log):
    arm = share_directory() / "config" / "examples" / "planar_arm" / "planar_arm.yaml"
    how = {"robot": "arm", "goal": [0.2, 0.3, 0.0], "friction": 0.01, "effort": "last"}
    with driver(**how, rate=200, commands_log=str(log)):
        got, shown = moved(task=str(arm))
    assert got == 0, shown
    outer = 0.006 + 0.7 * 0.15**2  # inertia about the elbow, and of all about the shoulder
    inner = 0.0085 + 1.0 * 0.15**2 + outer + 0.7 * 0.3**2 + 2 * 0.7 * 0.3 * 0.15
    for joint, inertia in (("shoulder", inner), ("elbow", outer)):
        assert number(row(shown, f"gain of {joint}")[1]) == pytest.approx(1 / inertia, rel=0.25)
    assert settings_in(shown)["driver"]["effort"] == "commanded"
    sent = commands(log)
    assert sent[-2:] == [0.0, 0.0]
    pairs = list(zip(sent[::2], sent[1::2], strict=True))
    assert not any(first and second for first, second in pairs), "one after the other"
    assert max(abs(first) for first, _ in pairs) <= 0.4


@slow
def test_a_joint_that_never_moves_gets_one_line(log):
    with driver(gain=0.0, commands_log=str(log)):
        code, shown = moved()
    assert code == 1
    assert row(shown, "gain of pendulum_joint")[1].startswith("it doesn't clearly move with 0.2")
    assert shown.count("fault gain of pendulum_joint") == 1
    assert commands(log)[-1] == 0.0


@slow
def test_what_was_measured_is_written_into_a_robots_own_yaml(tmp_path):
    task = tmp_path / "mine.yaml"
    shutil.copy(share_directory() / "sim" / "pendulum.xml", tmp_path)
    text = """# my robot
robot: {name: stick, model: pendulum.xml, period: 0.0125, steps: 400}  # by hand
reward: {terms: [{term: upright, joint: pendulum_joint}]}
/**:
  ros__parameters:
    driver: {reset: none}  # it stays where it is
    safety: {velocity_limits: [100.0]}
"""
    text = text.replace("period: 0.0125, steps: 400}", START)
    task.write_text(text)
    with driver(rate=200):
        code, shown = moved("--write", task=str(task))
        assert code == 0, shown
        assert f"written: {task}" in shown
        assert "+      effort: applied  # measured: " in shown, "as a difference"
        done = subprocess.run(
            [sys.executable, "-m", "hucrl_ros", "check", str(task)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "taken for: the mean of what acted" in done.stdout, "what was written holds"
    new = task.read_text()
    assert new.startswith(text.partition("    driver:")[0])
    parameters = yaml.safe_load(new)["/**"]["ros__parameters"]
    assert parameters["driver"] == {"reset": "none", "velocity": "measured", "effort": "applied"}
    assert 0.0 <= parameters["control"]["extra_delay"] < 0.02


START = (
    "period: 0.0125, steps: 400, scales: {pendulum_joint_velocity: 5.0}, state_bounds: "
    "{pendulum_joint_velocity: 12.0}, start: {pendulum_joint: 3.14159265}}"
)


def test_nobody_is_moved_without_consent(log):
    done = subprocess.run(words_of(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 1
    assert "--move asks first, and there is no terminal: pass --yes to agree" in done.stderr
    with driver(velocity="none", commands_log=str(log)):
        code, shown = moved()
        assert code == 1
        assert "nothing was moved" in shown, "after a fault"
        assert commands(log) == []


@slow
def test_a_robot_that_somebody_else_commands_is_left_alone(log):
    with driver(commands_log=str(log)), publisher():
        code, shown = moved()
    assert code == 1
    assert "joystick publishes on /controller/commands, too" in shown
    assert "nothing was moved" in shown
    assert commands(log) == []


def test_somebody_may_stop_it(log):
    with driver(commands_log=str(log), rate=200), moving(log) as (process, _):
        subprocess.run([sys.executable, "-c", STOP], check=True)
        shown = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 1
    assert "stopped on the topic '/stop'" in shown
    assert commands(log)[-1] == 0.0


STOP = """
import rclpy, time
from std_msgs.msg import Bool
rclpy.init()
node = rclpy.create_node("person")
publisher = node.create_publisher(Bool, "stop", 10)
while not publisher.get_subscription_count():
    time.sleep(0.05)
publisher.publish(Bool(data=True))
time.sleep(1.0)
"""

OTHER = """
import rclpy, time
from std_msgs.msg import Float64MultiArray
rclpy.init()
node = rclpy.create_node("joystick")
publisher = node.create_publisher(Float64MultiArray, "controller/commands", 10)
print("ready", flush=True)
time.sleep(300)
"""


@contextmanager
def publisher():
    """Somebody who may send commands, and doesn't."""
    process = subprocess.Popen([sys.executable, "-c", OTHER], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.kill()
        process.communicate()


@contextmanager
def moving(log):
    """`hucrl check --move` in the middle of a pulse, and its mover."""
    for _ in range(5):  # where processes need longer than 3 s to find each other
        process = subprocess.Popen(
            words_of("--yes"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        wait_until(lambda: process.poll() is not None or any(commands(log)[-1:]))  # noqa: B023
        if process.poll() is None:
            break
        process.communicate()
    try:
        yield (
            process,
            next(
                child
                for child in psutil.Process(process.pid).children()
                if "hucrl_ros.doctor.nodes.mover" in child.cmdline()
            ),
        )
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("whom", "how", "code"),
    [
        ("check", signal.SIGINT, 130),
        pytest.param("mover", signal.SIGTERM, 1, marks=slow),
        pytest.param("check", signal.SIGKILL, -9, marks=slow),
        pytest.param("mover", signal.SIGKILL, 1, marks=slow),
    ],
    ids=["Ctrl-C", "SIGTERM", "kill -9 of the command", "kill -9 of the mover"],
)
def test_whatever_ends_it_the_last_command_is_zero(whom, how, code, log):
    with driver(commands_log=str(log), rate=200):
        with moving(log) as (process, mover):
            stopper = [
                child for child in mover.children() if "stopper" in " ".join(child.cmdline())
            ]
            os.kill(process.pid if whom == "check" else mover.pid, how)
            assert process.wait(PATIENCE) == code
            psutil.wait_procs([mover, *stopper], timeout=PATIENCE)
            assert not mover.is_running() or mover.status() == psutil.STATUS_ZOMBIE
            assert not any(each.is_running() for each in stopper)
        wait_until(lambda: commands(log)[-1] == 0.0)
        count = len(commands(log))
        time.sleep(0.3)
        assert len(commands(log)) == count, "nobody sends any more"
    assert any(commands(log))


@pytest.mark.parametrize("period", [0.01, 0.02, 0.04, 0.05])
def test_efforts_rise_no_faster_than_is_allowed_in_a_control_period(period):
    spec = RobotSpec("one", ("joint",), ("joint",), (2.0,), period)
    tick = min(period, LONGEST_TICK)
    guard = guard_of(spec, SafetySettings(effort_rate=0.1), tick)
    ticks = round(0.2 / tick)
    sent = [guard.check(np.array([2.0]), np.zeros(2)).action[0] for _ in range(ticks)]
    assert sent[-1] == pytest.approx(min(2.0, 0.1 * 2.0 * 0.2 / period))
    free = guard_of(spec, SafetySettings(), tick)
    assert free.check(np.array([2.0]), np.zeros(2)).action[0] == 2.0


@slow
def test_a_mover_that_hangs_leaves_no_effort_in_force(log):
    with driver(commands_log=str(log), rate=200), moving(log) as (process, mover):
        mover.suspend()
        wait_until(lambda: commands(log)[-1] == 0.0)
        mover.resume()
        assert process.wait(PATIENCE) == 0, "the pulse is played again"
    assert commands(log)[-1] == 0.0


@slow
def test_a_driver_that_dies_ends_the_motion(log):
    with driver(commands_log=str(log), rate=200) as robot, moving(log) as (process, _):
        robot.kill()
        shown = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 1
    assert "no joint state for" in shown


def test_what_belongs_to_a_motion_is_refused_where_nothing_is_to_move(capsys):
    for words in (["--yes"], ["--write"], ["--effort-share", "0.1"], ["--effort-cap", "0.1"]):
        assert main(["check", "pendulum", *words]) == 2
        assert "belong to --move" in capsys.readouterr().err
