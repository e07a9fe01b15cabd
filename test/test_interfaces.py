"""What holds of robots that take efforts, velocities or positions, from the model to the bag."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from bag_messages import COMMANDS, JOINT_STATES, TICKS, Recording, floats, joint_state, tick
from interfaces import COMMANDS as KINDS
from interfaces import PERIOD, STEPS, described, task_with
from manifest_factory import write_manifest
from own_robots import changed, refusal, resolved, write
from quick_run import SETTINGS

from hucrl_ros.bags.contents import read_contents
from hucrl_ros.bags.course import IN_FORCE, SENT
from hucrl_ros.bags.foreign import read_foreign
from hucrl_ros.bags.messages import deserialize
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.config.robot import RobotSettings, RobotSpec
from hucrl_ros.config.schema import Config, ControlSettings, DriverSettings, SafetySettings
from hucrl_ros.config.task_file import read_description
from hucrl_ros.controller.admission import check_robot
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.control_loop import ControlLoop
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.controller.state_reader import JointReading
from hucrl_ros.controller.surprise import Level
from hucrl_ros.controller.ticks import Source, Tick
from hucrl_ros.controller.timing import DelayCompensation, InForce
from hucrl_ros.errors import BundleError, ConfigError, OutageError
from hucrl_ros.experiments.train import train
from hucrl_ros.learning.from_bags import _record
from hucrl_ros.robots.mujoco_robot import MujocoRobot, Plant
from hucrl_ros.robots.resolve import resolve
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.prepare import prepare_run

SLIDE = RobotSpec("slide", ("a",), ("a",), (0.5,), PERIOD, command="position")
SERVOS = {
    "velocity": {"shoulder": {"kv": 2.0}, "elbow": {"kv": 1.0}},
    "position": {"shoulder": {"kp": 40.0, "kv": 3.0}, "elbow": {"kp": 20.0, "kv": 1.0}},
}


@pytest.fixture(params=KINDS)
def task(request, tmp_path):
    return task_with(tmp_path, request.param)


def of_urdf(command, **robot):
    """The planar arm of the examples, whose URDF names no servos."""
    described = {"model": "planar_arm.urdf", "period": 0.04, "timestep": 0.004, "steps": 25}
    described |= {"command": command, **robot}
    return {"robot": described, "reward": {"terms": [{"term": "effort"}]}}


# A contract of all three


def test_a_command_and_its_action_are_told_from_each_other_in_any_state(task):
    spec, rng = task.spec, np.random.default_rng(0)
    states = rng.normal(size=(5, spec.state_dim))
    actions = rng.normal(size=(5, spec.action_dim))
    commands = spec.to_command(actions, states)
    np.testing.assert_allclose(spec.to_action(commands, states), actions, atol=1e-12)
    same = np.array_equal(commands, actions)
    assert same == (spec.command != "position")


def test_physics_is_the_same_for_actions_and_for_the_commands_that_they_are(task):
    robot, plant = task.robot(), Plant(task.robot(), seed=3)
    rng, limits = np.random.default_rng(1), np.array(task.spec.effort_limits)
    state = robot.reset(np.random.default_rng([3, 0]))
    for _ in range(20):
        np.testing.assert_allclose(state, plant.robot.state, atol=1e-12)
        action = rng.uniform(-limits, limits)
        plant.command(task.spec.to_command(action, plant.robot.state))
        plant.period()
        state = robot.step(action)


def test_no_action_leaves_a_robot_at_rest_about_where_it_is(task):
    robot = task.robot()
    state = np.zeros(task.spec.state_dim)
    state[0] = 0.5 if task.spec.command == "velocity" else 0.0
    robot.set_state(state)
    for _ in range(25):
        after = robot.step(np.zeros(task.spec.action_dim))
    np.testing.assert_allclose(after, state, atol=0.01)


def test_a_plant_without_a_command_that_makes_sense_stays_where_it_is(task):
    plant = Plant(task.robot(), seed=0)
    plant.reset(0)
    plant.command(None)
    before = plant.robot.state
    for _ in range(10):
        plant.period()
    np.testing.assert_allclose(plant.robot.state, before, atol=0.01)


def test_a_run_is_played_recorded_and_learned_from(tmp_path, task):
    path = write(tmp_path, described(tmp_path, task.spec.command))
    run = prepare_run(
        RunOptions(str(path), overrides={**SETTINGS, "episodes": 1}, out=tmp_path / "run")
    )
    train(run.config, run)
    manifest = read_manifest(run.bundle(1))
    assert manifest.command == task.spec.command
    assert manifest.spec == task.spec
    episode = read_episode(run.bag(0), task.spec, STEPS, run.config)
    limits = np.array(task.spec.effort_limits)
    assert (np.abs(episode.actions) <= limits + 1e-9).all()
    # Of efforts the braking rule keeps the arm slow.
    share = 0.2 if task.spec.command == "effort" else 0.8
    assert (np.abs(episode.actions) > share * limits).any()
    # What is learned from is what physics makes of it.
    robot, states = task.robot(), episode.states
    for state, action, following in list(zip(states, episode.actions, states[1:], strict=False))[
        ::9
    ]:
        robot.set_state(state)
        np.testing.assert_allclose(robot.step(action), following, atol=1e-3)


def test_a_bundle_is_refused_where_the_robot_takes_something_else(tmp_path, task):
    other = "effort" if task.spec.command != "effort" else "velocity"
    with pytest.raises(BundleError, match=f"command is '{task.spec.command}'.*'{other}' here"):
        check_robot(tmp_path, task.spec, replace(task.spec, command=other))


# What the model must have


@pytest.mark.parametrize("command", KINDS)
@pytest.mark.parametrize("actual", KINDS)
def test_an_actuator_must_fit_the_command(command, actual, tmp_path):
    document = changed(described(tmp_path, actual), command=command, command_limits=None)
    if command == "position":
        document = changed(document, command_limits=[0.1] * (1 if actual == "velocity" else 2))
    if command == actual:
        resolved(tmp_path, document)
        return
    tag = "motor" if command == "effort" else command
    message = refusal(tmp_path, document)
    assert f"is no {tag}; robot.command = {command}: make it a <{tag}>, or take it out" in message


def test_gains_and_limits_are_the_models(tmp_path):
    robot = task_with(tmp_path, "velocity").robot()
    assert robot.spec.effort_limits == (1.5,)
    robot.set_state(np.array([0.0, 0.0, 0.2, 0.0]))
    robot.substep(np.array([1.0]))
    assert robot.efforts == pytest.approx([40 * (1.0 - 0.2)])
    robot.substep(np.array([9.0]))
    assert robot.data.ctrl[0] == 1.5
    arm = task_with(tmp_path, "position").robot()
    arm.set_state(np.zeros(4))
    arm.substep(np.array([0.1, 9.0]))
    assert arm.efforts == pytest.approx([60 * 0.1, 6.0]), "kp, and the servo's own limit"


@pytest.mark.parametrize("command", ["velocity", "position"])
def test_servos_that_are_put_in_another_order_keep_gains_and_limits(command, tmp_path):
    as_it_is = task_with(tmp_path, command).robot()
    names = list(reversed(as_it_is.spec.actuated_joints))
    document = changed(described(tmp_path, command), actuated=names)
    turned = resolved(tmp_path, changed(document, timestep=0.005))
    model = MujocoRobot(turned).model
    joints = [model.joint(int(k)).name for k in model.actuator_trnid[:, 0]]
    assert joints == names
    for key in ("gainprm", "biasprm", "forcerange"):
        ours = getattr(model, f"actuator_{key}")
        theirs = getattr(as_it_is.model, f"actuator_{key}")[::-1]
        np.testing.assert_allclose(ours, theirs, err_msg=key)


@pytest.mark.parametrize("command", ["velocity", "position"])
def test_a_urdf_gets_servos_from_the_description(command, tmp_path):
    found = resolved(tmp_path, of_urdf(command, command_limits=[0.2, 0.2], servos=SERVOS[command]))
    robot = MujocoRobot(found)
    assert found.robot.actuated == ("shoulder", "elbow")
    robot.set_state(np.zeros(4))
    for _ in range(40):
        state = robot.step(np.array([0.2, -0.2]))
    if command == "velocity":
        np.testing.assert_allclose(state[2:], [0.2, -0.2], atol=0.02)
    assert state[0] > 0.2 > -0.2 > state[1]
    robot.substep(np.array([100.0, 100.0]))
    assert np.abs(robot.data.qfrc_actuator).max() <= 2.0, "the URDF's effort limit"


def test_velocities_beyond_those_of_a_urdf_are_refused(tmp_path):
    """MuJoCo doesn't know them; the arm's are 15 rad/s."""
    faster = of_urdf("velocity", command_limits=[15.0, 20.0], servos=SERVOS["velocity"])
    message = refusal(tmp_path, faster)
    assert "20 for joint 'elbow' exceeds the limit of planar_arm.urdf, 15" in message
    at_most = of_urdf("velocity", command_limits=[15.0, 15.0], servos=SERVOS["velocity"])
    assert resolved(tmp_path, at_most).robot.command_limits == (15.0, 15.0)
    # Changes of position in a period are no velocities.
    steps = of_urdf("position", command_limits=[20.0, 20.0], servos=SERVOS["position"])
    assert resolved(tmp_path, steps).robot.command_limits == (20.0, 20.0)
    path, urdf = write(tmp_path, faster), tmp_path / "planar_arm.urdf"
    text = urdf.read_text()
    urdf.write_text(text.replace('velocity="15.0"', 'velocity="0"'))  # None is told.
    assert resolve(read_description(path)).robot.command_limits == (15.0, 20.0)
    urdf.write_text(text.replace('velocity="15.0"', 'velocity="15 rad/s"'))
    with pytest.raises(ConfigError, match="velocity = '15 rad/s'; expected a number"):
        resolve(read_description(path))


@pytest.mark.parametrize(
    ("robot", "reason"),
    [
        ({"command": "velocity"}, "robot.actuated is missing"),
        (
            {"command": "velocity", "actuated": ["elbow"]},
            "servos.elbow is missing.*give {kv: ...}",
        ),
        ({"command": "position", "actuated": ["elbow"]}, "give {kp: ..., kv: ...}"),
        ({"command": "velocity", "servos": SERVOS["velocity"]}, "robot.command_limits is missing"),
        (
            {"command": "velocity", "servos": SERVOS["position"]},
            "command = velocity takes kv alone",
        ),
        ({"command": "effort", "servos": SERVOS["velocity"]}, "command = effort takes no servos"),
        ({"command": "torque"}, "robot.command = 'torque': Input should be 'effort'"),
        (
            {"command": "velocity", "effort_limits": [1.0]},
            "has command_limits .rad/s or m/s. instead",
        ),
        ({"command": "effort", "command_limits": [1.0]}, "has effort_limits .N m or N. instead"),
        (
            {"command": "velocity", "servos": {"wrist": {"kv": 1.0}}, "actuated": ["elbow"]},
            "robot.servos: 'wrist' is no one of robot.actuated",
        ),
    ],
)
def test_what_does_not_fit_a_command_is_refused(robot, reason, tmp_path):
    message = refusal(tmp_path, of_urdf(**robot))
    assert re.search(reason, message), message


def test_a_servo_of_another_unit_is_refused(tmp_path):
    document = described(tmp_path, "velocity")
    model = tmp_path / "velocity.xml"
    model.write_text(model.read_text().replace("<velocity ", '<velocity gear="2" '))
    assert "has a gear of 2; commands are rad/s or m/s of the joint" in refusal(tmp_path, document)


def test_a_manifest_of_before_is_of_efforts(tmp_path):
    folder = write_manifest(tmp_path / "bundle", 1)
    file = folder / "manifest.yaml"
    text = file.read_text()
    assert "command: effort\n" in text
    file.write_text(text.replace("command: effort\n", ""))
    assert read_manifest(folder).spec.command == "effort"


# What a bag says


def play(folder, dead_time=0.0):
    """A slider with states at 250 Hz, sent 10 ms later in each period to 0.1 k."""
    recording, began = Recording(folder), 10**9
    count, each = 20, 10
    for k in range(count * each + 1):
        stamp = began + k * 4_000_000
        place = 0.05 * k / each
        recording.now_ns = stamp + 300_000
        recording.writer.write(
            f"/{JOINT_STATES}",
            joint_state(stamp, [place], [1.25], [77.0], ("a",)),
            recording.now_ns,
        )
        if k % each == 0 and k < count * each:
            target, sent = 0.1 * (k // each), stamp + 10_300_000
            recording.writer.write(f"/{COMMANDS}", floats([target]), sent)
            recording.writer.write(f"/{TICKS}", tick(stamp, k // each, [target - place]), sent)
    recording.writer.close()
    return folder


@pytest.mark.parametrize("effort", ["auto", "applied", "commanded", "ignored"])
def test_in_real_time_an_action_is_the_mean_command_less_the_position(effort, tmp_path):
    config = Config(mode="real_time", driver=DriverSettings(effort=effort))
    episode = read_episode(play(tmp_path / "bag"), SLIDE, 100, config)
    assert episode.acted == IN_FORCE
    k = np.arange(len(episode.actions))
    # Until the first command it holds where it was; then for 10 of 40 ms the one before acts.
    means = 0.25 * 0.1 * np.maximum(k - 1, 0) + 0.75 * 0.1 * k
    np.testing.assert_allclose(episode.actions[:, 0], means - 0.05 * k, atol=1e-6)


def test_a_dead_time_makes_commands_act_later(tmp_path):
    config = Config(mode="real_time", control=ControlSettings(extra_delay=0.01))
    episode = read_episode(play(tmp_path / "bag"), SLIDE, 100, config)
    k = np.arange(len(episode.actions))
    means = 0.5 * 0.1 * np.maximum(k - 1, 0) + 0.5 * 0.1 * k
    np.testing.assert_allclose(episode.actions[:, 0], means - 0.05 * k, atol=1e-6)


def test_of_velocities_the_commands_count_and_not_the_efforts(tmp_path):
    config = Config(mode="real_time")
    spec = replace(SLIDE, command="velocity")
    episode = read_episode(play(tmp_path / "bag"), spec, 100, config)
    assert episode.acted == IN_FORCE
    assert episode.actions[5, 0] == pytest.approx(0.25 * 0.4 + 0.75 * 0.5)
    efforts = read_episode(tmp_path / "bag", replace(SLIDE, command="effort"), 100, config)
    np.testing.assert_allclose(efforts.actions, 77.0)


def test_in_lockstep_ticks_tell_what_acted(tmp_path):
    recording = Recording(tmp_path / "bag")
    for k in range(5):
        stamp = (10 + k) * 40_000_000
        recording.add(JOINT_STATES, joint_state(stamp, [k], [0.0], [77.0], ("a",)))
        recording.add(COMMANDS, floats([k + 0.1]))
        recording.add(TICKS, tick(stamp, k, [0.1]))
    recording.writer.close()
    episode = read_episode(tmp_path / "bag", SLIDE, 10)
    assert episode.acted == SENT
    np.testing.assert_array_equal(episode.actions, np.full((4, 1), 0.1))


@pytest.mark.parametrize("command", ["velocity", "position"])
def test_a_foreign_bag_tells_what_acted_by_its_commands(command, tmp_path):
    robot = RobotSettings(
        model="none.xml",
        period=PERIOD,
        steps=10,
        joints=("a",),
        actuated=("a",),
        command=command,
        command_limits=(0.5,),
    )
    found = read_foreign(play(tmp_path / "bag"), robot, Config(mode="real_time"))
    (course,) = found.courses
    k = np.arange(1, len(course.actions) + 1)  # before the first command nobody knows what acted
    means = 0.25 * 0.1 * np.maximum(k - 1, 0) + 0.75 * 0.1 * k
    expected = means - 0.05 * k if command == "position" else means
    np.testing.assert_allclose(course.actions[:, 0], expected, atol=1e-6)
    # Kept as an episode of ours, it says the same.
    run = prepare_run(
        RunOptions(str(write(tmp_path, described(tmp_path, "velocity"))), out=tmp_path / "run")
    )
    _record(run, robot.spec, [course])
    episode = read_episode(run.bag(0), robot.spec, 100, run.config)
    np.testing.assert_allclose(episode.actions, course.actions, atol=1e-12)
    sent = [m for m in read_contents(run.bag(0)).messages if m.is_of(COMMANDS)]
    first = deserialize(sent[1].data, sent[1].type).data[0]
    assert first == pytest.approx(robot.spec.to_command(course.actions, course.states[:-1])[1, 0])


# The control loop


class Mover:
    """Wants to go on by 0.1."""

    surprise = SimpleNamespace(level=Level.CALM, value=1.0)

    def start_episode(self, seed):
        pass

    def sent(self, action, coming=(), command=None):
        """Nothing is learned from it."""
        return True

    def go_on_from(self, other):
        """Nothing is remembered."""

    def obey(self, safety):
        """Nothing goes by it."""

    def act(self, state, spent_s=0.0, coming=(), periods=1):
        self.coming = coming
        return Tick(np.array([0.1]), Source.PLANNED, 1, 0.0, 0.0, None)

    def plan_ahead(self):
        pass

    def uncertainty(self, state, action, passed=()):
        return 0.0, 0.0


class Slide:
    """A loop for the slider, and what it sends."""

    def __init__(self, steps=10, age=0.0):
        self.now, self.sent, self.step = 0.0, [], 0
        self.mover = Mover()
        control = ControlSettings(latency_compensation="always", extra_delay=0.01)
        self.loop = ControlLoop(
            SLIDE,
            steps,
            self.mover,
            Guard(SLIDE, SafetySettings()),
            lambda: self.now,
            DelayCompensation(PERIOD, 1, control, age),
            outage_s=0.5,
        )
        self.loop.start(0)

    def show(self, position, velocity=0.0):
        self.step += 1
        self.now += PERIOD
        reading = JointReading(["a"], [position], [velocity], round(self.step * PERIOD * 1e9))
        return self.loop.answer(reading, self.now, self.sent.append)


def test_a_tick_keeps_the_action_and_sends_the_position():
    slide = Slide()
    assert slide.show(0.5).record.action == pytest.approx((0.1,))
    assert slide.sent == [pytest.approx(0.6)]


def test_a_position_that_was_planned_from_some_time_ago_is_sent_as_planned():
    slide = Slide(age=0.02)
    record = slide.show(0.5, velocity=1.0).record  # it was at 0.48
    assert slide.sent == [pytest.approx(0.58)]
    assert record.action == pytest.approx((0.08,))


def test_until_the_first_command_acts_a_robot_is_taken_to_hold_where_it_is():
    slide = Slide()
    slide.show(0.5)
    ((command, share),) = slide.mover.coming
    assert command == 0.5 and share == pytest.approx(0.25)
    slide.show(0.55)
    ((command, share),) = slide.mover.coming
    assert command == pytest.approx(0.6) and share == pytest.approx(0.25)


def test_after_the_last_tick_a_robot_is_held_where_it_is():
    slide = Slide(steps=1)
    slide.show(0.5)
    assert slide.show(0.57).record is None
    assert slide.loop.finish() == 0.57
    assert slide.loop.finish() is None


def test_without_joint_states_a_robot_is_left_where_it_was_sent():
    slide = Slide()
    assert slide.loop.stale() is None, "nothing has been sent or heard"
    slide.show(0.5)
    assert slide.loop.stale() == pytest.approx(0.6)
    assert slide.loop.stale() == pytest.approx(0.6)
    slide.now += 9.0
    with pytest.raises(OutageError):
        slide.loop.stale()
    assert slide.loop.finish() is None


def test_after_an_outage_an_old_position_is_not_gone_back_to():
    slide = Slide()
    slide.show(0.5)
    slide.now += 9.0
    with pytest.raises(OutageError):
        slide.show(0.6)
    assert slide.loop.finish() == pytest.approx(0.6), "where it was sent"


def test_a_joint_state_that_makes_no_sense_holds_or_sends_nothing():
    slide = Slide()
    answer = slide.show(float("nan"))
    assert slide.sent == [] and answer.record.action == (0.0,)
    slide.show(0.5)
    slide.show(float("nan"))
    assert slide.sent == [pytest.approx(0.6)] * 2


# The agent


def test_an_action_for_later_is_told_from_where_the_robot_is_now(tmp_path):
    """The plan is the way from where the robot will be; both name the same place."""
    path = write(tmp_path, described(tmp_path, "position"))
    overrides = {**SETTINGS, "episodes": 1, "planner.algorithm": "policy"}
    run = prepare_run(RunOptions(str(path), overrides=overrides, out=tmp_path / "run"))
    train(run.config, run)
    agent = Agent(load_bundle(run.bundle(1)), None)
    state = np.array([0.3, -0.2, 0.5, 0.1])
    coming = (InForce(np.array([0.4, -0.3]), 1.0),)
    tick_now = agent.act(state, coming=coming)
    ahead = agent._predict(state, coming)
    # A whole period under that command: the model's mean under the way to it.
    way = np.array([[0.1, -0.1]], np.float32)
    mean = agent.bundle.run("dynamics", state=state[None].astype(np.float32), action=way)[0][0]
    np.testing.assert_allclose(ahead, mean, atol=1e-5)
    planned = agent.act(ahead).action
    np.testing.assert_allclose(tick_now.action + state[:2], planned + ahead[:2], atol=1e-6)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("command", ["velocity", "position"])
def test_a_robot_learns_to_reach_its_goal(command, tmp_path):
    path = write(tmp_path, described(tmp_path, command))
    overrides = {"episodes": 3, "action_penalty": 0.0, "search.iterations": 40}
    run = prepare_run(RunOptions(str(path), overrides=overrides, out=tmp_path / "run"))
    train(run.config, run)
    task = task_with(tmp_path, command)
    episode = read_episode(run.bag(2), task.spec, STEPS, run.config)
    states = torch.as_tensor(episode.states, dtype=torch.float32)
    assert (task.distance(states) < task.success_distance).any()
    earned = task.rewards(episode.states[:-1], episode.actions).sum()
    assert earned > STEPS / 2, "it stays near the goal; random actions earn nothing"
