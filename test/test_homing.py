"""The motion to the start: how it moves, when it is over, what it refuses. No ROS."""

import numpy as np
import pytest
import yaml
from own_robots import modelled, write

from hucrl_ros.config.files import override
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import Config
from hucrl_ros.controller import homing
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.homing import HomeMotion, HomePlan
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots import describe
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.home import away_from_window, check_home, home_plan, home_windows
from hucrl_ros.run.prepare import prepare_run

PERIOD, INERTIA, LIMIT = 0.01, 0.05, 1.0
SUBSTEPS = 10


def spec_of(command, joints=1):
    names = ("joint", "passive")[:joints]
    limits = {"effort": LIMIT, "velocity": 2.0, "position": 0.05}
    return RobotSpec("one", names, names[:1], (limits[command],), PERIOD, command=command)


def plan_of(joints=1, target=0.0, tolerance=0.05, turns=False):
    every = np.ones(joints)
    return HomePlan(target * every, tolerance * every, every == turns, np.array([INERTIA]))


class Joint:
    """A mass, or a drive that follows velocities or places at once."""

    def __init__(self, command, place, speed=0.0, inertia=INERTIA, friction=0.0, load=0.0):
        self.command, self.place, self.speed = command, place, speed
        self.inertia, self.friction, self.load = inertia, friction, load
        self.stop, self.share = -np.inf, 1.0  # of a velocity that it follows

    @property
    def state(self):
        return np.array([self.place, self.speed])

    def step(self, command):
        before = self.place
        for _ in range(SUBSTEPS):
            dt = PERIOD / SUBSTEPS
            if self.command == "effort":
                dry = self.friction * np.tanh(self.speed / 0.01)
                self.speed += dt * (command - dry + self.load) / self.inertia
                self.place += dt * self.speed
            elif self.command == "velocity":
                self.place += dt * self.share * command
            if self.place < self.stop:
                self.place, self.speed = self.stop, 0.0
        if self.command == "position":
            self.place = max(command + self.load, self.stop)
        if self.command != "effort":
            self.speed = (self.place - before) / PERIOD


def go_home(joint, plan=None, **settings):
    """Motion, and places, speeds and commands on the way."""
    config = override(Config(), {f"home.{name}": value for name, value in settings.items()})
    spec = spec_of(joint.command)
    motion, guard = HomeMotion(spec, plan or plan_of(), config), Guard(spec, config.safety)
    course = []
    for step in range(10_000):
        action = motion.act(joint.state, step * PERIOD)
        if motion.done or motion.problem:
            break
        command = guard.check(action, joint.state).command
        joint.step(float(command[0]))
        course.append((joint.place, joint.speed, float(command[0])))
    return motion, np.array(course).T


@pytest.mark.parametrize("command", ["effort", "velocity", "position"])
@pytest.mark.parametrize("begin", [-1.5, 0.01, 2.0])
def test_it_gets_home_no_faster_than_it_may(command, begin):
    motion, (places, speeds, commands) = go_home(Joint(command, begin))
    assert motion.done and not motion.problem
    assert abs(places[-1]) < 0.05 and abs(speeds[-1]) < 0.01
    assert np.abs(speeds).max() < 1.15 * 0.3
    assert len(places) * PERIOD < abs(begin) / 0.3 + 6.0
    if command == "effort":
        assert np.abs(commands).max() <= 0.5 * LIMIT
        assert not commands[-50:].any(), "before it is done, motors have let go"
    else:
        assert (np.sign(begin) * places).min() > -5e-3, "it doesn't get past the start"
    if command == "velocity":
        changes = np.abs(np.diff(commands, prepend=0.0)) / PERIOD
        assert changes.max() < 1.2 * 0.3 / homing.RAMP_S


@pytest.mark.parametrize("speed", [0.1, 0.6])
def test_its_speed_is_a_setting(speed):
    _, (_, speeds, _) = go_home(Joint("velocity", 1.0), speed=speed)
    assert np.abs(speeds).max() == pytest.approx(speed, rel=0.02)


@pytest.mark.parametrize(
    "changes",
    [
        {"inertia": INERTIA / 3},
        {"inertia": 5 * INERTIA},
        {"friction": 0.1},
        {"speed": 3.0},
        {"speed": -3.0, "friction": 0.05},
    ],
    ids=["lighter", "heavier", "friction", "moves away", "moves there"],
)
def test_it_gets_home_where_the_model_is_wrong_or_the_robot_moves(changes):
    motion, (places, _, _) = go_home(Joint("effort", 1.0, **changes))
    assert motion.done and abs(places[-1]) < 0.05


def test_the_short_way_round_is_taken_where_turns_do_not_count():
    begin = 2 * np.pi * 3 - 0.5
    assert go_home(Joint("velocity", begin), plan_of(turns=True))[0].done
    motion, (places, *_) = go_home(Joint("velocity", begin), plan_of(turns=False), time=5.0)
    assert len(places) * PERIOD == pytest.approx(5.0, abs=2 * PERIOD)
    assert "from the start" in motion.problem and "after 5 s" in motion.problem


@pytest.mark.parametrize("command", ["effort", "velocity", "position"])
def test_a_blocked_joint_is_named_with_its_way(command):
    joint = Joint(command, 1.0)
    joint.stop = 0.4
    motion, (places, _, commands) = go_home(joint)
    assert motion.problem.startswith("joint 'joint' is 0.4 from the start (0.025 are allowed)")
    assert motion.problem.endswith("comes no nearer")
    assert len(places) * PERIOD < 1.0 / 0.3 + homing.BLOCKED_S + 3.0
    if command == "effort":
        assert np.abs(motion._integral) <= motion._most, "let go, it would be hurled on"
        assert np.abs(commands).max() <= 0.5 * LIMIT


@pytest.mark.parametrize("how", ["late", "the wrong way round"])
def test_a_joint_that_our_own_efforts_drive_away_is_let_go(how):
    spec, config = spec_of("effort"), Config()
    motion, joint = HomeMotion(spec, plan_of(), config), Joint("effort", 1.0)
    coming = [0.0] * (40 if how == "late" else 0)
    fastest = 0.0
    for step in range(10_000):
        coming.append(float(motion.act(joint.state, step * PERIOD)[0]))
        if motion.done or motion.problem:
            break
        joint.step(coming.pop(0) * (1 if how == "late" else -1))
        fastest = max(fastest, abs(joint.speed))
    assert motion.problem.startswith("joint 'joint' is ")
    assert "times home.speed" in motion.problem
    assert fastest < 1.5


@pytest.mark.parametrize("command", ["effort", "position"])
def test_a_joint_that_was_held_and_let_go_is_not_led_on_faster_than_it_may(command):
    """Somebody's hand is near it."""
    spec, config = spec_of(command), Config()
    motion, joint = HomeMotion(spec, plan_of(), config), Joint(command, 1.5)
    fastest = 0.0
    for step in range(2_000):
        action, before = motion.act(joint.state, step * PERIOD), joint.place
        if motion.done or motion.problem:
            break
        joint.step(float(spec.to_command(action, joint.state)[0]))
        if 1.0 <= step * PERIOD < 4.0:
            joint.place, joint.speed = before, 0.0
        fastest = max(fastest, abs(joint.place - before) / PERIOD)
    assert "times home.speed" in motion.problem
    assert step * PERIOD < 4.3
    assert command == "position" or fastest < 1.1, "an ideal drive is there at once"


def test_a_robot_that_does_not_stay_when_motors_let_go_is_not_home():
    motion, _ = go_home(Joint("effort", 0.5, load=0.1))
    assert "it leaves the start when motors let go" in motion.problem


def test_a_joint_without_motor_has_to_hang_still():
    spec, config = spec_of("velocity", joints=2), override(Config(), {"home.time": 10.0})
    swinging = HomeMotion(spec, plan_of(joints=2), config)
    still = HomeMotion(spec, plan_of(joints=2), config)
    for step in range(1100):
        now = step * PERIOD
        swinging.act(np.array([0.0, 0.02 * np.sin(4 * now), 0.0, 0.0]), now)
        still.act(np.array([0.0, 0.02, 0.0, 0.0]), now)
    assert still.done and not swinging.done
    assert "'passive'" in swinging.problem and "not at rest" in swinging.problem


def in_parallel(case):
    """Two motions of one joint: alone, and behind a passive one, elsewhere, at another time."""
    command = "velocity" if case in ("is blocked", "the wrong way round") else "effort"
    limits = (spec_of(command).effort_limits[0],)
    second = RobotSpec("two", ("passive", "joint"), ("joint",), limits, PERIOD, command=command)
    plan = HomePlan(
        np.array([3.0, 0.7]), np.array([0.5, 0.05]), np.zeros(2, bool), np.array([INERTIA])
    )
    joint = Joint(command, 0.01 if case == "is pushed" else 1.0)
    joint.speed = 4.0 if case == "moves away" else 0.0
    joint.stop = 0.4 if case == "is blocked" else -np.inf
    joint.share = -1.0 if case == "the wrong way round" else 1.0
    motions = HomeMotion(spec_of(command), plan_of(), Config()), HomeMotion(second, plan, Config())
    for step in range(1500):
        now, (place, speed) = step * PERIOD, joint.state
        one = motions[0].act(np.array([place, speed]), now)
        two = motions[1].act(np.array([3.02, place + 0.7, 0.0, speed]), 1000.0 + now)
        yield motions, one, two
        if any(motion.done or motion.problem for motion in motions):
            return
        joint.step(float(one[0]))
        if case == "is thrown" and step == 100:
            joint.speed = 2.0
        if case == "is pushed" and step == 150:
            joint.place += 0.12  # The motors have let go.


@pytest.mark.parametrize(
    ("case", "end"),
    [
        ("moves away", ""),
        ("is pushed", ""),
        ("is blocked", "comes no nearer"),
        ("the wrong way round", "moves away"),
        ("is thrown", "[rad/s or m/s]"),
    ],
)
def test_neither_the_clock_nor_other_joints_nor_where_the_start_is_changes_anything(case, end):
    for (alone, behind), one, two in in_parallel(case):
        np.testing.assert_allclose(two, one, atol=1e-6)
        assert (behind.done, behind.problem) == (alone.done, alone.problem)
    assert alone.done == (not end)
    assert alone.problem.endswith(end)


@pytest.mark.parametrize(
    ("share", "end"), [(0.0, "comes no nearer"), (-1.0, "moves away"), (1.0, "[rad/s or m/s]")]
)
def test_of_two_motors_the_one_that_fails_is_named(share, end):
    names = ("fine", "failing")
    spec = RobotSpec("two", names, names, (2.0, 2.0), PERIOD, command="velocity")
    plan = HomePlan(np.zeros(2), np.full(2, 0.05), np.zeros(2, bool), np.full(2, INERTIA))
    motion, joints = HomeMotion(spec, plan, Config()), [Joint("velocity", 0.3) for _ in names]
    joints[1].share = share or 1.0
    for step in range(1000):
        if not share:  # What is blocked gives way a little: that isn't to come nearer.
            joints[1].stop = 0.2 - 1e-6 * step
        elif share > 0.0 and step > 20:  # Somebody turns it.
            joints[1].place += 2.0 * PERIOD
        states = np.array([joint.state for joint in joints])
        action = motion.act(states.T.ravel(), step * PERIOD)
        if motion.problem:
            break
        for joint, command in zip(joints, action, strict=True):
            joint.step(float(command))
    assert "'failing'" in motion.problem and motion.problem.endswith(end)


@pytest.mark.parametrize("what", ["commands", "measurements"])
def test_it_is_gentler_where_it_is_known_to_act_late(what):
    """By 0.1 s, with which a joint that nobody said is late does not get home."""
    late = 10
    known = {"control.extra_delay": late * PERIOD}
    if what == "measurements":
        known = {"driver.velocity": "derived", "driver.velocity_window": 2 * late * PERIOD}
    motion = HomeMotion(spec_of("effort"), plan_of(), override(Config(), known))
    joint, coming, seen = Joint("effort", 0.5), [0.0] * late, []
    for step in range(1500):
        seen.append(joint.state)
        state = seen[max(step - late, 0)] if what == "measurements" else seen[-1]
        coming.append(float(motion.act(state, step * PERIOD)[0]))
        if motion.done or motion.problem:
            break
        joint.step(coming.pop(0 if what == "commands" else -1))
    assert motion.done


def test_a_gap_in_the_joint_states_is_not_made_up_for():
    """It speeds up from rest when it hears of the robot again."""
    motion, state = HomeMotion(spec_of("velocity"), plan_of(), Config()), np.array([1.0, 0.0])
    motion.act(state, 0.0)
    assert 0.0 < abs(motion.act(state, 2.0)[0]) < 0.05


def test_a_drive_that_gives_way_to_a_load_is_held_at_the_start():
    assert go_home(Joint("position", 0.1, load=-0.002))[0].done


def test_a_drive_that_is_slower_than_asked_gets_home_and_is_asked_for_no_more_than_it_may():
    joint = Joint("velocity", 1.0)
    joint.share = 0.5
    motion, (_, _, commands) = go_home(joint)
    assert motion.done
    assert np.abs(commands).max() <= 0.3


def test_positions_that_jitter_are_no_fast_motion():
    motion, joint = HomeMotion(spec_of("velocity"), plan_of(), Config()), Joint("velocity", 0.3)
    for step in range(1000):
        jitter = 0.006 * (-1) ** step if step > 50 else 0.0
        action = motion.act(joint.state + np.array([jitter, 0.0]), step * PERIOD)
        if motion.done or motion.problem:
            break
        joint.step(float(action[0]))
    assert motion.done


def test_a_joint_that_is_turned_past_the_far_side_of_the_start_is_no_fast_one():
    motion = HomeMotion(spec_of("effort"), plan_of(turns=True), Config())
    for step in range(100):
        now = step * PERIOD
        motion.act(np.array([np.pi - 0.05 + 0.25 * now, 0.25]), now)
    assert not motion.problem


def test_pushes_while_the_motors_have_let_go_are_undone_and_who_is_home_has_no_problem():
    motion, joint = HomeMotion(spec_of("effort"), plan_of(), Config()), Joint("effort", 0.01)
    pushes, quiet = 0, 0
    for step in range(3000):
        now = step * PERIOD
        action = motion.act(joint.state, now)
        if motion.done or motion.problem:
            break
        quiet = 0 if action.any() else quiet + 1
        joint.step(float(action[0]))
        if quiet == 50 and pushes < homing.RETURNS:
            joint.place, joint.speed, pushes = joint.place + 0.12, 0.0, pushes + 1
    assert motion.done and pushes == homing.RETURNS
    motion.act(joint.state, now + 1e3)
    assert motion.done and not motion.problem


# What a robot's description says of it


@pytest.mark.parametrize("task", ["pendulum", "cartpole", "reacher"])
def test_models_get_home(task):
    check_home(describe(task), Config(task=task))


def test_the_plan_is_where_episodes_start():
    plan = home_plan(describe("cartpole"), Config(task="cartpole"))
    assert plan.targets.tolist() == [0.0, 0.0]
    assert plan.tolerances == pytest.approx([0.2, 0.2])  # two deviations
    assert plan.turns.tolist() == [False, True]  # the rail has an end
    # A command of 1 is 100 N on a cart of 10.47 kg with a pole of 5.02 kg below.
    assert 0.1047 < plan.inertias[0] < 0.1549
    limited = Config(task="cartpole", safety={"position_limits": (-2.0, 2.0, -9.0, 9.0)})
    assert not home_plan(describe("cartpole"), limited).turns.any()


def test_a_weak_motors_inertia_is_that_of_the_model(tmp_path):
    model = """<mujoco><option timestep="0.01"/><worldbody><body>
      <joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1" mass="0.002"/></body>
    </worldbody><actuator><motor joint="rail" ctrlrange="-0.02 0.02"/></actuator></mujoco>"""
    found = describe(str(write(tmp_path, modelled(tmp_path, model), "weak.yaml")))
    assert home_plan(found, Config(task="weak")).inertias == pytest.approx([0.002])


def limited(folder, low, high, joint="pole", **robot):
    document = yaml.safe_load(pole(folder, **robot).read_text())
    document["constraints"] = [{"kind": "position", "joint": joint, "low": low, "high": high}]
    return describe(str(write(folder, document, "pole.yaml")))


def test_a_joint_that_a_constraint_limits_is_never_led_the_short_way_round(tmp_path):
    plan = home_plan(describe(str(pole(tmp_path, {}))), Config(task="pole"))
    assert plan.turns.tolist() == [False, True], "the rail is no angle"
    plan = home_plan(limited(tmp_path, -2.0, 2.5, start={}), Config(task="pole"))
    assert plan.turns.tolist() == [False, False]


def test_a_start_outside_a_constraint_is_refused(tmp_path):
    described = limited(tmp_path, 0.5, 2.0, start={})
    with pytest.raises(ConfigError, match=r"joint 'pole' starts at 0, .* within 0\.5 … 2"):
        home_plan(described, Config(task="pole"))


def test_a_joint_with_motor_outside_a_constraint_is_not_led_home(tmp_path):
    described = limited(tmp_path, -0.4, 0.4, joint="rail", start={})
    spec, windows = described.robot.spec, home_windows(described)
    assert windows.tolist() == [[-0.4, 0.4], [-np.inf, np.inf]]
    assert away_from_window(spec, windows, np.array([0.44, 9.0])) == ""
    line = away_from_window(spec, windows, np.array([-0.6, 0.0]))
    assert (
        line == "joint 'rail' is at -0.6, and a constraint keeps it within -0.4 … 0.4 [rad or m]"
    )


POLE = """<mujoco><option timestep="0.005"/><worldbody><body><joint name="rail" type="slide"
  axis="1 0 0" damping="0.5"/><geom size="0.05" mass="1"/><body><joint name="pole" axis="0 1 0"
  damping="0.02"/><geom size="0.05" pos="0 0 -0.5" mass="0.2"/></body></body></worldbody>
  <actuator><motor joint="rail" ctrlrange="-5 5"/></actuator></mujoco>"""


def pole(folder, start, **robot):
    (folder / "pole.xml").write_text(POLE)
    document = {
        "robot": {"model": "pole.xml", "period": 0.02, "steps": 50, "start": start, **robot},
        "reward": {"terms": [{"term": "upright", "joint": "pole"}]},
    }
    return write(folder, document, "pole.yaml")


@pytest.mark.parametrize(
    ("start", "line"),
    [
        ({"pole": float(np.pi)}, "joint 'pole' is "),
        ({"pole_velocity": 1.0}, "joint 'pole' starts with a velocity of 1, not at rest"),
    ],
    ids=["upright", "moving"],
)
def test_a_start_that_it_can_not_promise_is_refused_before_anything_is_made(start, line, tmp_path):
    path, out = pole(tmp_path, start), tmp_path / "run"
    asked = {"driver.reset": "home", "mode": "real_time", "home.time": 20.0}
    with pytest.raises(ConfigError) as error:
        prepare_run(RunOptions(str(path), None, asked, out))
    assert str(error.value).startswith("driver.reset = home: ") and line in str(error.value)
    assert "--set driver.reset=person" in str(error.value) and "\n" not in str(error.value)
    assert not out.exists()


def test_a_pole_that_hangs_is_accepted(tmp_path):
    path = pole(tmp_path, {"rail": 0.3})
    asked = {"driver.reset": "home", "mode": "real_time"}
    run = prepare_run(RunOptions(str(path), None, asked, tmp_path / "run"))
    plan = home_plan(describe(run.config.task, run.robot), run.config)
    assert plan.targets.tolist() == [0.3, 0.0]


def test_an_object_can_not_be_brought_back():
    with pytest.raises(ConfigError, match="nobody would bring 'object' back"):
        home_plan(describe("pusher"), Config(task="pusher"))
