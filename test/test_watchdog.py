"""The watchdog beside a real controller, each a process of its own, over real DDS."""

import signal
import time

import pytest
from bench import PERIOD, Bench, Process, short_bundle
from diagnostic_msgs.msg import DiagnosticStatus
from manifest_factory import write_manifest
from std_msgs.msg import Bool, Float64MultiArray, String

from hucrl_ros.nodes.topics import LATCHED, STREAM
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.prepare import prepare_run

pytestmark = pytest.mark.ros

WATCHDOG = ("watchdog", [0.0])
SLOW_READER = """
import sys, time
from hucrl_ros.controller import trust
from hucrl_ros.nodes import watchdog
read = trust.read_manifest
def read_manifest(path, approve):
    if path.name == "slow":
        print("reading", flush=True)
        time.sleep(3600)
    return read(path, approve)
trust.read_manifest = read_manifest
sys.exit(watchdog.main())
"""
MANY_STEPS = 100_000
STALE_PERIODS = 100.0
"""More than a second: these tests run on loaded machines too."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    return short_bundle(folder / "bundle_001", MANY_STEPS)


class Robot:
    """Bench, watchdog and an active controller."""

    def __init__(self, bench, bundle, folder, mode):
        self.bench = bench
        self.folder = folder
        self.parameters = {
            "bundle": bundle,
            "mode": mode,
            "safety__stale_periods": STALE_PERIODS,
            "safety__outage_periods": 1e6,
        }
        self.watchdog = Process(
            "watchdog",
            folder / "watchdog.log",
            mode=mode,
            safety__stale_periods=STALE_PERIODS,
        )
        self.controllers = []

    def start_controller(self):
        bench = self.bench
        log = self.folder / f"controller_{len(self.controllers)}.log"
        bench.active.clear()
        self.controllers.append(Process("controller", log, **self.parameters))
        assert bench.wait(lambda: bench.active == [False]), log.read_text()
        assert bench.wait(
            lambda: bench.states.get_subscription_count() >= 1 + len(self.controllers)
        )
        assert bench.wait(lambda: bench.node.count_subscribers("controller/commands") == 2)
        assert bench.transition("configure"), log.read_text()
        assert bench.transition("activate"), log.read_text()
        assert bench.wait(lambda: self.last_trip() == (DiagnosticStatus.OK, "armed"))

    @property
    def controller(self):
        return self.controllers[-1]

    def last_trip(self):
        return next(((t.level, t.message) for t in reversed(self.bench.tripped)), None)

    def run(self, seconds):
        """Publish a joint state every period of wall time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.bench.publish()
            self.bench.spin_for(PERIOD)

    def run_until(self, condition):
        return self.bench.wait(lambda: self.run(PERIOD) or condition())

    def last_senders(self, count):
        """Who sent the last commands; what came late of the others' is not among them."""
        return {label for label, _ in self.bench.commands[-count:]}

    def close(self):
        processes = (self.watchdog, *self.controllers)
        for process in processes:
            process.clean_up()
        assert not any("Traceback" in process.text() for process in processes)


@pytest.fixture
def start(ros_domain, bundle, tmp_path):
    robots = []
    with Bench(tmp_path) as bench:

        def start_robot(mode):
            robots.append(Robot(bench, bundle, tmp_path, mode))
            robots[-1].start_controller()
            return robots[-1]

        yield start_robot
        for robot in robots:
            robot.close()


def test_a_killed_controller_is_replaced_by_the_safe_command_in_real_time(start):
    robot = start("real_time")
    bench = robot.bench
    assert robot.run_until(lambda: len(bench.commands) >= 10)
    assert {label for label, _ in bench.commands} == {""}, "no false alarm"
    robot.controller.end(signal.SIGKILL)
    bench.commands.clear()
    assert robot.run_until(lambda: bench.commands.count(WATCHDOG) >= 5)
    first = bench.commands.index(WATCHDOG)
    assert {label for label, _ in bench.commands[first:]} == {"watchdog"}
    level, line = robot.last_trip()
    assert level == DiagnosticStatus.ERROR
    assert "the controller's process has ended" in line
    assert "\n" not in line
    assert bench.health("watchdog")["trips"] == "1"


def test_a_killed_controller_is_replaced_by_the_safe_command_in_lockstep(start):
    robot = start("lockstep")
    bench = robot.bench
    assert bench.ask() is not None
    robot.controller.end(signal.SIGKILL)
    bench.commands.clear()
    bench.publish()
    assert bench.wait(lambda: bench.commands.count(WATCHDOG) >= 3)
    assert "has ended" in robot.last_trip()[1]


def test_the_safe_commands_end_when_a_new_controller_takes_over(start):
    robot = start("lockstep")
    bench = robot.bench
    assert bench.ask() is not None
    robot.controller.end(signal.SIGKILL)
    assert bench.wait(lambda: WATCHDOG in bench.commands)
    robot.start_controller()
    # Commands that it had sent before may still arrive; its own count tells whether it goes on.
    assert bench.wait(lambda: bench.health("watchdog")["message"] == "armed")

    def answers_alone():
        """Where other processes are busy, its answer may take so long that it is replaced."""
        sent = int(bench.health("watchdog")["safe_commands"])
        assert all(bench.ask() is not None for _ in range(3))
        return int(bench.health("watchdog")["safe_commands"]) == sent > 0

    assert bench.wait(answers_alone)
    sent = int(bench.health("watchdog")["safe_commands"])
    # The second controller is watched as the first one was.
    robot.controller.end(signal.SIGKILL)
    assert bench.wait(lambda: int(bench.health("watchdog")["safe_commands"]) > sent)


@pytest.mark.parametrize("mode", ["real_time", "lockstep"])
def test_a_hung_controller_is_replaced_until_it_sends_commands_again(start, mode):
    robot = start(mode)
    bench = robot.bench
    robot.run(0.1)
    robot.controller.popen.send_signal(signal.SIGSTOP)
    bench.commands.clear()
    assert robot.run_until(lambda: bench.commands.count(WATCHDOG) >= 5)
    level, line = robot.last_trip()
    assert level == DiagnosticStatus.ERROR
    assert line.startswith("no command ")
    robot.controller.popen.send_signal(signal.SIGCONT)
    assert robot.run_until(lambda: robot.last_trip()[0] == DiagnosticStatus.OK)
    assert robot.run_until(lambda: robot.last_senders(10) == {""})
    assert robot.last_trip()[0] == DiagnosticStatus.OK


def test_the_end_of_an_episode_is_no_reason_to_trip(start):
    robot = start("real_time")
    bench = robot.bench
    robot.run(0.1)
    assert bench.transition("deactivate")
    robot.run(0.3)
    robot.controller.end()
    robot.run(0.3)
    assert WATCHDOG not in bench.commands
    assert robot.last_trip() == (DiagnosticStatus.OK, "armed")
    assert bench.health("watchdog")["armed"] == "False"


def test_a_controller_that_is_asked_to_stop_in_an_episode_is_no_reason_to_trip(start):
    robot = start("lockstep")
    bench = robot.bench
    assert bench.ask() is not None
    assert robot.controller.end() == 0
    bench.spin_for(0.3)
    assert WATCHDOG not in bench.commands


def test_the_watchdog_ends_by_signal(start):
    robot = start("lockstep")
    assert robot.watchdog.end(signal.SIGINT) == 0


def changed(folder, old, new):
    """The manifest of a bundle with something else in it."""
    path = write_manifest(folder, 1) / "manifest.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return str(folder)


def test_whatever_it_is_told_of_bundles_it_stands_by_as_before(ros_domain, tmp_path):
    first = str(write_manifest(tmp_path / "first", 1))
    bad = {
        "/" + "x" * 5000: "File name too long",
        "": "it has no manifest.yaml",
        changed(tmp_path / "date", "seed: 0", "seed: 2001-13-45"): "is no timestamp",
        changed(tmp_path / "joint", "actuated_joints:\n- p", "actuated_joints:\n- P"): "lacks",
        changed(tmp_path / "bomb", "seed: 0", "a: &a [1]\nseed: *a"): "aliases",
        changed(tmp_path / "rate", "period: 0.0125", "period: 1.0e-300"): "period",
        changed(tmp_path / "push", "limits:\n- 1.0", "limits:\n- -1.0"): "effort_limits",
        changed(tmp_path / "never", "stale_periods: 3.0", "stale_periods: 1e300"): "stale_periods",
        changed(tmp_path / "late", "stale_periods: 3.0", "stale_periods: 90.0"): (
            "safety.stale_periods = 90.0, in force safety.stale_periods = 3.0"
        ),
        changed(tmp_path / "other", "task: pendulum", "task: cartpole"): "made for the task",
    }
    watchdog = Process("watchdog", tmp_path / "watchdog.log", mode="real_time")
    try:
        with Bench(tmp_path) as bench:
            node = bench.node
            bundle = node.create_publisher(String, "controller/bundle", LATCHED)
            active = node.create_publisher(Bool, "controller/active", LATCHED)
            commands = node.create_publisher(Float64MultiArray, "controller/commands", STREAM)
            assert bench.wait(lambda: bundle.get_subscription_count() == 2)
            assert bench.wait(lambda: active.get_subscription_count() == 2)
            assert bench.wait(lambda: commands.get_subscription_count() == 2)
            bundle.publish(String(data=first))
            assert bench.wait(lambda: bench.health("watchdog")["bundle"] == first)
            for path, reason in bad.items():
                bench.tripped.clear()
                bundle.publish(String(data=path))
                assert bench.wait(lambda: bench.tripped), (path[:50], watchdog.text())
                status = bench.tripped[-1]
                assert status.level == DiagnosticStatus.ERROR and reason in status.message
                assert len(status.message) < 1000 and "\n" not in status.message
                assert bench.wait(lambda: watchdog.lines(bench.tripped[-1].message[-60:]))
            health = bench.health("watchdog")
            assert (health["message"], health["bundle"]) == (status.message, first)
            active.publish(Bool(data=True))
            assert bench.wait(lambda: bench.tripped[-1].message == "armed")
            bench.commands.clear()
            # A command that no layout belongs to: the controller is there, then says no more.
            assert bench.wait(lambda: commands.publish(Float64MultiArray()) or bench.commands)
            bench.publish()
            assert bench.wait(lambda: bench.commands.count(WATCHDOG) >= 3)
        assert watchdog.popen.poll() is None
    finally:
        watchdog.clean_up()
    assert "Traceback" not in watchdog.text()


class ScriptedController:
    """Speaks for a controller that plays a bundle, sends a command and then no more."""

    def __init__(self, bench, bundle):
        node, self.bench = bench.node, bench
        self.bundle = node.create_publisher(String, "controller/bundle", LATCHED)
        active = node.create_publisher(Bool, "controller/active", LATCHED)
        commands = node.create_publisher(Float64MultiArray, "controller/commands", STREAM)
        for publisher in (self.bundle, active, commands):
            assert bench.wait(lambda publisher=publisher: publisher.get_subscription_count() == 2)
        self.offer(bundle)
        assert bench.wait(lambda: bench.health("watchdog")["bundle"] == bundle)
        active.publish(Bool(data=True))
        assert bench.wait(lambda: bench.tripped and bench.tripped[-1].message == "armed")
        bench.commands.clear()
        assert bench.wait(lambda: commands.publish(Float64MultiArray()) or bench.commands)

    def offer(self, bundle):
        self.bundle.publish(String(data=bundle))


def test_a_watchdog_that_is_stopped_leaves_the_robot_without_effort(ros_domain, tmp_path):
    damping = {"safety__safe_command": "damping", "safety__damping": 0.1}
    watchdog = Process("watchdog", tmp_path / "watchdog.log", mode="real_time", **damping)
    try:
        with Bench(tmp_path) as bench:
            ScriptedController(bench, str(write_manifest(tmp_path / "bundle", 1)))
            damped = ("watchdog", [-0.2])
            published = bench.wait(
                lambda: bench.publish(velocity=(2.0,)) or damped in bench.commands
            )
            assert published, bench.commands
            assert watchdog.end() == 0
            assert bench.wait(lambda: bench.commands[-1] == WATCHDOG), bench.commands
    finally:
        watchdog.clean_up()


def test_it_watches_on_while_it_reads_a_bundle(ros_domain, tmp_path):
    program = ("-c", SLOW_READER)
    watchdog = Process("watchdog", tmp_path / "watchdog.log", program, mode="real_time")
    try:
        with Bench(tmp_path) as bench:
            controller = ScriptedController(bench, str(write_manifest(tmp_path / "bundle", 1)))
            controller.offer(str(tmp_path / "slow"))
            assert bench.wait(lambda: watchdog.lines("reading"))
            bench.publish()
            assert bench.wait(lambda: bench.commands.count(WATCHDOG) >= 3)
    finally:
        watchdog.clean_up()


def test_a_first_bundle_that_asks_more_than_the_run_s_robot_can_do_is_refused(
    ros_domain, tmp_path
):
    run = prepare_run(RunOptions("pendulum", out=tmp_path / "run"))
    strong = changed(run.bundle(1), "limits:\n- 1.0", "limits:\n- 10000.0")
    watchdog = Process("watchdog", tmp_path / "watchdog.log", run=run.root)
    try:
        with Bench(tmp_path) as bench:
            bundle = bench.node.create_publisher(String, "controller/bundle", LATCHED)
            bundle.publish(String(data=strong))
            refused = "effort_limits is (10000.0,) in the bundle, (1.0,) here"
            assert bench.wait(lambda: watchdog.lines(refused)), watchdog.text()
            assert bench.health("watchdog")["bundle"] == ""
    finally:
        watchdog.clean_up()
