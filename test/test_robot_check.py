"""What is said of a robot's driver by what was heard of it: made-up drivers, no ROS."""

import copy
import dataclasses
import math

import numpy as np
import pytest
from own_robots import DANGLING, EXAMPLES, changed, modelled, pushing, resolved

from hucrl_ros.cli.check import look_at, robot_of
from hucrl_ros.config.schema import Config, DriverSettings, SafetySettings
from hucrl_ros.doctor import Level
from hucrl_ros.doctor.robot import judge, judge_limits, judge_state, refuse_faults
from hucrl_ros.errors import RunError
from hucrl_ros.robots.resolve import describe
from hucrl_ros.run.asked import RunOptions

PENDULUM = describe("pendulum").robot
REACHER = describe("reacher").robot
JOINT_STATE, EFFORTS = "sensor_msgs/msg/JointState", "std_msgs/msg/Float64MultiArray"
NOW = 1_700_000_000 * 10**9


def topic(kind, publishers=(), subscribers=()):
    told = [{"node": name, "reliability": "BEST_EFFORT"} for name in publishers]
    return {"types": [kind], "publishers": told, "subscribers": list(subscribers)}


def heard(rate=80.0, seconds=2.0, **changes):
    """A good driver of the pendulum; in `changes`, what its messages hold instead."""
    messages = []
    for k in range(round(rate * seconds)):
        time = k / rate
        message = {
            "stamp_ns": NOW + round(1e9 * time),
            "received_ns": NOW + round(1e9 * time) + 400_000,
            "names": ["pendulum_joint"],
            "positions": [math.pi + 0.3 * math.sin(3 * time)],
            "velocities": [0.9 * math.cos(3 * time)],
            "efforts": [0.1],
        }
        messages.append(message | {n: f(k, message) for n, f in changes.items()})
    return {
        "joint_states": "/joint_states",
        "commands": "/controller/commands",
        "goal": "/goal",
        "object_pose": "/object_pose",
        "reset": "/simulator/reset",
        "topics": {
            "/joint_states": topic(JOINT_STATE, ["driver"]),
            "/controller/commands": topic(EFFORTS, (), ["driver"]),
        },
        "services": ["/simulator/reset"],
        "messages": messages,
    }


def settings(**driver):
    return Config(mode="real_time", driver=DriverSettings(**driver))


def found(evidence, name, robot=PENDULUM, **driver):
    return judge(evidence, robot, settings(**driver))[name]


def faults(examined):
    return [name for name, finding in examined.items() if finding.level is Level.FAULT]


@pytest.mark.parametrize("rate", [80, 160, 500, 1000])
def test_of_a_good_driver_nothing_is_said_but_that_it_is(rate):
    examined = judge(heard(rate), PENDULUM, settings())
    assert {finding.level for finding in examined.values()} == {Level.OK}
    assert not any(finding.advice for finding in examined.values())
    assert examined["rate"].found.startswith(f"{rate} Hz for commands at 80 Hz")
    refuse_faults(examined)


def test_who_commands_the_robot_already_has_to_stop_first():
    evidence = heard()
    commands = evidence["topics"]["/controller/commands"]
    commands["publishers"] = topic(EFFORTS, ["joystick", "driver", "watchdog"])["publishers"]
    commands["subscribers"].append("watchdog")
    finding = found(evidence, "commands")
    assert finding.level is Level.FAULT
    assert finding.found == "joystick, watchdog publishes on /controller/commands, too"
    assert finding.advice.startswith("stop it first")
    commands["publishers"] = topic(EFFORTS, ["driver"])["publishers"]
    assert found(evidence, "commands").level is Level.OK, "it may show what it was told"


def test_a_driver_that_is_not_there_is_the_only_thing_said_of_it():
    evidence = heard() | {"messages": [], "topics": {}, "services": []}
    examined = judge(evidence, PENDULUM, settings())
    assert faults(examined) == ["joint states", "commands", "reset"]
    with pytest.raises(RunError) as refused:
        refuse_faults(examined)
    assert str(refused.value) == (
        "the robot can't be controlled: joint states: nobody publishes on /joint_states; start "
        "the robot's driver first, in this ROS domain (ROS_DOMAIN_ID, "
        "ROS_AUTOMATIC_DISCOVERY_RANGE)"
    )


def test_a_driver_under_another_name_is_named():
    evidence = heard() | {"messages": []}
    topics = evidence["topics"]
    evidence["topics"] = {
        "/arm/joint_states": topics["/joint_states"],
        "/efforts/commands": topics["/controller/commands"],
    }
    examined = judge(evidence, PENDULUM, settings())
    assert examined["joint states"].advice.endswith("topics: {joint_states: /arm/joint_states}")
    assert examined["commands"].advice.endswith("topics: {commands: /efforts/commands}")


def test_two_drivers_another_type_and_silence_are_faults():
    for about, said in (
        (topic(JOINT_STATE, ["one", "two"]), "2 publish on /joint_states"),
        (topic("custom_msgs/msg/Motors", ["one"]), "/joint_states carries custom_msgs/msg/Motors"),
        (topic(JOINT_STATE, ["one"]), "but nothing came for 3 s"),
    ):
        evidence = heard() | {"messages": []}
        evidence["topics"] = evidence["topics"] | {"/joint_states": about}
        finding = found(evidence, "joint states")
        assert finding.level is Level.FAULT
        assert said in finding.found


def test_too_low_a_rate_is_a_fault_with_both_rates():
    finding = found(heard(50), "rate")
    assert finding.level is Level.FAULT
    assert "50 Hz for commands at 80 Hz" in finding.found
    assert "have the driver publish at 80 Hz or faster" in finding.advice


def test_losses_and_uneven_times_are_noted():
    evidence = heard(500)
    evidence["messages"] = [m for k, m in enumerate(evidence["messages"]) if k % 20]
    assert "didn't come" in found(evidence, "rate").found
    rng = np.random.default_rng(0)
    shift = rng.uniform(-0.2, 0.2, 200) * 12.5e6
    uneven = heard(stamp_ns=lambda k, m: m["stamp_ns"] + int(shift[k]))
    assert "real-time priority" in found(uneven, "rate").advice


def test_stamps_that_tell_nothing_are_faults_and_odd_ones_are_noted():
    assert found(heard(stamp_ns=lambda k, m: 0), "stamps").level is Level.FAULT
    assert found(heard(stamp_ns=lambda k, m: NOW), "stamps").level is Level.FAULT
    late = found(heard(stamp_ns=lambda k, m: m["stamp_ns"] - 60 * 10**9), "stamps")
    assert late.level is Level.NOTE
    assert late.found.startswith("60.0 s behind")
    swapped = heard(500)
    swapped["messages"][7:9] = swapped["messages"][8:6:-1]
    assert "1 run backwards" in found(swapped, "stamps").found
    twice = heard(500)
    twice["messages"].insert(9, copy.deepcopy(twice["messages"][8]))
    assert "1 come twice" in found(twice, "stamps").found


@pytest.mark.parametrize("velocities", [[], [math.nan]])
def test_velocities_that_are_not_measured_are_a_fault_until_they_are_derived(velocities):
    evidence = heard(500, velocities=lambda k, m: velocities)
    finding = found(evidence, "velocities")
    assert finding.level is Level.FAULT
    assert "driver.velocity=derived" in finding.advice
    assert found(evidence, "velocities", velocity="derived").level is Level.OK
    assert faults(judge(evidence, PENDULUM, settings(velocity="derived"))) == []


def test_differences_of_an_encoders_steps_are_noted():
    step = 2 * math.pi / 4096

    def at(k):
        return math.floor((math.pi + 0.3 * math.sin(3 * k / 500)) / step) * step

    evidence = heard(
        500,
        positions=lambda k, m: [at(k)],
        velocities=lambda k, m: [500 * (at(k) - at(k - 1))],
    )
    finding = found(evidence, "velocities")
    assert finding.level is Level.NOTE
    assert "driver.velocity=derived" in finding.advice
    assert "in steps of 0.0015" in found(evidence, "positions").found


def test_other_joints_are_ignored_and_missing_ones_are_a_fault():
    more = heard(
        names=lambda k, m: ["gripper", "pendulum_joint"],
        positions=lambda k, m: [0.0, 3.0],
        velocities=lambda k, m: [0.0, 0.1],
        efforts=lambda k, m: [0.0, 0.1],
    )
    assert found(more, "joints").found == "pendulum_joint; ignored: gripper"
    examined = judge(heard(names=lambda k, m: ["hinge"]), PENDULUM, settings())
    assert "no joint 'pendulum_joint' among ['hinge']" in examined["joints"].found
    assert faults(examined) == ["joints"], "one cause, one fault"


def test_efforts_may_be_missing_and_strange_ones_are_noted():
    assert found(heard(efforts=lambda k, m: []), "efforts").level is Level.OK
    milli = found(heard(efforts=lambda k, m: [120.0]), "efforts")
    assert milli.level is Level.NOTE
    assert found(heard(efforts=lambda k, m: [120.0]), "efforts", effort="ignored").advice == ""


def test_positions_outside_the_limits_and_whole_turns_are_noted():
    limited = PENDULUM.model_copy(update={"limits": {"pendulum_joint": (-1.0, 1.0)}})
    degrees = judge(heard(positions=lambda k, m: [180.0]), limited, settings())["positions"]
    assert "rad or m" in degrees.advice
    turning = heard(positions=lambda k, m: [(0.05 * k) % (2 * math.pi)])
    assert "jumps by a turn" in found(turning, "positions").found


@pytest.mark.parametrize(("place", "told"), [(2.51, False), (57.3, True)])
def test_positions_are_compared_with_the_limits_of_the_model_as_well(place, told, monkeypatch):
    evidence = heard(
        names=lambda k, m: ["cart_joint", "pole_joint"],
        positions=lambda k, m: [place, 0.0],
        velocities=lambda k, m: [0.0, 0.0],
        efforts=lambda k, m: [0.0, 0.0],
    )
    monkeypatch.setattr("hucrl_ros.doctor.evidence.listen", lambda *_: evidence)
    finding = look_at(robot_of(RunOptions("cartpole")), 0)["positions"]
    assert ("outside of its limits, -2.5 … 2.5" in finding.found) is told
    assert (finding.level is Level.NOTE) is told


def test_a_goal_that_nobody_tells_is_a_fault():
    evidence = heard()
    examined = judge(evidence, REACHER, settings())
    assert examined["goal"].found == "nobody publishes on /goal"
    evidence["topics"]["/goal"] = topic("geometry_msgs/msg/PoseStamped", ["camera"])
    assert judge(evidence, REACHER, settings())["goal"].found == "/goal from camera"


def test_who_resets_is_looked_for():
    evidence = heard() | {"services": []}
    finding = found(evidence, "reset")
    assert finding.level is Level.FAULT
    assert "driver.reset=person" in finding.advice
    assert found(evidence, "reset", reset="person").level is Level.OK
    assert found(evidence, "reset", reset="none").level is Level.OK


def servo(command):
    limits = {"effort_limits": (), "command_limits": (1.0,)}
    return PENDULUM.model_copy(update={"command": command, **limits})


@pytest.mark.parametrize(
    ("command", "told"),
    [("velocity", "velocities [rad/s or m/s]"), ("position", "positions [rad or m]")],
)
def test_what_commands_are_is_told_and_efforts_do_not_count(command, told):
    commands = found(heard(), "commands", servo(command))
    assert commands.found == f"{told} on /controller/commands to driver"
    strange = found(heard(efforts=lambda k, m: [120.0]), "efforts", servo(command))
    assert strange.level is Level.OK and command[:6] in strange.found


@pytest.mark.parametrize("command", ["velocity", "position"])
def test_a_driver_that_takes_something_else_is_refused(command):
    evidence = {**heard(), "controllers": {"driver": ("effort", [])}}
    wrong = found(evidence, "commands", servo(command))
    assert wrong.level is Level.FAULT
    assert f"interface_name = 'effort'; the robot's command is {command!r}" in wrong.found
    for silent in ({"driver": (command, [])}, {"driver": (command, ["pendulum_joint"])}, {}):
        evidence = {**heard(), "controllers": silent}
        assert found(evidence, "commands", servo(command)).level is Level.OK


def test_a_controller_of_the_joints_in_another_order_is_refused():
    """Each command would go to another joint."""
    robot = describe("pendulum").robot.model_copy(update={"actuated": ("shoulder", "elbow")})
    for joints, level in ((["elbow", "shoulder"], Level.FAULT), (["shoulder", "elbow"], Level.OK)):
        commands = found(
            {**heard(), "controllers": {"driver": ("effort", joints)}}, "commands", robot
        )
        assert commands.level is level
        assert level is Level.OK or "joints = ['elbow', 'shoulder']" in commands.found


def test_what_moves_unseen_is_noted(tmp_path):
    assert judge_state(describe("pusher")).level is Level.OK
    assert judge_state(describe("half_cheetah")).level is Level.OK
    puck = pushing(tmp_path, '<joint name="slip" type="slide" axis="0 1 0"/><geom size="0.05"/>')
    assert judge_state(resolved(tmp_path, puck)).level is Level.OK
    half = changed(puck, observed=["puck_x"])
    assert judge_state(resolved(tmp_path, half)).found.startswith("joint 'slip' of the model")
    found = judge_state(resolved(tmp_path, modelled(tmp_path, DANGLING)))
    assert found.level is Level.NOTE
    assert (
        "a joint of body 'bob', joint number 2, joint 'loose' of the model: not in it"
        in found.found
    )


def test_it_shows_what_limits_the_robot():
    described = describe("pendulum")

    def limits(**safety):
        return judge_limits(Config(safety=SafetySettings(**safety)), described)

    bare = limits()
    assert bare.level is Level.FAULT, "a run would be refused"
    assert bare.found == "efforts up to 1 N m or N"
    assert "safety.velocity_limits=[...]" in bare.advice
    found = limits(effort_limits=(0.5,), effort_rate=0.25, velocity_limits=(15.0,))
    assert found.level is Level.OK
    assert found.found == (
        "efforts up to 0.5 N m or N, in steps of 0.25 of that a period, speeds up to 15 rad/s or "
        "m/s"
    )
    # More than the motors can isn't a limit.
    assert "up to 1 N" in limits(effort_limits=(5.0,)).found
    assert "positions within -1, 1 rad" in limits(position_limits=(-1.0, 1.0)).found


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("velocity", "velocities up to 0.5, 0.8, 0.8, 1.2, 1.2, 1.2 rad/s or m/s"),
        (
            "position",
            "changes of position up to 0.02, 0.12, 0.12, 0.12, 0.12, 0.12 rad or m in a control "
            "period",
        ),
    ],
)
def test_steps_are_shares_of_what_velocity_limits_leave_of_a_drive(command, told):
    arm = describe(str(EXAMPLES / "ros2_control" / "six_axis_arm.yaml"))
    robot = arm.robot.model_copy(update={"command": command})
    safety = SafetySettings(effort_rate=0.25, velocity_limits=(0.5, *[3.0] * 5))
    found = judge_limits(Config(safety=safety), dataclasses.replace(arm, robot=robot)).found
    assert found.startswith(f"{told}, in steps of 0.25 of that a period, speeds up to 0.5, 3, ")


def test_positions_further_than_a_joint_gets_in_a_period_are_told_with_the_lines_to_change():
    arm = describe(str(EXAMPLES / "ros2_control" / "six_axis_arm.yaml"))
    period = arm.robot.period

    def limits(way, command="position", **safety):
        changes = {"command": command, "command_limits": (way, *[0.1] * 5)}
        robot = arm.robot.model_copy(update=changes)
        config = Config(safety=SafetySettings(**safety))
        return judge_limits(config, dataclasses.replace(arm, robot=robot))

    assert limits(1.4 * 3.14 * period).level is Level.OK, "a little more is as it should be"
    far = limits(8.0 * period)
    assert far.level is Level.NOTE
    assert far.advice == (
        "joint 'pan_joint': 0.32 in a control period are 8 rad/s or m/s, and six_axis_arm.urdf "
        "allows 3.14; at most 0.1256 in robot.command_limits, or 3.14 in safety.velocity_limits"
    )
    assert limits(8.0 * period, velocity_limits=(3.14, *[9.0] * 5)).level is Level.OK
    assert limits(3.0, command="velocity").level is Level.OK


def test_limits_that_no_motor_keeps_are_told_with_the_lines_to_change(tmp_path):
    """The filter keeps a pole inside that hangs; one that is balanced would fall as it brakes."""
    cart = """<mujoco><compiler angle="radian"/><worldbody><body>
      <joint name="rail" type="slide" axis="1 0 0" range="-1 1"/><geom size="0.1"/>
      <body><joint name="pole" axis="0 1 0" range="-2 2"/><geom size="0.05" pos="0 0 -0.3"/></body>
      <body><joint name="wheel" axis="0 1 0" range="-3 3"/><geom size="0.05"/></body>
    </body></worldbody><equality><joint joint1="wheel" joint2="rail"/></equality>
    <actuator><motor joint="rail" ctrlrange="-3 3"/></actuator></mujoco>"""
    document = modelled(tmp_path, cart)
    found = judge_limits(Config(), resolved(tmp_path, document))
    assert (found.level, found.found) == (Level.NOTE, "efforts up to 3 N m or N, constraints: 3")
    assert found.advice.startswith("position of pole -2 … 2: no motor moves it, ")
    assert "robot.joint_limits: false" in found.advice
    rail = {"kind": "position", "joint": "rail"}
    speed = {"kind": "speed", "joint": "pole", "largest": 3.0}
    bare = changed(document, joint_limits=False) | {"constraints": [rail]}
    assert judge_limits(Config(), resolved(tmp_path, bare)).level is Level.OK
    limited = bare | {"constraints": [rail, speed]}
    assert "speed of pole ≤ 3: " in judge_limits(Config(), resolved(tmp_path, limited)).advice
