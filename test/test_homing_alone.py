"""What the node `homing` sends and when, and what ends a motion, by a clock of the test's."""

import math
from types import SimpleNamespace
from typing import ClassVar

import pytest

pytest.importorskip("rclpy", reason="homing is a node of ROS 2")

from lone_node import alone
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from test_homing_ros import robot

from hucrl_ros.nodes import homing as module
from hucrl_ros.nodes.setting_parameters import limits_message
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.prepare import prepare_run

PERIOD, LOOK = 0.025, 0.02
AWAY = 1.2
OUTAGE = 0.5
"""[s] The shortest, as ten periods are less."""


class Stopper:
    """In the place of the second process."""

    made: ClassVar[list] = []

    def __init__(self, efforts):
        self.efforts, self.met, self.there, self.end = efforts, 9, True, ""
        self.held = 0
        self.made.append(self)

    def meets(self, listeners):
        return 0 < listeners <= self.met

    def hold(self):
        self.held += 1
        return self.there

    def dismiss(self):
        self.end = "dismissed"

    def release(self):
        self.end = "released"


class Scene:
    """The node, what it hears, and who asks it."""

    def __init__(self, node, monkeypatch):
        self.node, self.now, self.stamp_ns = node, 100.0, 10**9
        self.place, self.others = AWAY, []
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(module, "Stopper", Stopper)
        monkeypatch.setattr(node, "get_publishers_info_by_topic", self._publishers)
        monkeypatch.setattr(Stopper, "made", [])

    def _publishers(self, topic):
        names = ("homing", "controller", "watchdog", "hucrl_stop", *self.others)
        return [SimpleNamespace(node_name=name) for name in names]

    def ask(self):
        """Call the service; the answer is `said` as soon as there is one."""
        call = self.node.answered["homing/home"](Trigger.Request(), Trigger.Response())
        self._call, self.said = call, None
        self.hear_answer()

    def hear_answer(self):
        if self.said is None:
            try:
                self._call.send(None)
            except StopIteration as end:
                self.said = end.value

    def message(self, position=None, velocity=0.0, later=PERIOD):
        self.stamp_ns += round(later * 1e9)
        place = self.place if position is None else position
        message = JointState(name=["pendulum_joint"], position=[place], velocity=[velocity])
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(self.stamp_ns, 10**9)
        return message

    def state(self, *args, **how):
        self.node.heard["joint_states"](self.message(*args, **how))
        self.hear_answer()

    def look(self):
        self.node.ring(LOOK)
        self.hear_answer()

    def silence(self, seconds):
        """Nothing is heard, but the clock is looked at."""
        for _ in range(round(seconds / LOOK)):
            self.now += LOOK
            self.look()

    def move(self):
        """Until the first commands."""
        self.ask()
        for _ in range(4):
            self.now += PERIOD
            self.state()
            self.look()
        assert self.said is None and self.node._moving and self.commands

    def go_home(self):
        """As the robot of velocities does that obeys."""
        for _ in range(1000):
            if self.said is not None:
                return
            self.now += PERIOD
            velocity = self.commands[-1] if self.commands else 0.0
            self.place += PERIOD * velocity
            self.state(velocity=velocity)
            self.look()

    @property
    def commands(self):
        return [message.data[0] for message in self.node.sent["controller/commands"]]

    @property
    def stopper(self):
        return Stopper.made[-1]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs on the joint, by the command that it takes."""
    made = {}

    def run(command):
        if command not in made:
            folder = tmp_path_factory.mktemp(command)
            asked = {"driver.reset": "home", "mode": "real_time"}
            path = str(robot(folder, command, constraint=(-2.0, 2.0)))
            made[command] = prepare_run(RunOptions(path, None, asked, folder / "run"))
        return str(made[command].root)

    return run


@pytest.fixture
def scene(request, runs, monkeypatch):
    monkeypatch.setattr(module, "SettingParameters", lambda *_: None)  # takes its time
    command = getattr(request, "param", "velocity")
    with alone(module.Homing, run=runs(command)) as node:
        yield Scene(node, monkeypatch)


position = pytest.mark.parametrize("scene", ["position"], indirect=True)


def test_the_answer_comes_when_the_robot_is_at_the_start(scene):
    scene.ask()
    scene.go_home()
    assert (scene.said.success, scene.said.message) == (True, "")
    assert abs(scene.place) < 0.05
    assert scene.commands[-1] == 0.0 and max(map(abs, scene.commands)) == pytest.approx(0.3)
    assert (scene.stopper.efforts, scene.stopper.end) == (1, "released")
    assert scene.stopper.held > 100, "whoever moves a robot is heard of at each look"


@pytest.mark.parametrize("topic", ["stop", "controller/active"])
def test_while_stopped_or_in_an_episode_no_motion_begins(scene, topic):
    scene.node.heard[topic](Bool(data=True))
    scene.ask()
    assert scene.said.message in ("stopped on the topic '/stop'", "an episode is under way")
    assert not scene.said.success and not Stopper.made
    scene.state()
    scene.look()
    assert scene.commands == []
    scene.node.heard[topic](Bool(data=False))
    scene.move()


def test_a_second_request_is_refused_and_the_motion_goes_on(scene):
    scene.move()
    call = scene.node.answered["homing/home"](Trigger.Request(), Trigger.Response())
    with pytest.raises(StopIteration) as end:
        call.send(None)
    assert end.value.value.message == "is moving the robot already"
    scene.go_home()
    assert scene.said.success and len(Stopper.made) == 1


def stopped(scene):
    scene.node.heard["stop"](Bool(data=True))


def ended(scene):
    scene.node.close()


def held_up(scene):
    scene.now += OUTAGE + 0.001
    scene.node.heard["joint_states"](scene.message())
    scene.look()


def without_stopper(scene):
    scene.stopper.there = False
    scene.look()


def tightened(scene):
    scene.node.heard["controller/limits"](limits_message({"safety.effort_limits": [0.1]}))


def not_alone(scene):
    scene.others.append("teach\npendant")
    scene.node.ring(module.GRAPH_PERIOD)


def stamps_back(scene):
    scene.state(later=-1.0)


def unreadable(scene):
    scene.state(math.nan)


def silent(scene):
    scene.silence(OUTAGE + 2 * LOOK)


def outside(scene):
    scene.state(2.1)


def repeated(scene):
    """The driver says the same again and again."""
    for _ in range(round(OUTAGE / LOOK) + 2):
        scene.now += LOOK
        scene.state(later=0.0)
        scene.look()


def blocked(scene):
    for _ in range(round(6.0 / PERIOD)):
        scene.now += PERIOD
        scene.state()
        scene.look()


ENDS = {
    stopped: "stopped on the topic '/stop'",
    ended: "this process was ended",
    held_up: "held up for 501 ms",
    without_stopper: "the process that stops the robot in case of need has ended or hangs",
    tightened: "limits were tightened meanwhile",
    not_alone: "teach pendant publishes commands, too; stop it first",
    stamps_back: "outage: stamps of joint_states went back by 1 s",
    unreadable: "joint_states: position of joint 'pendulum_joint' is nan",
    silent: "no joint state for 5",
    repeated: "no joint state for 5",
    blocked: "joint 'pendulum_joint' is 1.2 from the start",
    outside: "joint 'pendulum_joint' is at 2.1, and a constraint keeps it",
}


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_whatever_ends_a_motion_zero_is_the_last_command(scene, end):
    scene.move()
    assert scene.commands[-1] < 0.0
    end(scene)
    scene.hear_answer()
    assert not scene.said.success
    assert scene.said.message.startswith(ENDS[end])
    assert scene.commands[-1] == 0.0
    assert scene.stopper.end == "released"
    assert scene.node._health().level is module.Level.WARN
    assert not scene.node._health().values["moving"]
    sent = len(scene.commands)
    scene.now += PERIOD
    scene.state()
    scene.look()
    scene.silence(2 * OUTAGE)
    assert len(scene.commands) == sent


def test_where_an_episode_begins_not_even_a_zero_is_sent(scene):
    scene.move()
    sent = len(scene.commands)
    scene.node.heard["controller/active"](Bool(data=True))
    scene.hear_answer()
    assert scene.said.message == "an episode began"
    assert "an episode began; nothing more is sent" in str(scene.node.lines)
    scene.now += PERIOD
    scene.state()
    scene.look()
    assert len(scene.commands) == sent
    assert scene.stopper.end == "dismissed"


def test_words_that_end_or_forbid_nothing_end_no_motion(scene):
    scene.move()
    for topic in ("stop", "controller/active"):
        scene.node.heard[topic](Bool(data=False))
    scene.node.ring(module.GRAPH_PERIOD)
    scene.go_home()
    assert scene.said.success
    not_alone(scene)
    assert scene.commands[-1] == 0.0, "whoever commands the robot afterwards may"


def test_in_a_silence_it_halts_and_goes_on_afterwards(scene):
    scene.move()
    sent = len(scene.commands)
    scene.silence(0.06)
    assert len(scene.commands) == sent, "stale after three periods"
    scene.silence(0.3)
    assert scene.commands[sent:] == [0.0], "once"
    scene.stamp_ns += 360_000_000
    scene.state()
    assert scene.commands[-1] < 0.0
    scene.silence(0.1)
    assert scene.commands[sent + 2 :] == [0.0], "and again"
    assert scene.said is None


def test_it_waits_until_all_who_hear_it_hear_the_stopper_too(scene):
    scene.ask()
    for listeners, met in ((0, 0), (2, 1), (2, 2)):
        scene.node._commands.get_subscription_count = lambda number=listeners: number
        scene.stopper.met = met
        for _ in range(40):
            scene.now += PERIOD
            scene.state()
            scene.look()
        assert bool(scene.commands) is (met == 2)


@pytest.mark.parametrize("lacks", ["stopper", "listener", "joint state"])
def test_whom_it_does_not_meet_it_does_not_wait_for_for_ever(scene, lacks):
    scene.node._commands.get_subscription_count = lambda: int(lacks != "listener")
    scene.ask()
    scene.stopper.met = int(lacks != "stopper")
    for _ in range(round((module.MEET_S + 0.1) / PERIOD)):
        assert not any(scene.commands)
        scene.now += PERIOD
        if lacks != "joint state":
            scene.state()
        scene.look()
    assert scene.said.message.startswith("nobody was met on the topics within 15 s")
    assert scene.commands == [0.0] and scene.stopper.end == "released"


def test_a_place_outside_a_constraint_is_not_moved_from(scene):
    scene.place = 2.1
    scene.ask()
    for _ in range(4):
        scene.now += PERIOD
        scene.state()
        scene.look()
    assert "a constraint keeps it within -2" in scene.said.message
    assert scene.commands == [0.0]


def test_another_motion_knows_nothing_of_the_one_before(scene):
    """Not where its clock was, nor what it sent, nor that it was silent."""
    scene.move()
    scene.silence(0.1)
    stopped(scene)
    scene.hear_answer()
    stopped_at, scene.now = len(scene.commands), scene.now + 100.0
    scene.node.heard["stop"](Bool(data=False))
    scene.stamp_ns = 5 * 10**8  # The driver was started again.
    scene.ask()
    scene.look()
    assert not scene.node._moving, "what was heard before is nothing"
    scene.go_home()
    assert scene.said.success, scene.said.message
    assert scene.commands[stopped_at] == 0.0 and len(Stopper.made) == 2


def test_the_newest_of_several_joint_states_counts_and_an_overtaken_one_does_not(scene):
    scene.move()
    sent = len(scene.commands)
    late = [scene.message(position=AWAY + k) for k in (0.5, 0.6)]
    newest = scene.message(position=AWAY)
    scene.node._states.handle.messages = [late[1], newest]
    scene.node.heard["joint_states"](late[0])
    assert len(scene.commands) == sent + 1 and scene.said is None
    scene.node.heard["joint_states"](late[1])
    assert len(scene.commands) == sent + 1 and scene.said is None


def test_a_faster_driver_gets_a_command_a_period(scene):
    scene.ask()
    for _ in range(101):
        scene.now += PERIOD / 5
        scene.state(later=PERIOD / 5)
        scene.look()
    assert scene.said is None
    assert 18 <= len(scene.commands) <= 20


def test_a_stopper_that_can_not_be_started_is_no_motion(scene, monkeypatch):
    def fail(efforts):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(module, "Stopper", fail)
    scene.ask()
    assert scene.said.message.endswith("can't be started: Resource temporarily unavailable")
    scene.state()
    scene.look()
    assert scene.commands == []


def test_limits_that_were_tightened_before_hold_in_a_motion(scene):
    tightened(scene)
    scene.ask()
    scene.go_home()
    assert scene.said.success
    assert max(map(abs, scene.commands)) == pytest.approx(0.1)


@position
def test_a_robot_of_positions_is_held_where_it_is(scene):
    scene.move()
    assert not Stopper.made, "zero would be a place to go to"
    scene.state(1.1)
    stopped(scene)
    assert scene.commands[-1] == 1.1
    assert scene.node.sent["controller/commands"][-1].data[0] == 1.1


@position
def test_a_robot_of_positions_that_was_not_moved_is_told_no_place(scene):
    scene.ask()
    scene.state()
    stopped(scene)
    scene.hear_answer()
    assert not scene.said.success and scene.commands == []


@position
def test_a_place_is_held_in_a_silence_and_not_told_again_at_its_end(scene):
    scene.move()
    held = scene.commands[-1]
    sent = len(scene.commands)
    scene.silence(OUTAGE + 2 * LOOK)
    assert scene.said.message.startswith("no joint state for ")
    assert scene.commands[sent:] == [held]


@pytest.mark.parametrize("scene", ["velocity", "position"], indirect=True)
def test_nothing_is_sent_where_somebody_else_commands_the_robot_already(scene):
    """Neither a zero nor the first commands before the next look at who publishes."""
    scene.others.append("teach\npendant")
    scene.ask()
    for _ in range(3):
        scene.now += LOOK
        scene.state(later=LOOK)
        scene.look()
    assert scene.said.message == "teach pendant publishes commands, too; stop it first"
    assert scene.commands == []
    assert [each.end for each in Stopper.made] in ([], ["dismissed"])
