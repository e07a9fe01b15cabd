"""The one guard that every command passes, and which bundles may play.

Those may that were made for this robot and loosen no safety setting in force.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.config.task_file import beside, kept_robot
from hucrl_ros.controller.manifest import Manifest
from hucrl_ros.errors import BundleError, ConfigError, HucrlError, shortened

Array = NDArray[np.float64]


class GuardedCommand(NamedTuple):
    """What may be sent."""

    effort: Array
    """`(q,)`, finite and within all limits [N m or N]."""
    clamped: bool
    """The wanted effort was changed to fit the limits."""
    safe: bool
    """The wanted effort or the state made no sense: `effort` is the safe command."""


class Guard:
    """Keeps efforts finite and within limits of effort, rate, position and velocity.

    Where limits disagree, the position and velocity limits win over the rate limit: a joint at
    its end stop is worse than a jolt. They never disagree with each other, as zero effort
    satisfies both. The safe command is exempt from the rate limit as well.
    """

    def __init__(self, spec: RobotSpec, safety: SafetySettings) -> None:
        """Check the settings against the robot.

        Raises:
            ConfigError: a list of limits has the wrong length, or limits leave no room.
        """
        self.spec = spec
        self.safety = safety
        joints = len(spec.joint_names)
        _check_length("safety.position_limits", safety.position_limits, 2 * joints, "two a joint")
        _check_length("safety.velocity_limits", safety.velocity_limits, joints, "one a joint")
        efforts = safety.effort_limits
        _check_length("safety.effort_limits", efforts, spec.action_dim, "one an actuated joint")
        index = [spec.joint_names.index(name) for name in spec.actuated_joints]
        self._joints = joints
        self._state_dim = spec.state_dim
        self._index = np.array(index, dtype=np.intp)
        self._limits = np.minimum(spec.effort_limits, efforts or np.inf)
        # Settings in "limits a period", so that one number fits joints of all sizes.
        self._rate = safety.effort_rate * self._limits if safety.effort_rate > 0 else None
        self._damping = safety.damping if safety.safe_command == "damping" else 0.0
        self._lower, self._upper = _position_window(spec, safety, index)
        speeds = safety.velocity_limits or (np.inf,) * joints
        self._speed = np.asarray(speeds, dtype=np.float64)[index]
        if np.any(self._speed <= 0):
            raise ConfigError(
                f"safety.velocity_limits = {list(safety.velocity_limits)}: must be positive"
            )
        self._last = np.zeros_like(self._limits)

    @property
    def room(self) -> dict[tuple[str, ...], Array]:
        """What the guard leaves room for, by the settings that say it: larger is looser."""
        unlimited = np.full_like(self._limits, np.inf)
        return {
            ("effort_limits",): self._limits,
            ("effort_rate",): unlimited if self._rate is None else self._rate,
            ("position_limits", "position_margin"): np.append(-self._lower, self._upper),
            ("velocity_limits",): self._speed,
            ("stale_periods",): np.array([self.safety.stale_periods]),
            ("outage_periods",): np.array([self.safety.outage_periods]),
            # Neither more nor less damping is safer.
            ("safe_command", "damping"): np.array([-self._damping, self._damping]),
        }

    @property
    def last(self) -> Array:
        """The last command `(q,)` that was let through, or the safe command [N m or N]."""
        return self._last.copy()

    def reset(self, last: Array | None = None) -> None:
        """Start from `last` `(q,)`, the effort that the robot is under; None: zero [N m or N]."""
        self._last = np.zeros_like(self._limits) if last is None else last.copy()

    def check(self, action: Array, state: Array) -> GuardedCommand:
        """Turn a wanted effort into one that may be sent, and remember it as sent.

        Args:
            action: Wanted efforts `(q,)` [N m or N].
            state: Present state `(p,)`: positions, then velocities; the guard ignores the rest.
        """
        if action.shape != self._limits.shape or not np.isfinite(action).all():
            return GuardedCommand(self.safe_effort(state), clamped=False, safe=True)
        if len(state) != self._state_dim or not self._knows(state):
            return GuardedCommand(self.safe_effort(None), clamped=False, safe=True)
        effort = np.clip(action, -self._limits, self._limits).astype(np.float64)
        if self._rate is not None:
            effort = np.clip(effort, self._last - self._rate, self._last + self._rate)
            effort = np.clip(effort, -self._limits, self._limits)
        effort = self._inside_window(effort, state)
        self._last = effort
        return GuardedCommand(effort.copy(), not np.array_equal(effort, action), safe=False)

    def safe_effort(self, state: Array | None) -> Array:
        """The safe command `(q,)` [N m or N]: zero or damping; remembered as sent.

        Args:
            state: Present state `(p,)`, or only its joints `(2n,)`; None where it is unknown or
                where nobody will follow up: damping by an outdated velocity would drive the
                robot, so it is zero then.
        """
        effort = np.zeros_like(self._limits)
        if self._damping > 0 and state is not None and self._knows(state):
            with np.errstate(over="ignore"):
                wanted = -self._damping * state[self._joints :][self._index]
            effort = self._inside_window(np.clip(wanted, -self._limits, self._limits), state)
        self._last = effort
        return effort.copy()

    def _knows(self, state: Array) -> bool:
        return len(state) >= 2 * self._joints and bool(np.isfinite(state).all())

    def _inside_window(self, effort: Array, state: Array) -> Array:
        """No push outward near a position limit, only brakes above a velocity limit."""
        position = state[: self._joints][self._index]
        velocity = state[self._joints :][self._index]
        no_more = (position >= self._upper) | (velocity > self._speed)
        no_less = (position <= self._lower) | (velocity < -self._speed)
        effort = np.where(no_more, np.minimum(effort, 0.0), effort)
        return np.where(no_less, np.maximum(effort, 0.0), effort)


def _check_length(key: str, values: tuple[float, ...], expected: int, rule: str) -> None:
    if values and len(values) != expected:
        raise ConfigError(
            f"{key} = {list(values)}: {len(values)} numbers, expected {expected} ({rule}) or none"
        )


def _position_window(
    spec: RobotSpec, safety: SafetySettings, index: list[int]
) -> tuple[Array, Array]:
    """Soft lower and upper position limits `(q,)` of the actuated joints [rad or m]."""
    if not safety.position_limits:
        return np.full(len(index), -np.inf), np.full(len(index), np.inf)
    lower = np.asarray(safety.position_limits[0::2]) + safety.position_margin
    upper = np.asarray(safety.position_limits[1::2]) - safety.position_margin
    for name, low, high in zip(spec.joint_names, lower, upper, strict=True):
        if low >= high:
            raise ConfigError(
                f"safety.position_limits = {list(safety.position_limits)}: no room between the "
                f"limits of joint {name!r} with a position_margin of {safety.position_margin}"
            )
    return lower[index], upper[index]


def admit(
    path: Path,
    manifest: Manifest,
    task: str,
    safety: SafetySettings,
    robot: RobotSpec | None = None,
    in_force: Guard | None = None,
) -> Guard:
    """Check a bundle that somebody offers, for the controller and the watchdog alike.

    What the robot is says the description in the node's run, or else that in the run of the
    node's first bundle; without both the first bundle that it accepts. A later one may be
    stricter, never looser, so that no swap switches safety off.

    Args:
        path: The bundle.
        manifest: What it says.
        task: The node's task.
        safety: The manifest's settings with those in it that the node was given.
        robot: The robot as the node's run describes it; None: there is no run, or it doesn't.
        in_force: Guard of the bundle accepted before; None: there was none.

    Returns:
        The guard of this bundle, in force once the bundle is accepted.

    Raises:
        BundleError: it is for another task or robot, asks too much of the robot, or is looser
            than what is in force; names the field and both values.
        ConfigError: the safety settings don't fit the robot, or its description can't be read.
    """
    spec = manifest.spec
    if manifest.task != task:
        found = shortened(repr(manifest.task))
        raise BundleError(f"{path}: made for the task {found}; this controller's is {task!r}")
    if robot is None and in_force is None:
        robot = kept_robot(beside(path), task)
    if robot is not None:
        weaker = tuple(map(min, spec.effort_limits, robot.effort_limits))
        check_robot(path, spec, replace(robot, period=spec.period, effort_limits=weaker))
    if in_force is None:
        return Guard(spec, safety)
    check_robot(path, spec, in_force.spec)
    guard = Guard(spec, safety)
    refuse_looser(guard, in_force, path)
    return guard


def refuse_looser(
    guard: Guard, in_force: Guard, source: Path | str, error: type[HucrlError] = BundleError
) -> None:
    """Refuse a guard that leaves more room than the one in force.

    Raises:
        HucrlError: names the setting and both values.
    """
    for names, room in guard.room.items():
        if np.any(room > in_force.room[names]):
            raise error(
                f"{source}: looser than the safety in force: {_told(names, guard.safety)}, in "
                f"force {_told(names, in_force.safety)}; start the node anew to loosen it"
            )


def check_robot(path: Path, made_for: RobotSpec, here: RobotSpec) -> None:
    """Refuse a bundle that was made for another robot than the one here.

    Raises:
        BundleError: names the field and both values.
    """
    for field in fields(RobotSpec):
        theirs, ours = getattr(made_for, field.name), getattr(here, field.name)
        if theirs != ours:
            raise BundleError(
                f"{path}: made for another robot: {field.name} is {shortened(repr(theirs))} in "
                f"the bundle, {shortened(repr(ours))} here"
            )


def _told(names: Sequence[str], safety: SafetySettings) -> str:
    values = ((name, getattr(safety, name)) for name in names)
    return ", ".join(f"safety.{name} = {shortened(value)}" for name, value in values)
