"""From what a description says to one that says everything."""

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import mujoco
import numpy as np

from hucrl_ros.config.robot import AXES, Draw, RobotSettings, StateBound, sources
from hucrl_ros.config.task_file import (
    Description,
    find_description,
    is_description,
    known_tasks,
    read_description,
    task_of_path,
)
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.extras import carrier
from hucrl_ros.robots.joint_limits import with_joint_limits
from hucrl_ros.robots.measured import Measured, measure, round_up
from hucrl_ros.robots.model_files import (
    build_model,
    check_urdf_limits,
    model_dependencies,
    urdf_kinds,
)
from hucrl_ros.robots.motors import Motor, followers, read_motors
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot, joint_ranges

STRETCH = 0.3
"""[rad] How far an imagined joint may get into its stop."""
SLIDE_STRETCH = 0.1
"""Share of its larger limit by which an imagined prismatic joint may get into its stop."""
BEYOND = 2.0
"""Share of the largest value seen up to which an entry is imagined."""
MOST_PHYSICS_STEPS = 10_000
"""In a control period; with more, nothing would come of a robot for minutes."""
TURN = 2.0 * np.pi
MOST_TURNS = 3.0
"""[turns] Range of a joint above which its limits may be meant in degrees."""
ENDS = tuple(f"_{axis}" for axis in AXES)
logger = logging.getLogger(__name__)


def describe(task: str, folder: Path | None = None) -> Description:
    """The complete description of a task.

    Args:
        task: Name of one of the paper's or of a user's own, or the path of its description.
        folder: Where the description of a robot of one's own may lie, `RunFolder.robot`.

    Raises:
        ConfigError: no task has that name, or its description is wrong.
    """
    task = task_of_path(task)
    if is_description(task):
        return resolve(read_description(Path(task)))
    if task in known_tasks():
        return _resolved(known_tasks()[task])
    found = find_description(folder, task)
    if found is None:
        looked = "" if folder is None else f", and {folder} describes no robot"
        raise ConfigError(
            f"task: {task!r} is unknown; known tasks: {', '.join(known_tasks())}{looked}; a robot "
            "of your own is found in the folder of its run"
        )
    return found


@cache
def _resolved(path: Path) -> Description:
    return resolve(read_description(path))


def resolve(found: Description) -> Description:
    """Derive what a description leaves out: joints, limits, starts, scales, bounds, constraints.

    Raises:
        ConfigError: the model and the description don't fit together.
    """
    found = dataclasses.replace(found, files=tuple(model_dependencies(found.model)))
    # Motors that are asked for are checked before they are made.
    model = build_model(found.model, found.robot.model_copy(update={"actuated": ()}))
    check_urdf_limits(found.model)  # Once MuJoCo has read it, they are numbers.
    robot = _with_joints(found, model)
    _look_for_degrees(found, robot, model)
    robot = _with_motors(found, robot, model)
    _check_period(found, robot, model)
    _check_context(found, robot, model)
    _check_entries(found, robot)
    _check_seen(found, robot, model)
    described = dataclasses.replace(found, robot=robot)
    robot = _with_start(robot, MujocoRobot(described))
    described = dataclasses.replace(found, robot=robot)
    built = MujocoRobot(described)
    return dataclasses.replace(
        described,
        robot=_with_scales(robot, built),
        constraints=with_joint_limits(described, built),
    )


def _with_joints(found: Description, model: mujoco.MjModel) -> RobotSettings:
    robot = found.robot
    for name, kind in () if robot.joints or robot.actuated else urdf_kinds(found.model).items():
        if kind in ("planar", "floating"):
            raise ConfigError(
                f"{found.model}: joint {name!r} is {kind}; expected revolute, continuous, "
                "prismatic or fixed ones, or robot.actuated: those with motors"
            )
    kinds = {
        model.joint(k).name: mujoco.mjtJoint(int(model.jnt_type[k])) for k in range(model.njnt)
    }
    movable = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    known = [name for name, kind in kinds.items() if name and kind in movable]
    objects = {entry.rpartition("_")[0] for entry in robot.observed}
    joints = robot.joints or tuple(
        name
        for name in known
        if name not in objects and model.body(int(model.joint(name).bodyid[0])).name not in objects
    )
    _require_known(found, "joints", joints, known, "revolute or prismatic joint of the model")
    if not joints:
        raise ConfigError(f"{found.model}: the model has no revolute or prismatic joint")
    for name in joints:
        if base := carrier(model, name):
            raise ConfigError(
                f"{found.model}: joint {name!r} hangs on {base}, a free or ball one, which no "
                "state tells; expected hinges and slides alone between it and the world"
            )
    revolute = [name for name in joints if kinds[name] == mujoco.mjtJoint.mjJNT_HINGE]
    ranges = dict(zip(joints, np.ptp(joint_ranges(model, joints), axis=1), strict=True))
    # More than a turn, and the angle itself tells more than its cosine and sine.
    usual = tuple(name for name in revolute if not TURN < ranges[name] < np.inf)
    angles = usual if robot.angles is None else robot.angles
    _require_known(found, "angles", angles, revolute, "revolute one of robot.joints")
    return robot.model_copy(update={"joints": joints, "angles": angles})


def _look_for_degrees(found: Description, robot: RobotSettings, model: mujoco.MjModel) -> None:
    """Warn of limits that nearly no joint has; not more, as some turn that often."""
    widths = np.ptp(joint_ranges(model, robot.joints), axis=1).tolist()
    for joint, width in zip(robot.joints, widths, strict=True):
        revolute = model.joint(joint).type[0] == mujoco.mjtJoint.mjJNT_HINGE
        if revolute and MOST_TURNS * TURN < width < np.inf:
            _warn_of_turns(found.model, joint, width)


@cache
def _warn_of_turns(model: Path, joint: str, width: float) -> None:
    logger.warning(
        "%s: the limits of joint %r are %.4g rad apart, %.3g turns; if degrees are meant, write "
        "radians",
        *(model, joint, width, width / TURN),
    )


def _with_motors(found: Description, robot: RobotSettings, model: mujoco.MjModel) -> RobotSettings:
    told = read_motors(model, found.model, robot)
    motors = {joint: motor for joint, motor in told.items() if joint in robot.joints}
    present = [joint for joint, motor in motors.items() if motor.present]
    moved = followers(model) - set(robot.servos)
    actuated = robot.actuated or tuple(
        present or (joint for joint in motors if joint not in moved)
    )
    if not actuated:
        raise ConfigError(
            f"{found.path}: robot.actuated is missing: {found.model.name} has neither motors nor "
            f"effort limits; joints: {', '.join(robot.joints)}"
        )
    _require_known(found, "actuated", actuated, robot.joints, "one of robot.joints")
    _check_servos(found, robot, actuated, motors)
    given, key = robot.action_limits, robot.limits_key
    if given and len(given) != len(actuated):
        raise ConfigError(
            f"{found.path}: robot.{key} = {list(given)}: expected {len(actuated)}, one "
            f"for each of {', '.join(actuated)}"
        )
    limits = []
    for k, joint in enumerate(actuated):
        most = motors[joint].limit if joint in motors else None
        both_ways = _both_ways(model, robot, joint, motors)
        uneven = both_ways < (np.inf if most is None else most) - 1e-9
        if not given and (most is None or uneven):
            at_most = f"; at most {both_ways:g} is accepted" if uneven else ""
            raise ConfigError(
                f"{found.path}: robot.{key} is missing: {found.model.name} has no "
                f"symmetric limit for joint {joint!r}{at_most}"
            )
        most = both_ways if uneven else most
        if given and most is not None and given[k] > most + 1e-9:
            raise ConfigError(
                f"{found.path}: robot.{key}: {given[k]:g} for joint {joint!r} exceeds the "
                f"limit of {found.model.name}, {most:g}"
            )
        limits.append(given[k] if given else most)
    return robot.model_copy(update={"actuated": actuated, key: tuple(limits)})


def _both_ways(
    model: mujoco.MjModel, robot: RobotSettings, joint: str, motors: Mapping[str, Motor]
) -> float:
    """The largest command that the model takes in both directions; infinite: any."""
    number = model.joint(joint).id
    accepted = []
    for k in range(model.nu if robot.command != "position" else 0):
        moves = model.actuator_trntype[k] == mujoco.mjtTrn.mjTRN_JOINT
        if moves and model.actuator_trnid[k, 0] == number and model.actuator_ctrllimited[k]:
            accepted.append(model.actuator_ctrlrange[k])
    gear = abs(motors[joint].gear) if joint in motors else 1.0
    if robot.command == "effort" and model.jnt_actfrclimited[number] and gear:
        accepted.append(model.jnt_actfrcrange[number] / gear)
    return min((max(0.0, min(-float(low), float(high))) for low, high in accepted), default=np.inf)


def _check_servos(
    found: Description, robot: RobotSettings, actuated: Sequence[str], motors: Mapping[str, Motor]
) -> None:
    _require_known(found, "servos", robot.servos, actuated, "one of robot.actuated")
    for joint in actuated if robot.command != "effort" else ():
        if joint not in motors or (not motors[joint].present and joint not in robot.servos):
            gains = "{kv: ...}" if robot.command == "velocity" else "{kp: ..., kv: ...}"
            raise ConfigError(
                f"{found.path}: robot.servos.{joint} is missing: {found.model.name} has no "
                f"<{robot.command}> for this joint; give {gains}"
            )
        if motors[joint].present and joint in robot.servos:
            raise ConfigError(
                f"{found.path}: robot.servos.{joint}: {found.model.name} has a <{robot.command}> "
                "for this joint already"
            )


def _check_period(found: Description, robot: RobotSettings, model: mujoco.MjModel) -> None:
    timestep = float(model.opt.timestep)
    steps = robot.period / timestep
    if steps > MOST_PHYSICS_STEPS:
        key = "the model's timestep" if robot.timestep is None else "robot.timestep"
        raise ConfigError(
            f"{found.path}: {key} = {timestep:g} s divides robot.period = {robot.period:g} s into "
            f"{steps:.3g} steps; at most {MOST_PHYSICS_STEPS} accepted, a timestep of at least "
            f"{robot.period / MOST_PHYSICS_STEPS:g} s"
        )
    if round(steps) < 1 or abs(steps - round(steps)) > 1e-6:
        near = max(round(steps), 1) * timestep
        raise ConfigError(
            f"{found.path}: robot.period = {robot.period:g} s is no multiple of the timestep "
            f"{timestep:g} s; take {near:g}, or set robot.timestep"
        )


def _check_context(found: Description, robot: RobotSettings, model: mujoco.MjModel) -> None:
    for entry in robot.context:
        name = entry.rpartition("_")[0]
        body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
        if body < 0 or model.body_mocapid[body] < 0:
            raise ConfigError(
                f"{found.path}: robot.context: {entry!r}: expected <body>_x, <body>_y or <body>_z "
                f'of a mocap body (mocap="true"), or of a name that {found.model.name} doesn\'t '
                "have: then a sphere is added"
            )


def _check_entries(found: Description, robot: RobotSettings) -> None:
    try:
        sources(robot.spec)  # Who tells what through ROS.
    except ConfigError as error:
        raise ConfigError(f"{found.path}: {error}") from None
    entries = robot.entries
    moving = entries[: len(entries) - len(robot.context)]
    scaled = [entry for entry in entries if entry not in (robot.angles or ())]
    for name, keys, accepted in (
        ("start", robot.start, entries),
        ("scales", robot.scales, tuple(scaled)),
        ("state_bounds", robot.state_bounds, moving),
    ):
        _require_known(found, name, keys, accepted, "entry of the state")
    _require_known(found, "limits", robot.limits, robot.joints, "one of robot.joints")
    for name in ("joints", "actuated", "observed", "context"):
        values = getattr(robot, name)
        if len(set(values)) < len(values):
            raise ConfigError(f"{found.path}: robot.{name} = {list(values)}: names one twice")


def _check_seen(found: Description, robot: RobotSettings, model: mujoco.MjModel) -> None:
    ranges = dict(zip(robot.joints, joint_ranges(model, robot.joints), strict=True))
    limited = [j for j in robot.joints if j in robot.limits or np.isfinite(ranges[j]).all()]
    _require_known(found, "stops", robot.stops or (), limited, "joint with limits")
    placed = [entry[:-2] for entry in (*robot.observed, *robot.context) if entry[-2:] in ENDS]
    known = [name for k in range(model.nsite) if (name := model.site(k).name)]
    for body, sites in (robot.vectors or {}).items():
        _require_known(found, "vectors", [body], list(dict.fromkeys(placed)), "body in the state")
        _require_known(found, f"vectors.{body}", sites, known, "site of the model")


def _with_start(robot: RobotSettings, built: MujocoRobot) -> RobotSettings:
    """Where a draw has no mean, that of the model: joints at their zero, bodies where they are."""
    mujoco.mj_resetData(built.model, built.data)
    model_has = dict(zip(robot.entries, built.state.tolist(), strict=True))
    start = {}
    for entry, value in model_has.items():
        draw = robot.start.get(entry, Draw())
        if draw.mean is None and draw.low is None:
            draw = draw.model_copy(update={"mean": round(value, 9)})
        start[entry] = draw
    return robot.model_copy(update={"start": start})


def _with_scales(robot: RobotSettings, built: MujocoRobot) -> RobotSettings:
    entries = robot.entries
    angles = set(robot.angles or ())
    moving = entries[: len(entries) - len(robot.context)]
    scaled = [entry for entry in entries if entry not in angles]
    bounds = {**_bounds_of_joints(robot, built), **robot.state_bounds}
    if set(scaled) <= set(robot.scales) and set(moving) <= set(bounds):
        return robot.model_copy(update={"state_bounds": bounds})
    measured = measure(built, robot.steps)
    usual = _usual(robot, built, measured)
    largest = _largest(robot, measured)
    return robot.model_copy(
        update={
            "scales": {entry: robot.scales.get(entry, usual[entry]) for entry in scaled},
            "state_bounds": {
                entry: bounds[entry] if entry in bounds else largest[entry] for entry in moving
            },
        }
    )


def _usual(robot: RobotSettings, built: MujocoRobot, measured: Measured) -> dict[str, float]:
    usual = dict(zip(robot.entries, measured.usual.tolist(), strict=True))
    for joint, limits in zip(robot.joints, built.ranges, strict=True):
        if np.isfinite(limits).all():
            usual[joint] = float(np.abs(limits).max())
    for entry in robot.context:
        usual[entry] = robot.start[entry].largest
    return {entry: round_up(value) or 1.0 for entry, value in usual.items()}


def _largest(robot: RobotSettings, measured: Measured) -> dict[str, StateBound]:
    seen = zip(robot.entries, measured.largest.tolist(), strict=True)
    return {entry: round_up(BEYOND * value) or 1.0 for entry, value in seen}


def _bounds_of_joints(robot: RobotSettings, built: MujocoRobot) -> dict[str, StateBound]:
    """Of angles and of joints with limits, which the model tells."""
    angles = robot.angles or ()
    return {
        joint: _joint_bound(joint in angles, limits)
        for joint, limits in zip(robot.joints, built.ranges, strict=True)
        if joint in angles or np.isfinite(limits).all()
    }


def _joint_bound(angle: bool, limits: Array) -> StateBound:
    if not np.isfinite(limits).all():
        return None
    beyond = STRETCH if angle else SLIDE_STRETCH * float(np.abs(limits).max())
    lower, upper = round(float(limits[0]) - beyond, 6), round(float(limits[1]) + beyond, 6)
    return upper if lower == -upper else (lower, upper)


def _require_known(
    found: Description, key: str, names: Iterable[str], known: Sequence[str], kind: str
) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{found.path}: robot.{key}: {name!r} is no {kind}; known: {', '.join(known)}"
            )
