"""What the watchdog sends and when, by a clock of the test's, without ROS."""

import contextlib
import os
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="the watchdog is a node of ROS 2")

from diagnostic_msgs.msg import DiagnosticStatus
from lone_node import LoneNode, alone
from manifest_factory import write_manifest
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, MultiArrayDimension, String

from hucrl_ros.nodes import diagnostics
from hucrl_ros.nodes import watchdog as module
from hucrl_ros.nodes.process_liveness import ProcessLiveness, liveness_name
from hucrl_ros.nodes.setting_parameters import limits_message
from hucrl_ros.nodes.topics import ARRIVAL_WAIT, LATCHED, MEASURED, NEWEST, STREAM

PERIOD = 1 / 80
DAMPING = 0.1
WORDS = ("bundle", "limits", "active")
"""Topics of the controller, without its name."""
OK, ERROR = DiagnosticStatus.OK, DiagnosticStatus.ERROR


class Robot:
    """A watchdog that stands by for the pendulum, and what it hears."""

    def __init__(self, node, bundle, monkeypatch):
        self.node, self.now, self.stamp_ns, self.priorities = node, 100.0, 0, []
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(module, "try_realtime_priority", self.priorities.append)
        self.offer(bundle)
        self.node.heard["controller/active"](Bool(data=True))

    def offer(self, bundle):
        self.node.heard["controller/bundle"](String(data=str(bundle)))
        self.node._bundles._offers[0].exception()  # it is read in another thread
        self.node.ring(module.OFFERS)

    def joint_state(self, velocity=0.0, position=0.0, later=PERIOD):
        self.stamp_ns += round(later * 1e9)
        message = JointState(name=["pendulum_joint"], position=[position], velocity=[velocity])
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(self.stamp_ns, 10**9)
        self.node.heard["joint_states"](message)

    def command(self):
        self.node.heard["controller/commands"](Float64MultiArray(data=[0.3]))

    def wait(self, periods, velocity=None, position=0.0):
        """The watch is looked at some times a period meanwhile, never a moment too early.

        Joint states come once a period, if they tell a velocity.
        """
        for look in range(round(periods * module.CHECKS)):
            if velocity is not None and look % module.CHECKS == 0:
                self.joint_state(velocity, position)
            self.now += (1 + 1e-9) * PERIOD / module.CHECKS
            self.node.ring(PERIOD / module.CHECKS)

    @property
    def efforts(self):
        return [list(message.data) for message in self.node.sent["controller/commands"]]

    @property
    def trips(self):
        return [(m.level, m.message) for m in self.node.sent["watchdog/tripped"]]


@pytest.fixture
def bundle(tmp_path):
    return write_manifest(tmp_path / "bundle_001", 1)


@pytest.fixture(params=["real_time"])
def robot(monkeypatch, bundle, request):
    safety = {"safety__safe_command": "damping", "safety__damping": DAMPING}
    with alone(module.Watchdog, mode=request.param, **safety) as node:
        robot = Robot(node, bundle, monkeypatch)
        robot.joint_state()
        robot.command()
        yield robot


def test_the_safe_command_damps_the_last_velocity_and_comes_every_period(robot):
    robot.wait(2.25, velocity=2.0)
    assert robot.efforts == [], "the limit is three periods, less half of one"
    robot.wait(0.25)
    assert robot.efforts == [[pytest.approx(-2.0 * DAMPING)]]
    assert robot.trips[-1][0] == ERROR
    assert "no command 31.3 ms after a joint state (limit 31.2 ms)" in robot.trips[-1][1]
    assert robot.trips[-1][1] in robot.node.lines
    assert robot.node.sent["watchdog/tripped"][-1].name == "/watchdog"
    assert robot.node.sent["controller/commands"][-1].layout.dim == [
        MultiArrayDimension(label="watchdog", size=1, stride=1)
    ]
    for k in range(3, 7):
        robot.wait(1, velocity=float(k))
        assert robot.efforts[-1] == [pytest.approx(-k * DAMPING)]
    assert len(robot.efforts) == 5


def test_who_knows_no_bundle_says_that_it_sends_nothing(bundle, monkeypatch):
    with alone(module.Watchdog, mode="real_time") as node:
        robot = Robot(node, bundle.parent / "nowhere", monkeypatch)
        assert robot.trips[-1] == (OK, module.UNKNOWING)
        assert node._health().level is module.Level.WARN
        robot.joint_state()
        robot.command()
        for _ in range(3000):
            robot.now += PERIOD
            robot.node.ring(1.0)
            if not robot.node._watch.tripped:
                robot.joint_state()
        assert robot.node._watch.tripped and robot.efforts == []
        level, line = robot.trips[-1]
        assert level == ERROR and line.endswith("there is no safe command, as no bundle is known")
        said = len(robot.trips)
        robot.offer(bundle)
        assert len(robot.trips) == said, "it has tripped, whatever is known now"


def test_a_bundle_that_is_read_in_an_episode_arms_the_watch(bundle, monkeypatch):
    with alone(module.Watchdog, mode="real_time") as node:
        robot = Robot(node, bundle.parent / "nowhere", monkeypatch)
        robot.offer(bundle)
        assert robot.trips[-1] == (OK, "armed")


def test_a_bundle_that_is_read_after_the_episode_arms_nothing(bundle, monkeypatch):
    with alone(module.Watchdog, mode="real_time") as node:
        robot = Robot(node, bundle.parent / "nowhere", monkeypatch)
        node.heard["controller/active"](Bool(data=False))
        robot.offer(bundle)
        assert robot.trips[-1] == (OK, module.UNKNOWING)


def test_damping_is_limited_by_the_motor(robot):
    robot.wait(2.5, velocity=-50.0)
    assert robot.efforts == [[1.0]]


@pytest.mark.parametrize("told", ["before the bundle", "in the episode"])
def test_limits_tightened_in_the_controller_hold_here(bundle, monkeypatch, told):
    message = limits_message({"safety.stale_periods": 2.0, "safety.effort_limits": [0.25]})
    safety = {"safety__safe_command": "damping", "safety__damping": DAMPING}
    with alone(module.Watchdog, mode="real_time", **safety) as node:
        if told == "before the bundle":
            node.heard["controller/limits"](message)
        robot = Robot(node, bundle, monkeypatch)
        robot.joint_state()
        robot.command()
        if told == "in the episode":
            node.heard["controller/limits"](message)
        robot.wait(1.25, velocity=-5.0)
        assert robot.efforts == [], "the limit is now two periods, less half of one"
        robot.wait(0.25)
        assert robot.efforts == [[0.25]]
        assert node.get_parameter("safety.stale_periods").value == 2.0


def test_a_velocity_is_damped_while_it_is_no_older_than_the_limit(robot):
    robot.wait(1.25, velocity=2.0)
    robot.wait(1.25)
    assert robot.efforts == [[pytest.approx(-2.0 * DAMPING)]]


def test_a_velocity_from_long_ago_is_not_damped(robot):
    robot.wait(2.5, velocity=2.0)
    robot.wait(3)
    assert robot.efforts[0] == [pytest.approx(-2.0 * DAMPING)]
    assert robot.efforts[-1] == [0.0], "nobody has heard of the robot since"


def test_a_driver_that_repeats_itself_tells_nothing_new(robot):
    robot.joint_state(velocity=2.0)
    for _ in range(7):
        robot.joint_state(velocity=2.0, later=0.0)
        robot.wait(0.5)
    assert robot.efforts == [[0.0], [0.0]]


def test_a_joint_state_that_makes_no_sense_is_answered_by_zero(robot):
    robot.wait(1, velocity=2.0)
    robot.command()
    robot.wait(2.5, velocity=float("nan"))
    assert robot.efforts == [[0.0]]


def test_what_a_late_look_has_missed_is_not_made_up_for(robot):
    robot.joint_state()
    robot.wait(2.5)
    robot.now += 10 * PERIOD
    robot.node.ring(PERIOD / module.CHECKS)
    robot.node.ring(PERIOD / module.CHECKS)
    assert len(robot.efforts) == 2
    robot.wait(1)
    assert len(robot.efforts) == 3


def test_looks_that_come_a_little_late_make_the_safe_commands_no_rarer(robot):
    robot.joint_state()
    robot.wait(2.5)
    for _ in range(101):
        robot.now += 0.3 * PERIOD
        robot.node.ring(PERIOD / module.CHECKS)
    assert len(robot.efforts) == 1 + 30


def test_its_own_commands_are_not_the_controllers(robot):
    robot.joint_state()
    robot.wait(2.5)
    robot.node.heard["controller/commands"](robot.node.sent["controller/commands"][-1])
    assert robot.trips[-1][0] == ERROR
    robot.command()
    assert robot.trips[-1] == (OK, "armed: the controller sends commands again")
    robot.wait(2)
    assert len(robot.efforts) == 1


@pytest.mark.parametrize("end", ["episode", "watchdog"])
def test_the_last_command_before_silence_is_zero(robot, end):
    robot.wait(2.5, velocity=2.0)
    if end == "episode":
        robot.node.heard["controller/active"](Bool(data=False))
    else:
        robot.node.close()
    assert robot.efforts == [[pytest.approx(-2.0 * DAMPING)], [0.0]]
    robot.node.heard["controller/active"](Bool(data=False))
    robot.wait(5)
    assert len(robot.efforts) == (2 if end == "episode" else 3)


def test_its_last_command_arrives_before_it_ends(robot):
    robot.wait(2.5, velocity=2.0)
    arrived = []
    robot.node._commands.wait_for_all_acked = lambda wait: arrived.append((*robot.efforts, wait))
    robot.node.close()
    assert arrived == [([pytest.approx(-2.0 * DAMPING)], [0.0], ARRIVAL_WAIT)]


def test_one_that_is_ended_while_the_controller_controls_sends_nothing(robot, bundle):
    robot.wait(1, velocity=2.0)
    robot.node.close()
    assert robot.efforts == []
    robot.node.heard["controller/bundle"](String(data=str(bundle)))
    assert "shutdown" in robot.trips[-1][1], "and reads no more"


@pytest.mark.parametrize("robot", ["lockstep"], indirect=True)
def test_in_lockstep_time_in_which_it_was_held_up_itself_does_not_count(robot):
    robot.joint_state()
    robot.now += 60.0
    robot.node.ring(PERIOD / module.CHECKS)
    assert robot.efforts == []
    robot.wait(4.9 / PERIOD)
    assert robot.efforts == []
    robot.wait(0.2 / PERIOD)
    assert robot.trips[-1][0] == ERROR


def test_a_bundle_that_can_not_be_read_is_one_line_and_changes_nothing(robot, tmp_path):
    robot.offer(tmp_path / "nowhere")
    assert robot.trips[-1][0] == ERROR
    assert robot.trips[-1][1].startswith("can't stand by as told: ")
    assert "no such folder" in robot.trips[-1][1]
    said = len(robot.trips)
    robot.offer(tmp_path / "nowhere")
    assert len(robot.trips) == said, "once"
    robot.node.heard["controller/bundle"](String(data="error: refused"))
    assert not robot.node._bundles._offers
    robot.wait(2.5, velocity=2.0)
    assert robot.efforts == [[pytest.approx(-2.0 * DAMPING)]]


@pytest.mark.parametrize("topic", ["joint_states", *(f"controller/{k}" for k in WORDS)])
def test_whatever_it_hears_it_stands_by(robot, topic):
    robot.node.heard[topic](None)
    assert robot.trips[-1][0] == ERROR
    kind = "no parameters: " if topic == "controller/limits" else "AttributeError: "
    assert robot.trips[-1][1].startswith(f"can't stand by as told: {kind}'NoneType'")
    robot.wait(2.5, velocity=2.0)
    assert robot.efforts == [[pytest.approx(-2.0 * DAMPING)]]


def fail(*anything):
    raise RuntimeError("no middleware")


def test_who_can_not_be_asked_for_strangers_or_send_stands_by(robot, monkeypatch):
    monkeypatch.setattr(LoneNode, "get_publishers_info_by_topic", fail)
    robot.node.ring(module.COMPANY)
    failed = (ERROR, "can't stand by as told: RuntimeError: no middleware")
    assert robot.trips[-1] == failed
    robot.node._report(module.Level.OK, "")
    publish, robot.node._commands.publish = robot.node._commands.publish, fail
    robot.wait(2.5, velocity=2.0)
    assert robot.trips[-1] == failed
    robot.node._commands.publish = publish
    robot.wait(1, velocity=2.0)
    assert robot.efforts == [[pytest.approx(-2.0 * DAMPING)]]


@pytest.mark.parametrize("robot", ["real_time", "lockstep"], indirect=True)
def test_it_misses_no_word_that_was_said_before_and_meets_every_driver(robot):
    delivery = robot.node.delivery
    heard = [delivery[f"controller/{word}"] for word in WORDS]
    assert heard == [[LATCHED]] * len(WORDS)
    assert delivery["watchdog/tripped"] == [LATCHED]
    assert delivery["controller/commands"] == [STREAM, STREAM], "sent and heard"
    lockstep = robot.node._config.mode == "lockstep"
    assert delivery["joint_states"] == [NEWEST if lockstep else MEASURED]


@pytest.mark.parametrize(
    ("allowed", "wished", "taken"), [(True, 50, [51]), (True, 99, [99]), (False, 50, [])]
)
def test_it_goes_before_the_control_loop_where_that_is_allowed(
    bundle, monkeypatch, allowed, wished, taken
):
    asked = []
    monkeypatch.setattr(
        module, "set_realtime_priority", lambda priority: asked.append(priority) or allowed
    )
    with alone(module.Watchdog, mode="real_time", control__realtime_priority=wished) as node:
        robot = Robot(node, bundle, monkeypatch)
    assert (asked, robot.priorities) == ([wished], taken)


def test_limits_tightened_here_hold_at_once(robot):
    assert robot.node.asked_to_set("safety.effort_limits", [0.25]) == ""
    robot.wait(2.5, velocity=-5.0)
    assert robot.efforts == [[0.25]]


def test_nothing_is_sent_before_all_of_a_bundle_is_known(bundle, monkeypatch):
    """Limits that come before it is taken bring a guard, but not what a command must look like."""
    with alone(module.Watchdog, mode="real_time") as node:
        robot = Robot(node, bundle.parent / "nowhere", monkeypatch)
        node.heard["controller/bundle"](String(data=str(bundle)))
        node._bundles._offers[0].exception()
        node.heard["controller/limits"](limits_message({"safety.stale_periods": 2.0}))
        robot.joint_state()
        robot.now += 6.0
        node.ring(1.0)
        assert robot.trips[-1][0] == ERROR and robot.efforts == []
        node.ring(module.OFFERS)
        robot.wait(0.5)
        assert robot.efforts == [[0.0]]


@pytest.mark.parametrize("told", ["the node", "the bundle"])
def test_where_velocities_are_derived_it_damps_what_positions_tell(bundle, monkeypatch, told):
    settings = {"safety__safe_command": "damping", "safety__damping": DAMPING}
    if told == "the node":
        settings["driver__velocity"] = "derived"
    else:
        manifest = bundle / "manifest.yaml"
        changed = manifest.read_text().replace("velocity: measured", "velocity: derived")
        manifest.write_text(changed)
    with alone(module.Watchdog, mode="real_time", **settings) as node:
        robot = Robot(node, bundle, monkeypatch)
        assert node.get_parameter("driver.velocity").value == "derived"
        for k in range(5):
            robot.joint_state(velocity=0.0, position=k * 2.0 * PERIOD)
            if k == 1:
                robot.command()
            robot.wait(1)
        assert robot.efforts[0] == [pytest.approx(-2.0 * DAMPING)]


def test_a_fast_drivers_joint_states_need_a_command_a_period(bundle, monkeypatch):
    with alone(module.Watchdog, mode="real_time", safety__stale_periods=1.0) as node:
        robot = Robot(node, bundle, monkeypatch)
        for late in (0, 2) * 5:
            for look in range(module.CHECKS):
                robot.joint_state(later=PERIOD / module.CHECKS)
                if look == late:
                    robot.command()
                robot.wait(1 / module.CHECKS)
        assert robot.trips[-1] == (OK, "armed")
        for _ in range(2 * module.CHECKS):
            robot.joint_state(later=PERIOD / module.CHECKS)
            robot.wait(1 / module.CHECKS)
        assert robot.trips[-1][0] == ERROR


def test_its_diagnostics_say_what_it_has_done(robot, bundle):
    robot.joint_state()
    robot.wait(2.5)
    health = robot.node._health()
    assert health.level is module.Level.ERROR
    assert health.values == {
        "armed": True,
        "bundle": str(bundle),
        "trips": 1,
        "safe_commands": 1,
        "foreign_commands": 0,
        "strangers": "",
    }
    robot.node.ring(diagnostics.PERIOD)
    assert robot.node.sent["/diagnostics"][-1].status[0].hardware_id == "pendulum"


@pytest.mark.parametrize("kind", ["pipe", "huge", "link", "NUL", "long"])
def test_no_file_and_no_path_holds_the_watch_up(robot, bundle, tmp_path, kind):
    folder = tmp_path / "offered"
    folder.mkdir()
    manifest = folder / "manifest.yaml"
    if kind == "pipe":
        os.mkfifo(manifest)
    elif kind == "huge":
        manifest.write_bytes(b"- " * 2**20)
    elif kind == "link":
        manifest.symlink_to("/dev/zero")
    robot.offer({"NUL": f"{folder}\0", "long": "x" * 5000}.get(kind, folder))
    assert robot.trips[-1][1].startswith("can't stand by as told: ")
    assert robot.node._health().values["bundle"] == str(bundle)
    robot.wait(2.5, velocity=2.0)
    assert robot.efforts == [[pytest.approx(-2.0 * DAMPING)]]


def test_a_flood_of_bundles_makes_it_miss_no_good_one(robot, tmp_path):
    good = str(write_manifest(tmp_path / "bundle_002", 2))
    for name in ("x", "y", good, *["z"] * 100):
        robot.node.heard["controller/bundle"](String(data=name))
        offers = robot.node._bundles._offers
        if name == good:
            offers[-1].exception()
        assert len(offers) <= 3, "a good one, one that is read, and one that waits"
    for offer in offers:
        offer.exception()
    for _ in offers.copy():
        robot.node.ring(module.OFFERS)
    assert robot.node._health().values["bundle"] == good


@pytest.fixture
def servo(monkeypatch, tmp_path):
    """Makes the robot of a watchdog that takes other commands than efforts."""
    with contextlib.ExitStack() as nodes:

        def make(command):
            node = nodes.enter_context(alone(module.Watchdog, mode="real_time"))
            bundle = write_manifest(tmp_path / command, 1, command=command)
            return Robot(node, bundle, monkeypatch)

        yield make


def test_a_robot_that_takes_velocities_is_stopped(servo):
    robot = servo("velocity")
    robot.joint_state()
    robot.command()
    robot.wait(3.5, velocity=2.0)
    assert robot.efforts == [[0.0], [0.0]]
    robot.node.heard["controller/active"](Bool(data=False))
    assert robot.efforts == [[0.0]] * 3


def test_a_robot_that_takes_positions_is_held_where_it_is(servo):
    robot = servo("position")
    robot.joint_state(position=0.1)
    robot.command()  # to 0.3
    robot.wait(2.5, velocity=0.0, position=0.2)
    assert robot.efforts == [[0.2]]
    robot.wait(2, velocity=0.0, position=0.15)
    assert robot.efforts == [[0.2]] * 3, "it sags, and what is held doesn't follow"
    robot.node.heard["controller/active"](Bool(data=False))
    assert len(robot.efforts) == 3, "it is under that command already"


def test_a_robot_that_nobody_has_heard_of_is_left_where_it_was_sent(servo):
    robot = servo("position")
    robot.joint_state(position=float("nan"))
    robot.command()
    robot.joint_state(position=float("nan"))
    robot.wait(2.5)
    assert robot.efforts == [[0.3]]


def test_a_position_of_the_episode_before_is_nothing_to_hold(servo):
    robot = servo("position")
    robot.joint_state(position=0.1)
    robot.command()
    robot.node.heard["controller/active"](Bool(data=False))
    robot.node.heard["controller/active"](Bool(data=True))  # somebody has moved it meanwhile
    robot.joint_state(position=float("nan"))
    robot.wait(6 / PERIOD)
    assert robot.trips[-1][0] == ERROR
    assert robot.trips[-1][1].endswith("no safe command, as no place of the robot is known")
    assert robot.efforts == []
    robot.joint_state(position=0.9)
    robot.wait(1)
    assert robot.efforts[0] == [0.9]


def test_a_robot_that_was_heard_of_only_at_the_end_of_an_episode_is_held_there(servo):
    robot = servo("position")
    robot.joint_state(position=float("nan"))
    robot.wait(6 / PERIOD)
    assert robot.trips[-1][0] == ERROR and robot.efforts == []
    robot.joint_state(position=0.9)
    robot.node.heard["controller/active"](Bool(data=False))
    assert robot.efforts == [[0.9]]


def test_a_stricter_bundle_in_mid_episode_forgets_no_position(servo, tmp_path):
    robot = servo("position")
    robot.joint_state(position=0.1)
    robot.command()
    timers = len(robot.node.timers)
    robot.offer(write_manifest(tmp_path / "bundle_002", 2, command="position"))
    assert len(robot.node.timers) == timers, "nor does it look twice as often"
    robot.joint_state(position=float("nan"))
    robot.wait(2.5)
    assert robot.efforts == [[0.3]]


class Process:
    """Speaks as the controller's process on this machine."""

    def __init__(self, node):
        self.node = node
        self.liveness = ProcessLiveness(liveness_name(os.getpid(), "/controller/active"))
        node.ring(module.OFFERS)
        self.liveness.greet()

    def tell(self, topic, message):
        """Tell it, and bring it by DDS as well."""
        lasting = topic != "controller/commands"
        self.liveness.tell(topic, serialize_message(message), lasting)
        self.node.heard[topic](message)

    def play(self, bundle):
        self.tell("controller/bundle", String(data=str(bundle)))
        self.node._bundles._offers[0].exception()
        self.node.ring(module.OFFERS)
        self.tell("controller/active", Bool(data=True))


@pytest.fixture
def process(robot, bundle):
    process = Process(robot.node)
    process.play(bundle)
    yield process
    process.liveness.close()


def test_what_was_heard_before_the_controller_was_met_is_forgotten(robot, tmp_path):
    robot.wait(2.5, velocity=2.0)
    assert robot.efforts == [[pytest.approx(-2.0 * DAMPING)]]
    strict = limits_message({"safety.effort_limits": [1e-9]})
    robot.node.heard["controller/limits"](strict)
    process = Process(robot.node)
    assert robot.efforts[1:] == [[0.0]], "whoever it was, nobody follows up"
    health = robot.node._health().values
    assert (health["armed"], health["bundle"]) == (False, "")
    process.play(write_manifest(tmp_path / "bundle_002", 2))
    assert robot.node._guard.room["effort_limits",] == [1.0]
    process.liveness.close()


def test_what_limits_this_node_was_given_itself_stays(robot, bundle):
    robot.node._tighten({"safety.effort_limits": [0.25]})
    process = Process(robot.node)
    process.play(bundle)
    assert robot.node._guard.room["effort_limits",] == [0.25]
    process.liveness.close()


def test_only_the_controllers_process_begins_and_ends_an_episode(robot, process):
    robot.node.heard["controller/active"](Bool(data=False))
    assert robot.node._health().values["armed"]
    process.tell("controller/active", Bool(data=False))
    assert not robot.node._health().values["armed"]
    robot.node.heard["controller/active"](Bool(data=True))
    assert not robot.node._health().values["armed"]


def test_a_command_counts_when_it_was_told_and_has_come(robot, process):
    command = Float64MultiArray(data=[0.3])
    robot.joint_state()
    process.tell("controller/commands", command)
    robot.joint_state()
    robot.node.heard["controller/commands"](command)  # the same, but nobody has told it
    robot.wait(2.5)
    assert robot.trips[-1][0] == ERROR
    assert robot.node._health().values["foreign_commands"] == 1
    process.liveness.tell("controller/commands", serialize_message(command))
    robot.wait(1)
    assert robot.trips[-1][0] == ERROR, "DDS has not brought it"
    robot.node.heard["controller/commands"](command)
    assert robot.trips[-1] == (OK, "armed: the controller sends commands again")
    process.tell("controller/active", Bool(data=False))
    robot.node.heard["controller/commands"](Float64MultiArray(data=[0.2]))
    assert robot.node._health().values["foreign_commands"] == 1, "only in an episode"


def test_the_controllers_process_is_told_what_is_sent_in_its_place(robot, process):
    robot.joint_state()
    process.tell("controller/commands", Float64MultiArray(data=[0.3]))
    robot.wait(2.5, velocity=2.0)
    told = [
        (topic, deserialize_message(raw, Float64MultiArray))
        for topic, raw in process.liveness.heard()
    ]
    assert told == [("controller/commands", m) for m in robot.node.sent["controller/commands"]]
    assert robot.efforts == [[pytest.approx(-2.0 * DAMPING)]]
    robot.node.close()
    assert not robot.node._controller.connected


def test_a_dead_controllers_messages_are_nobodys(robot, process):
    robot.joint_state()
    process.tell("controller/commands", Float64MultiArray(data=[0.3]))
    process.liveness.close()
    robot.wait(0.25)
    assert robot.trips[-1] == (OK, "armed"), "what DDS brings of before may still come"
    robot.wait(0.25)
    assert "process has ended" in robot.trips[-1][1]
    robot.node.heard["controller/active"](Bool(data=False))
    robot.node.heard["controller/active"](Bool(data=True))
    robot.command()
    sent = len(robot.efforts)
    robot.wait(3)
    assert len(robot.efforts) == sent + 3


def test_the_next_controller_is_not_dead(robot, process, bundle):
    process.liveness.close()
    robot.wait(0.5)
    assert "process has ended" in robot.trips[-1][1]
    another = Process(robot.node)
    another.play(bundle)
    robot.joint_state()
    robot.wait(1)
    assert robot.trips[-1] == (OK, "armed")
    another.liveness.close()


def test_a_velocity_of_the_episode_before_is_not_damped(robot, process):
    robot.joint_state(velocity=2.0)
    process.tell("controller/active", Bool(data=False))
    process.tell("controller/active", Bool(data=True))
    process.liveness.close()
    robot.wait(0.5)
    assert robot.efforts == [[0.0]]


def test_the_clock_may_start_again_with_an_episode(robot, process):
    robot.wait(2, velocity=0.0)
    process.tell("controller/active", Bool(data=False))
    process.tell("controller/active", Bool(data=True))
    robot.stamp_ns = 0
    robot.joint_state(velocity=2.0)
    process.liveness.close()
    robot.wait(0.5)
    assert robot.efforts == [[pytest.approx(-2.0 * DAMPING)]]


def test_a_second_trip_is_answered_at_once_and_then_every_period(robot, process):
    command = Float64MultiArray(data=[0.3])
    robot.joint_state()
    process.tell("controller/commands", command)
    robot.wait(2.5, velocity=2.0)
    process.tell("controller/commands", command)
    assert robot.trips[-1] == (OK, "armed: the controller sends commands again")
    process.liveness.close()
    robot.wait(0.5)
    assert len(robot.efforts) == 2, "half a period after the last one"
    robot.wait(0.75)
    assert len(robot.efforts) == 2
    robot.wait(0.25)
    assert len(robot.efforts) == 3


@pytest.mark.parametrize("robot", ["real_time", "lockstep"], indirect=True)
def test_a_process_that_is_stopped_at_two_looks_is_replaced_unless_physics_waits(robot, process):
    robot.joint_state()
    process.tell("controller/commands", Float64MultiArray(data=[0.3]))
    watcher = robot.node._controller._process
    for stopped in (True, False, True):
        watcher._look = lambda stopped=stopped: setattr(watcher, "stopped", stopped)
        robot.wait(0.25)
        assert robot.trips[-1] == (OK, "armed")
    robot.wait(0.25)
    if robot.node._config.mode == "lockstep":
        assert robot.trips[-1] == (OK, "armed") and robot.efforts == []
    else:
        assert robot.trips[-1][1].startswith("no command can come: the controller's process is")
        assert len(robot.efforts) == 1


def test_it_warns_where_only_messages_tell_of_the_controller(robot, bundle):
    def warned():
        return sum("not on this machine" in line for line in robot.node.lines)

    assert warned() == 1
    process = Process(robot.node)
    process.play(bundle)
    assert warned() == 1
    process.liveness.close()


def test_without_a_process_only_finite_commands_count(robot):
    robot.joint_state()
    robot.node.heard["controller/commands"](Float64MultiArray(data=[float("nan")]))
    robot.wait(2.5)
    assert robot.trips[-1][0] == ERROR


def publisher(name, namespace="/"):
    return SimpleNamespace(node_name=name, node_namespace=namespace)


def test_it_says_once_who_speaks_besides(monkeypatch, robot):
    found = {
        "/controller/commands": ["controller", "watchdog", "homing", "hucrl_stop", "bad\nname"],
        "/controller/active": ["controller", "controller"],
        "/joint_states": ["driver", "other"],
        "/goal": ["camera"],
    }
    monkeypatch.setattr(
        LoneNode,
        "get_publishers_info_by_topic",
        lambda self, topic: [*map(publisher, found.get(topic, ()))],
    )
    for _ in range(3):
        robot.node.ring(module.COMPANY)
    lines = [
        "/controller/commands: besides our nodes publishes /bad name",
        "/controller/active: besides our nodes publishes /controller 2 times",
        "/joint_states: more than one publisher: /driver, /other",
    ]
    assert [line for line in robot.node.lines if "publish" in line] == lines
    assert robot.node._health().values["strangers"] == "; ".join(lines)
    # What a run's own nodes publish together is nobody else's.
    found.clear()
    found["/controller/commands"] = ["controller", "watchdog"]
    robot.node.ring(module.COMPANY)
    assert robot.node._health().values["strangers"] == ""
