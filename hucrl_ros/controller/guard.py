"""The one guard that every command passes on its way to the robot."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.errors import ConfigError

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
