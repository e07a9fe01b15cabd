"""What a description says has to fit its model, and itself; else a `ConfigError` tells why."""

import logging
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import mujoco
import numpy as np

from hucrl_ros.config.robot import AXES, RobotSettings, sources
from hucrl_ros.config.task_file import Description
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.model_files import urdf_kinds
from hucrl_ros.robots.mujoco_robot import MujocoRobot, joint_ranges

MOST_PHYSICS_STEPS = 10_000
"""In a control period; with more, nothing would come of a robot for minutes."""
TURN = 2.0 * np.pi
MOST_TURNS = 3.0
"""[turns] Range of a joint above which its limits may be meant in degrees."""
NARROW = np.deg2rad(TURN)
"""[rad] Range of a joint below which its limits may be meant in radians, of an MJCF in degrees."""
MISPLACED = 1e-3
"""By which an object may be elsewhere than where an episode shall begin [the entry's unit]."""
FAR_OFF = 0.3
"""[rad or m] Beyond a limit from which on MuJoCo may hurl a joint back."""
ENDS = tuple(f"_{axis}" for axis in AXES)
logger = logging.getLogger(__name__)


def look_for_degrees(found: Description, robot: RobotSettings, model: mujoco.MjModel) -> None:
    """Warn of limits that nearly no joint has; not more, as some turn that often."""
    widths = np.ptp(joint_ranges(model, robot.joints), axis=1).tolist()
    for joint, width in zip(robot.joints, widths, strict=True):
        revolute = model.joint(joint).type[0] == mujoco.mjtJoint.mjJNT_HINGE
        if revolute and MOST_TURNS * TURN < width < np.inf:
            _warn_of_turns(found.model, joint, width)
        if revolute and 0.0 < width < NARROW and not urdf_kinds(found.model):
            _warn_of_narrow_range(found.model, joint, width)


@cache
def _warn_of_turns(model: Path, joint: str, width: float) -> None:
    logger.warning(
        "%s: the limits of joint %r are %.4g rad apart, %.3g turns; if degrees are meant, write "
        "radians",
        *(model, joint, width, width / TURN),
    )


@cache
def _warn_of_narrow_range(model: Path, joint: str, width: float) -> None:
    logger.warning(
        "%s: the limits of joint %r are only %.3g rad apart; angles of an MJCF are degrees, if it "
        'doesn\'t say <compiler angle="radian"/>',
        *(model, joint, width),
    )


def check_period(found: Description, robot: RobotSettings, model: mujoco.MjModel) -> None:
    """The control period has to be some, and not too many, steps of the physics."""
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


def check_context(found: Description, robot: RobotSettings, model: mujoco.MjModel) -> None:
    """What is given as context has to be the place of something."""
    for entry in robot.context:
        name = entry.rpartition("_")[0]
        body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
        if body < 0 or model.body_mocapid[body] < 0:
            raise ConfigError(
                f"{found.path}: robot.context: {entry!r}: expected <body>_x, <body>_y or <body>_z "
                f'of a mocap body (mocap="true"), or of a name that {found.model.name} doesn\'t '
                "have: then a sphere is added"
            )


def look_for_wider_limits(found: Description, robot: RobotSettings, model: mujoco.MjModel) -> None:
    """Warn of limits that let a joint further than the model's: these are the constraint then."""
    for joint, limits in zip(robot.joints, joint_ranges(model, robot.joints), strict=True):
        low, high = limits.tolist()
        given = robot.limits.get(joint, (low, high))
        if given[0] < low - MISPLACED or given[1] > high + MISPLACED:
            _warn_of_wider_limits(found.path, joint, given, (low, high))


@cache
def _warn_of_wider_limits(
    path: Path, joint: str, given: tuple[float, float], limits: tuple[float, float]
) -> None:
    logger.warning(
        "%s: robot.limits.%s: %s is wider than the model's own limits, %.4g … %.4g, which don't "
        "hold then; leave it out if they shall",
        *(path, joint, list(given), *limits),
    )


def check_entries(found: Description, robot: RobotSettings) -> None:
    """What is told of entries of the state has to be of some that it has."""
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
        require_known(found, name, keys, accepted, "entry of the state")
    require_known(found, "limits", robot.limits, robot.joints, "one of robot.joints")
    for name in ("joints", "actuated", "observed", "context"):
        values = getattr(robot, name)
        if len(set(values)) < len(values):
            raise ConfigError(f"{found.path}: robot.{name} = {list(values)}: names one twice")
    for entry in entries:
        if entries.count(entry) > 1:
            raise ConfigError(
                f"{found.path}: {entry!r} is in the state twice, as a joint or its velocity and "
                "as another entry; rename the joint, or take it out of robot.joints"
            )


def look_for_places(found: Description, built: MujocoRobot) -> None:
    """Warn of starts that the simulated object can't have; on hardware somebody may put it there.

    What is imagined begins there all the same.
    """
    for end in zip(*built.drawn.values(), strict=True):
        asked = built.led(np.array(end))
        built.set_state(asked)
        for entry, there, here in zip(built.drawn, asked, built.state, strict=True):
            if abs(there - here) > MISPLACED:
                _warn_of_start(found.path, entry, float(there), float(here))


@cache
def _warn_of_start(path: Path, entry: str, asked: float, found: float) -> None:
    logger.warning(
        "%s: robot.start.%s: the simulator begins at %.4g where %.4g is said: an object moves "
        "along its prismatic joints alone",
        *(path, entry, found, asked),
    )


def far_off(robot: RobotSettings, built: MujocoRobot) -> str:
    """Where a description has joints beyond the model's limits, which hurl them back; or empty."""
    lines = []
    for joint, limits in zip(robot.joints, joint_ranges(built.model, robot.joints), strict=True):
        low, high = limits.tolist()
        for key, place in (("start", built.drawn[joint]), ("limits", robot.limits.get(joint))):
            if place is not None and (place[0] < low - FAR_OFF or place[1] > high + FAR_OFF):
                told = " … ".join(f"{end:g}" for end in dict.fromkeys(place))
                lines.append(
                    f"robot.{key}.{joint} is {told}, where {low:.4g} … {high:.4g} are the model's "
                    "limits [rad or m]; "
                )
    return "".join(lines)


def check_seen(found: Description, robot: RobotSettings, model: mujoco.MjModel) -> None:
    """What networks see besides the state has to be in the model."""
    ranges = dict(zip(robot.joints, joint_ranges(model, robot.joints), strict=True))
    limited = [j for j in robot.joints if j in robot.limits or np.isfinite(ranges[j]).all()]
    require_known(found, "stops", robot.stops or (), limited, "joint with limits")
    placed = [entry[:-2] for entry in (*robot.observed, *robot.context) if entry[-2:] in ENDS]
    known = [name for k in range(model.nsite) if (name := model.site(k).name)]
    for body, sites in (robot.vectors or {}).items():
        require_known(found, "vectors", [body], list(dict.fromkeys(placed)), "body in the state")
        require_known(found, f"vectors.{body}", sites, known, "site of the model")


def require_known(
    found: Description, key: str, names: Iterable[str], known: Sequence[str], kind: str
) -> None:
    """Each of the names that `robot.<key>` tells has to be known.

    Raises:
        ConfigError: one isn't.
    """
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{found.path}: robot.{key}: {name!r} is no {kind}; known: {', '.join(known)}"
            )
