"""What `driver.reset: home` has to know of a robot, and whether its model gets home."""

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.constraints import PositionConstraint
from hucrl_ros.config.robot import Draw, RobotSpec, sources
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import Description
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.homing import TOLERANCE, HomeMotion, HomePlan
from hucrl_ros.errors import ConfigError

Array = NDArray[np.float64]
SAMPLES = 64
"""Places at which the inertias are looked at."""
REACH = 1.0
"""[rad or m] How far from the start a joint without limits is there, and is tried from."""
TRIALS = 3
"""Places from which the model has to get home."""


def home_plan(described: Description, config: Config) -> HomePlan:
    """Where a robot is to go; needs MuJoCo for its inertias.

    Args:
        described: With nothing left to derive.
        config: Its limits of positions.

    Raises:
        ConfigError: the robot can't be put there by its joints.
    """
    settings, spec = described.robot, described.robot.spec
    if place := sources(spec).object:
        raise _refusal(f"nobody would bring {place!r} back; its place is in the state")
    draws = [settings.start[name] for name in settings.entries[: 2 * len(spec.joint_names)]]
    means, widths = (np.array(values) for values in zip(*map(_spread, draws), strict=True))
    targets, speeds = np.split(means, 2)
    for name, speed in zip(spec.joint_names, speeds, strict=True):
        if speed:
            raise _refusal(f"joint {name!r} starts with a velocity of {speed:g}, not at rest")
    tolerances = np.maximum(widths[: len(targets)], TOLERANCE)
    windows = home_windows(described)
    for name, target, (low, high) in zip(spec.joint_names, targets, windows, strict=True):
        if not low <= target <= high:
            raise _refusal(
                f"joint {name!r} starts at {target:g}, and a constraint keeps it within {low:g} "
                f"… {high:g}"
            )
    ranges, inertias = _body(described, targets)
    # The short way round may lead through what a joint with limits must never reach.
    limited = np.isfinite([ranges, windows]).any(axis=(0, 2))
    limited |= bool(config.safety.position_limits)
    turns = np.array([name in (settings.angles or ()) for name in spec.joint_names]) & ~limited
    return HomePlan(targets, tolerances, turns, inertias)


def home_windows(described: Description) -> Array:
    """Within which positions its constraints keep each joint.

    Args:
        described: With nothing left to derive.

    Returns:
        `(n, 2)` lowest and highest, infinite where there is none [rad or m].
    """
    joints = described.robot.joints
    windows = np.tile([-np.inf, np.inf], (len(joints), 1))
    for limit in described.constraints:
        if isinstance(limit, PositionConstraint):
            window = windows[joints.index(limit.joint)]
            if limit.low is not None:
                window[0] = max(window[0], limit.low)
            if limit.high is not None:
                window[1] = min(window[1], limit.high)
    return windows


def away_from_window(spec: RobotSpec, windows: Array, positions: Array) -> str:
    """Why a motion to the start may not begin or go on, in one line; empty: it may.

    An end stop gives a little, so a joint may be `TOLERANCE` outside: its way leads back inside.

    Args:
        spec: The robot.
        windows: `(n, 2)`, see `home_windows`.
        positions: `(n,)` [rad or m]; of joints without motor they don't count.
    """
    for name in spec.actuated_joints:
        joint = spec.joint_names.index(name)
        place, (low, high) = positions[joint], windows[joint]
        if not low - TOLERANCE <= place <= high + TOLERANCE:
            return (
                f"joint {name!r} is at {place:.3g}, and a constraint keeps it within {low:.3g} … "
                f"{high:.3g} [rad or m]"
            )
    return ""


def check_home(described: Description, config: Config) -> None:
    """Have the model go home from some places.

    Raises:
        ConfigError: it doesn't get there, e.g. as no motor moves it there or none holds it there.
    """
    from hucrl_ros.robots.mujoco_robot import MujocoRobot

    plan, robot = home_plan(described, config), MujocoRobot(described)
    spec, draws = robot.spec, np.random.default_rng(0)
    joints = len(spec.joint_names)
    for trial in range(TRIALS):
        state = robot.initial_state(draws)
        if trial:  # the first one is at the start already
            state[:joints] = _somewhere(plan, robot.ranges, draws)
            state[joints : 2 * joints] = 0.0
        robot.set_state(robot.led(state))
        motion, guard = HomeMotion(spec, plan, config), Guard(spec, config.safety)
        steps = 0
        while not (motion.done or motion.problem):
            action = motion.act(robot.state, steps * spec.period)
            robot.step(guard.check(action, robot.state).action)
            steps += 1
        if motion.problem:
            raise _refusal(f"in the model {motion.problem}")


def _refusal(reason: str) -> ConfigError:
    return ConfigError(
        f"driver.reset = home: {reason}; have a service or a person reset the robot: "
        "--set driver.reset=person"
    )


def _spread(draw: Draw) -> tuple[float, float]:
    """Mean of a draw, and how far from it a value may well be."""
    if draw.is_uniform:
        return draw.origin + draw.first + draw.spread / 2, draw.spread / 2
    return draw.origin + draw.first, 2 * draw.spread


def _somewhere(plan: HomePlan, ranges: Array, draws: np.random.Generator) -> Array:
    """Places `(n,)` near the start and within the limits [rad or m]."""
    low, high = np.clip(ranges.T, plan.targets - REACH, plan.targets + REACH)
    places: Array = draws.uniform(low, high)
    return places


def _body(described: Description, targets: Array) -> tuple[Array, Array]:
    """Limits `(n, 2)` of the joints, and the least inertias `(q,)`."""
    from hucrl_ros.robots.mujoco_robot import MujocoRobot

    robot, draws = MujocoRobot(described), np.random.default_rng(0)
    spec, data, joints = robot.spec, robot.data, len(robot.spec.joint_names)
    if spec.command != "effort":  # its drives know
        return robot.ranges, np.ones(spec.action_dim)
    dofs = [int(robot.model.joint(name).dofadr[0]) for name in spec.actuated_joints]
    low, high = np.clip(robot.ranges.T, targets - REACH, targets + REACH)
    gains = np.zeros(len(dofs))
    for _ in range(SAMPLES):
        state = robot.initial_state(draws)
        state[:joints] = draws.uniform(low, high)
        robot.set_state(robot.led(state))
        idle = data.qacc.copy()
        for motor, (dof, effort) in enumerate(zip(dofs, spec.effort_limits, strict=True)):
            data.ctrl[motor] = effort  # MuJoCo cuts what is more.
            robot.forward()
            gains[motor] = max(gains[motor], (data.qacc[dof] - idle[dof]) / effort)
            data.ctrl[motor] = 0.0
    for name, gain in zip(spec.actuated_joints, gains, strict=True):
        if gain <= 0:
            raise _refusal(f"in the model an effort above 0 doesn't speed up joint {name!r}")
    return robot.ranges, 1 / gains
