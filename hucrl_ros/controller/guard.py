"""The one guard that every command passes."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec, plural
from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.controller.motors import limits_under
from hucrl_ros.errors import ConfigError

Array = NDArray[np.float64]


REACH = 2.0
"""[largest ways] How far a commanded position may be from the one before: a joint is within one
of it, and the next command within one of the joint. So an encoder that errs for a moment can't
make a joint jump."""


class GuardedCommand(NamedTuple):
    """What may be sent."""

    action: Array
    """`(q,)`, finite and within all limits, in the unit of the robot's actions."""
    clamped: bool
    """The wanted action was changed to fit the limits."""
    safe: bool
    """The wanted action or the state made no sense: `command` is the safe command."""
    command: Array | None
    """`(q,)` what is sent; None: nothing, as no position to hold is known."""


class Guard:
    """Keeps commands finite and within limits of effort, rate, position and velocity.

    Where limits disagree, the position and velocity limits win over the rate limit: a joint at
    its end stop is worse than a jolt. They never disagree with each other, as no action (zero, or
    staying where the joint is) satisfies both. The safe command is exempt from the rate limit as
    well.

    Of a robot that takes positions an action is the way from where a joint is, and what is
    commanded must not leave the position limits. There the safe command is to hold: at the
    measured position when it begins, or at the last commanded one where the state is unknown. It
    stays that position until the robot is moved again, as one that followed the measured position
    would sag.
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
        if safety.safe_command == "damping" and spec.command != "effort":
            raise ConfigError(
                f"safety.safe_command = damping: only for efforts; {spec.name} takes "
                f"{plural(spec.command)}: expected zero"
            )
        efforts = safety.effort_limits
        _check_length("safety.effort_limits", efforts, spec.action_dim, "one an actuated joint")
        index = [spec.joint_names.index(name) for name in spec.actuated_joints]
        self._joints = joints
        self._state_dim = spec.state_dim
        self._index = np.array(index, dtype=np.intp)
        self._limits = np.minimum(spec.effort_limits, efforts or np.inf)
        self._damping = safety.damping if safety.safe_command == "damping" else 0.0
        self._lower, self._upper = _position_window(spec, safety, index)
        speeds = safety.velocity_limits or (np.inf,) * joints
        self._speed = np.asarray(speeds, dtype=np.float64)[index]
        if any(speed <= 0 for speed in speeds):
            raise ConfigError(
                f"safety.velocity_limits = {list(safety.velocity_limits)}: must be positive"
            )
        self._largest = np.array(limits_under(spec, safety))
        # Settings in "limits a period", so that one number fits joints of all sizes. They are the
        # limits of safety filter and braking rule, which prove nothing of a larger step.
        self._rate = safety.effort_rate * self._largest if safety.effort_rate > 0 else None
        self._last = np.zeros_like(self._limits)
        self._sent: Array | None = None
        self._holds = False

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
            ("surprise",): np.array([self.safety.surprise or np.inf]),
            # Neither more nor less damping is safer.
            ("safe_command", "damping"): np.array([-self._damping, self._damping]),
            ("filter",): np.array([0.0 if self.safety.filter else 1.0]),
            ("filter_beta",): np.array([-self.safety.filter_beta]),
            ("backup_time",): np.array([self.safety.backup_time]),
        }

    def reset(self, before: "Guard | None" = None) -> None:
        """Start from what the guard `before` has sent; None: from no action, nothing is known."""
        if before is None:
            self._last, self._sent, self._holds = np.zeros_like(self._limits), None, False
        else:
            self._last, self._sent, self._holds = before._last, before._sent, before._holds

    @property
    def action(self) -> Array:
        """The last action `(q,)`, whoever sent it: the next one is at most a step away."""
        return self._last.copy()

    @property
    def sent(self) -> Array | None:
        """The last command `(q,)`, whoever sent it; None: no position has been commanded yet."""
        return self._sent if self.spec.command == "position" else self._last

    def hear(self, command: Array) -> bool:
        """Go on from what somebody else has sent, `(q,)`; False: not, as it makes no sense."""
        if command.shape != self._limits.shape or not np.isfinite(command).all():
            return False
        self._sent, self._holds = command, False
        self._last = np.zeros_like(command) if self.spec.command == "position" else command
        return True

    def check(self, action: Array, state: Array) -> GuardedCommand:
        """Turn a wanted action into a command that may be sent, and remember it as sent.

        Args:
            action: Wanted action `(q,)`.
            state: Present state `(p,)`: positions, then velocities; the guard ignores the rest.
        """
        if action.shape != self._limits.shape or not np.isfinite(action).all():
            return self._safe(state)
        if len(state) != self._state_dim or not self._knows(state):
            return self._safe(None)
        allowed = np.clip(action, -self._largest, self._largest).astype(np.float64)
        if self._rate is not None:
            allowed = np.clip(allowed, self._last - self._rate, self._last + self._rate)
            allowed = np.clip(allowed, -self._largest, self._largest)
        if self.spec.command == "position":
            command = self._near(self.spec.to_command(allowed, state), state)
            clamped = not np.array_equal(command, self.spec.to_command(action, state))
            allowed = self.spec.to_action(command, state)
        else:
            command = allowed = self._inside_window(allowed, state)
            clamped = not np.array_equal(allowed, action)
        self._last, self._sent, self._holds = allowed, command, False
        return GuardedCommand(allowed.copy(), clamped, False, command.copy())

    def safe_command(self, state: Array | None) -> Array | None:
        """The safe command `(q,)`: zero, damping, or hold; remembered as sent.

        Args:
            state: Present state `(p,)`, or only its joints `(2n,)`; None where it is unknown.

        Returns:
            None: the robot takes positions, and none is known.
        """
        state = state if state is not None and self._knows(state) else None
        self._last = np.zeros_like(self._limits)
        if self.spec.command == "position":
            if state is not None and not self._holds:
                self._sent = self._near(state[self._index], state)
            self._holds = self._sent is not None
            return None if self._sent is None else self._sent.copy()
        if self._damping > 0 and state is not None:
            with np.errstate(over="ignore"):
                wanted = -self._damping * state[self._joints :][self._index]
            wanted = np.clip(wanted, -self._limits, self._limits)
            self._last = self._inside_window(wanted, state)
        return self._last.copy()

    def last_command(self, state: Array | None) -> Array | None:
        """The safe command `(q,)` where nobody will follow up; None: the robot is to hold already.

        Damping by an outdated velocity would drive the robot, so it is zero then. What has been
        held is not sent again: meanwhile somebody may have moved the robot elsewhere.
        """
        if self.spec.command != "position":
            return self.safe_command(None)
        return None if self._holds else self.safe_command(state)

    def _safe(self, state: Array | None) -> GuardedCommand:
        command, action = self.safe_command(state), self._last
        if command is not None and state is not None and self._knows(state):
            action = self.spec.to_action(command, state)
        return GuardedCommand(action.copy(), False, True, command)

    def _near(self, wanted: Array, state: Array) -> Array:
        """Commanded positions not far from those before, and no further outside the limits."""
        before, reach = state[self._index], self._largest
        if self._sent is not None:
            before, reach = self._sent, REACH * self._largest
        near = np.clip(wanted, before - reach, before + reach)
        return np.clip(near, np.minimum(self._lower, before), np.maximum(self._upper, before))

    def _knows(self, state: Array) -> bool:
        return len(state) >= 2 * self._joints and bool(np.isfinite(state).all())

    def _inside_window(self, effort: Array, state: Array) -> Array:
        """No push outward near a position limit, only brakes above a velocity limit.

        A velocity must not lead beyond a position limit within a control period.
        """
        position = state[: self._joints][self._index]
        if self.spec.command == "velocity":
            with np.errstate(over="ignore"):
                most = np.maximum((self._upper - position) / self.spec.period, 0.0)
                least = np.minimum((self._lower - position) / self.spec.period, 0.0)
            return np.clip(effort, least, most)
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
