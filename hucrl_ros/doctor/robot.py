"""What `hucrl check` looks at: whether a robot's driver tells and takes what a run needs."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hucrl_ros.config.robot import UNITS, RobotSettings, limited, plural, sources
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import Description
from hucrl_ros.controller.motors import limits_under
from hucrl_ros.controller.pace import GAPS, Pace
from hucrl_ros.controller.state_reader import JointReading, JointStateReader, velocity_estimator
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.doctor import Finding, Level
from hucrl_ros.doctor.evidence import (
    PATIENCE_S,
    Array,
    Evidence,
    columns,
    least_step,
    received,
    stamps_of,
)
from hucrl_ros.errors import ConfigError, RunError, StateError
from hucrl_ros.robots import MujocoRobot
from hucrl_ros.robots.joint_limits import loose_limits
from hucrl_ros.robots.model_files import urdf_velocities
from hucrl_ros.run.node_list import WATCHDOG
from hucrl_ros.run.on_robot import require_limits

JOINT_STATE, EFFORTS, POSE = (
    "sensor_msgs/msg/JointState",
    "std_msgs/msg/Float64MultiArray",
    "geometry_msgs/msg/PoseStamped",
)
JITTER = 0.2
"""[control periods] Beyond, times between joint states are worth a word."""
LOST = 0.01
"""Share of joint states that didn't come, likewise."""
CLOCK_S = 1.0
"""[s] Between the driver's clock and this machine's, likewise."""
COARSE = 0.02
"""Share of what a velocity is measured in by which it may jump, at most, without a word."""
END_STOP = 0.02
"""Share of its range by which a joint may be beyond a limit without a word: end stops give."""
FURTHER = 1.5
"""[ways in a period at its velocity limit] By which a position may lead a joint without a word."""
TURN = 2 * math.pi


def judge(found: Evidence, robot: RobotSettings, config: Config) -> dict[str, Finding]:
    """What the evidence says of a robot, by what was looked at.

    Args:
        found: What was heard.
        robot: Its complete description, see `with_limits`.
        config: Settings of the run that it shall play.
    """
    examined: dict[str, Finding] = {"joint states": _publishers(found)}
    for name, check in CHECKS.items() if found["messages"] else ():
        if examined.get("joints", Finding.ok("")).level is not Level.FAULT:
            examined[name] = check(found, robot, config)
    examined["commands"] = _commands(found, robot)
    for topic in _poses_needed(robot):
        examined[topic.replace("_", " ")] = _pose(found, topic)
    examined["reset"] = _reset(found, config)
    return examined


def with_limits(described: Description) -> RobotSettings:
    """The robot, whose `limits` are those of all joints that have some, the model's as well."""
    robot = described.robot
    ranges = zip(robot.joints, MujocoRobot(described).ranges.tolist(), strict=True)
    limits = {name: tuple(pair) for name, pair in ranges if np.isfinite(pair).all()}
    return robot.model_copy(update={"limits": limits})


def judge_state(described: Description) -> Finding:
    """Whether the state tells of all that moves in the robot's model."""
    unseen = MujocoRobot(described).unseen
    if not unseen:
        return Finding.ok("all that moves in the model is in it")
    return Finding.note(
        f"{', '.join(unseen)} of the model: not in it, though it moves",
        "what it does looks like noise: add it to robot.joints or robot.observed, or fix it",
    )


def judge_limits(config: Config, described: Description) -> Finding:
    """What limits a robot while a run plays it; a fault where that isn't enough for one."""
    robot, safety = described.robot, config.safety
    largest = limits_under(robot.spec, safety)
    unit = UNITS[robot.command] + (" in a control period" if robot.command == "position" else "")
    told = [f"{limited(robot.command)} up to {_listed(largest)} {unit}"]
    if safety.effort_rate > 0:
        told.append(f"in steps of {safety.effort_rate:g} of that a period")
    if safety.velocity_limits:
        told.append(f"speeds up to {_listed(safety.velocity_limits)} rad/s or m/s")
    if safety.position_limits:
        told.append(f"positions within {_listed(safety.position_limits)} rad or m")
    if described.constraints:
        told.append(f"constraints: {len(described.constraints)}")
    try:
        require_limits(config, described)
    except ConfigError as error:
        return Finding.fault(", ".join(told), str(error))
    notes = [loose] if (loose := loose_limits(described)) else []
    allowed = urdf_velocities(described.model) if robot.command == "position" else {}
    for joint, way in zip(robot.actuated, largest, strict=True):
        fastest = allowed.get(joint, np.inf)
        if way > FURTHER * robot.period * fastest:
            notes.append(
                f"joint {joint!r}: {way:g} in a control period are {way / robot.period:g} rad/s "
                f"or m/s, and {described.model.name} allows {fastest:g}; at most "
                f"{robot.period * fastest:g} in robot.command_limits, or {fastest:g} in "
                "safety.velocity_limits"
            )
    if notes:
        return Finding.note(", ".join(told), "; ".join(notes))
    return Finding.ok(", ".join(told))


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def refuse_faults(examined: Mapping[str, Finding]) -> None:
    """Refuse to go on with what can't work.

    Raises:
        RunError: names the first fault, and what to do about it.
    """
    for name, (level, found, advice) in examined.items():
        if level is Level.FAULT:
            raise RunError(f"the robot can't be controlled: {name}: {found}; {advice}")


def _publishers(found: Evidence) -> Finding:
    topic = found["joint_states"]
    told = found["topics"].get(topic, {"types": [], "publishers": []})
    others = [name for name, about in found["topics"].items() if JOINT_STATE in about["types"]]
    others = [name for name in others if name != topic and found["topics"][name]["publishers"]]
    if told["publishers"] and told["types"] != [JOINT_STATE]:
        return Finding.fault(
            f"{topic} carries {', '.join(told['types'])}",
            f"expected {JOINT_STATE}; name another in the description: "
            "topics: {joint_states: /NAME}",
        )
    if not told["publishers"]:
        advice = (
            f"but on {', '.join(others)}: name it in the description: "
            f"topics: {{joint_states: {others[0]}}}"
            if others
            else "start the robot's driver first, in this ROS domain (ROS_DOMAIN_ID, "
            "ROS_AUTOMATIC_DISCOVERY_RANGE)"
        )
        return Finding.fault(f"nobody publishes on {topic}", advice)
    who = ", ".join(
        f"{each['node']} ({each['reliability'].lower().replace('_', ' ')})"
        for each in told["publishers"]
    )
    if len(told["publishers"]) > 1:
        return Finding.fault(
            f"{len(told['publishers'])} publish on {topic}: {who}", "only one driver may"
        )
    if not found["messages"]:
        return Finding.fault(
            f"{who} publishes on {topic}, but nothing came for {PATIENCE_S:g} s",
            "look whether the driver is active (ros2 topic hz)",
        )
    return Finding.ok(f"{topic} from {who}")


def _names(found: Evidence, robot: RobotSettings, config: Config) -> Finding:
    told = sources(robot.spec)
    reader = JointStateReader(robot.joints, told.further)
    message = found["messages"][0]
    names, count = message["names"], len(message["names"])
    try:
        reader.read(JointReading(names, [0.0] * count, [0.0] * count, 1))
    except StateError as error:
        return Finding.fault(
            str(error).removeprefix("joint_states: "),
            "name the driver's joints in the description, in its model and in robot.joints",
        )
    more = f"; ignored: {', '.join(reader.extra_joints)}" if reader.extra_joints else ""
    return Finding.ok(", ".join((*robot.joints, *told.further)) + more)


def _stamps(found: Evidence, robot: RobotSettings, config: Config) -> Finding:
    stamps = stamps_of(found)
    if not stamps.any():
        return Finding.fault("all are 0", "have the driver fill in header.stamp")
    if len(stamps) > GAPS and len(set(stamps.tolist())) == 1:
        return Finding.fault(
            f"all are {stamps[0] / NANOSECONDS:.3f} s", "have the driver fill in header.stamp"
        )
    steps = np.diff(stamps)
    back, same = int((steps < 0).sum()), int((steps == 0).sum())
    away = float(np.median(received(found) - stamps)) / NANOSECONDS
    parts = [f"{back} run backwards"] if back else []
    parts += [f"{same} come twice"] if same else []
    clock = f"{1e3 * away:.1f} ms behind this machine's clock"
    if abs(away) > CLOCK_S:
        return Finding.note(
            ", ".join([f"{away:.1f} s behind this machine's clock", *parts]),
            "no harm in itself; goals and object poses have to use the same clock",
        )
    if back:
        return Finding.note(
            ", ".join([clock, *parts]), "older joint states than the newest are left out"
        )
    return Finding.ok(", ".join([clock, *parts]))


def _rate(found: Evidence, robot: RobotSettings, config: Config) -> Finding:
    stamps = np.unique(stamps_of(found))
    if len(stamps) < GAPS:
        return Finding.fault(
            f"{len(stamps)} different joint states in all",
            f"have the driver publish at {1 / robot.period:.3g} Hz or faster",
        )
    pace = Pace()
    for stamp in stamps.tolist():
        pace.see(stamp)
    gaps = np.diff(stamps) / NANOSECONDS
    usual = float(np.median(gaps))
    told = f"{1 / usual:.4g} Hz for commands at {1 / robot.period:.4g} Hz"
    if problem := pace.problem(robot.period):
        return Finding.fault(told, "have" + problem.partition(": have")[2])
    missing = float(np.maximum(np.round(gaps / usual) - 1, 0).sum())
    lost = missing / (missing + len(gaps))
    jitter = float(np.percentile(np.abs(gaps - usual), 99))
    told += f", 99% of them within {1e3 * jitter:.2g} ms"
    if lost > LOST:
        return Finding.note(
            f"{told}, {lost:.1%} didn't come",
            "what is missing is interpolated; look at the network and at the load of this machine",
        )
    if jitter > JITTER * robot.period:
        return Finding.note(
            told, "uneven times make commands act unevenly: give the driver a real-time priority"
        )
    return Finding.ok(told)


def _positions(found: Evidence, robot: RobotSettings, config: Config) -> Finding:
    positions = columns(found, "positions", robot.joints)
    if isinstance(positions, str):
        return Finding.fault(positions, "have the driver fill in position for every joint")
    limits = [robot.limits.get(name) for name in robot.joints]
    for name, column, limit in zip(robot.joints, positions.T, limits, strict=True):
        gives = 0.0 if limit is None else END_STOP * (limit[1] - limit[0])
        if limit is not None and (
            column.min() < limit[0] - gives or column.max() > limit[1] + gives
        ):
            return Finding.note(
                f"joint {name!r} is at {column[-1]:.4g}, outside of its limits, {limit[0]:.4g} … "
                f"{limit[1]:.4g}",
                "positions are in rad or m; look at units and zero, at the model's limits, or at "
                "robot.limits",
            )
        if (np.abs(np.diff(column)) > 0.9 * TURN).any():
            return Finding.note(
                f"joint {name!r} jumps by a turn",
                "have the driver count turns: a jump is learned as a movement",
            )
    place = ", ".join(
        f"{name} {value:.4g}" for name, value in zip(robot.joints, positions[-1], strict=True)
    )
    return Finding.ok(place + _steps(positions))


def _velocities(found: Evidence, robot: RobotSettings, config: Config) -> Finding:
    derived = config.driver.velocity == "derived"
    advice = "have them derived from positions: --set driver.velocity=derived"
    velocities = columns(found, "velocities", robot.joints)
    if isinstance(velocities, str):
        if derived:
            return Finding.ok("derived from positions")
        return Finding.fault(velocities, advice)
    if derived:
        return Finding.ok("derived from positions; those in joint states don't count")
    positions = columns(found, "positions", robot.joints)
    if isinstance(positions, str):
        return Finding.ok("one for each joint")
    stamps = stamps_of(found)
    estimator = velocity_estimator(
        config.driver.model_copy(update={"velocity": "derived"}), robot.period
    )
    assert estimator is not None
    slopes = []
    for stamp, position in zip(stamps.tolist(), positions, strict=True):
        estimator.add(stamp, position)
        slopes.append(estimator.at(stamp))
    off = np.abs(velocities - np.array(slopes))[GAPS:]
    for name, column, rough in zip(robot.joints, velocities.T, off.T, strict=True):
        unit = robot.scales.get(f"{name}_velocity", 1.0)
        jump = least_step(column)
        if jump > COARSE * unit or (len(rough) and float(np.median(rough)) > COARSE * unit):
            return Finding.note(
                f"those of joint {name!r} jump by {max(jump, float(np.median(rough))):.3g}",
                f"differences of an encoder's steps are learned as noise: {advice}",
            )
    noise = float(np.std(velocities, axis=0).max())
    return Finding.ok(f"one for each joint, deviation {noise:.2g} while it was listened to")


def _efforts(found: Evidence, robot: RobotSettings, config: Config) -> Finding:
    if robot.command != "effort":
        return Finding.ok(f"left out: what acts are {plural(robot.command)}")
    efforts = columns(found, "efforts", robot.actuated)
    if config.driver.effort == "ignored":
        return Finding.ok("left out; commands count from when they came")
    if isinstance(efforts, str):
        return Finding.ok("none; commands count from when they came")
    beyond = np.abs(efforts) > 1.5 * np.array(robot.effort_limits)
    if beyond.any():
        joint = robot.actuated[int(np.flatnonzero(beyond.any(axis=0))[0])]
        return Finding.note(
            f"that of joint {joint!r} exceeds its limit by half",
            "efforts are in N m or N; if these are no such: --set driver.effort=ignored",
        )
    meaning = {
        "auto": "found out in each episode",
        "applied": "the mean of what acted",
        "commanded": "the newest command",
    }
    return Finding.ok(f"one for each motor, taken for: {meaning[config.driver.effort]}")


CHECKS: dict[str, Callable[[Evidence, RobotSettings, Config], Finding]] = {
    "joints": _names,
    "stamps": _stamps,
    "rate": _rate,
    "positions": _positions,
    "velocities": _velocities,
    "efforts": _efforts,
}


def _commands(found: Evidence, robot: RobotSettings) -> Finding:
    topic = found["commands"]
    about = found["topics"].get(topic, {"types": [EFFORTS], "subscribers": []})
    if about["subscribers"] and about["types"] != [EFFORTS]:
        return Finding.fault(f"{topic} carries {', '.join(about['types'])}", f"expected {EFFORTS}")
    for node in about["subscribers"]:
        takes, joints = found.get("controllers", {}).get(node) or (robot.command, [])
        if takes != robot.command:
            return Finding.fault(
                f"{node} has interface_name = {takes!r}; the robot's command is {robot.command!r}",
                "make both the same, in the controller's parameters or in the description: "
                "robot.command",
            )
        if joints and list(joints) != list(robot.actuated):
            return Finding.fault(
                f"{node} has joints = {list(joints)}; the robot's commands are for "
                f"{list(robot.actuated)}",
                "make both the same, in the same order, in the controller's parameters or in the "
                "description: robot.actuated",
            )
    if others := _others(found, about):
        return Finding.fault(
            f"{', '.join(others)} publishes on {topic}, too",
            "stop it first, as the robot would obey both: another run or `control.launch.py`, a "
            "joystick, a planner of trajectories, `ros2 topic pub`",
        )
    if about["subscribers"]:
        kind = f"{plural(robot.command)} [{UNITS[robot.command]}]"
        return Finding.ok(f"{kind} on {topic} to {', '.join(about['subscribers'])}")
    others = [
        name
        for name, other in found["topics"].items()
        if EFFORTS in other["types"] and other["subscribers"] and name != topic
    ]
    return Finding.fault(
        f"nobody listens on {topic}",
        f"but on {', '.join(others)}: name it in the description: "
        f"topics: {{commands: {others[0]}}}"
        if others
        else "start and activate the driver's controller",
    )


def _others(found: Evidence, about: Mapping[str, Any]) -> list[str]:
    """Who publishes commands, but for the driver itself, which may show what it was told."""
    told = found["topics"].get(found["joint_states"], {}).get("publishers", [])
    # That of another run hears commands and publishes some, as a driver may.
    driver = {*about["subscribers"], *(each["node"] for each in told)} - {WATCHDOG}
    return sorted({each["node"] for each in about.get("publishers", ())} - driver)


def _poses_needed(robot: RobotSettings) -> list[str]:
    told = sources(robot.spec)
    return [*(["object_pose"] if told.object else []), *(["goal"] if told.goal else [])]


def _pose(found: Evidence, name: str) -> Finding:
    topic = found[name]
    about = found["topics"].get(topic, {"types": [], "publishers": []})
    if not about["publishers"]:
        return Finding.fault(f"nobody publishes on {topic}", f"publish a {POSE} there")
    if about["types"] != [POSE]:
        return Finding.fault(f"{topic} carries {', '.join(about['types'])}", f"expected {POSE}")
    return Finding.ok(f"{topic} from {about['publishers'][0]['node']}")


def _reset(found: Evidence, config: Config) -> Finding:
    how = config.driver.reset
    if how == "person":
        return Finding.ok("by a person, who says so at each episode")
    if how == "home":
        return Finding.ok("by a slow motion of ours")
    if how == "none":
        return Finding.ok("none: episodes begin where the robot is")
    if found["reset"] in found["services"]:
        return Finding.ok(f"by the service {found['reset']}")
    return Finding.fault(
        f"no service {found['reset']}",
        "provide it (std_srvs/Trigger), or have a person do it: --set driver.reset=person",
    )


def _steps(positions: Array) -> str:
    steps = [step for column in positions.T if (step := least_step(column)) > 1e-6]
    return f", in steps of {min(steps):.2g}" if steps else ""
