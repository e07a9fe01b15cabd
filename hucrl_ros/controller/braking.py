"""Lets an action through only if the robot can still stop in time; before there is a model."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.controller.motors import Motors, limits_under, motors_under
from hucrl_ros.controller.timing import InForce

Array = NDArray[np.float64]
Room = Callable[[Array, Array], Array]
"""What states `(N, p)` and actions `(N, q)` leave of each constraint `(N, K)` [margins]: 0 at the
limit, negative outside."""

SHARE = 0.5
"""Share of the promised deceleration that is counted on: coupling, gravity and friction are
unknown."""
WANTED = 1.0
"""[margins] Room that is kept."""
SPEED_MARGIN = 0.1
"""Margin of the largest speed [shares of it]."""
ROUNDING = 1e-5
"""[margins] By so much two equal rooms may differ."""
ACTING, STOPPING = 3, 8
"""Points on the way while the action acts, and while the robot brakes."""
NEWS = 0.3
"""Share of a load that is learned in a period."""


class Checked(NamedTuple):
    """What may be sent."""

    action: Array
    """`(q,)`."""
    overruled: bool
    """It isn't the one that was wanted, which is cut to the limits."""
    constraint: int
    """Number of the constraint that the wanted one would have broken worst, K for the largest
    speed; -1: none."""
    one_brakes: bool
    """One joint brakes, the others do what was wanted."""
    brake: Array
    """`(q,)` brakes all joints."""


class Kept:
    """The room that a robot must not lose, where it has less than is demanded.

    It is what the robot has now, and up to a rounding more, if it had that before. So what a
    proof may lose by rounding is lost once, and not again in each tick.
    """

    def __init__(self, rounding: float) -> None:
        self._rounding = rounding
        self._most: NDArray[np.floating] | None = None

    def of(self, room: NDArray[np.floating]) -> NDArray[np.floating]:
        """Room `(K,)` to keep, less the rounding, of what the robot has now `(K,)` [margins]."""
        if self._most is None:
            self._most = room
        self._most = np.fmax(room, np.fmin(self._most, room + self._rounding))
        return self._most


class BrakingRule:
    """Braking distance, by what effort limits and inertia promise.

    Where would the robot come to rest, if it braked from the next control period on? Each joint
    is taken to move by itself: under an effort with the promised acceleration, then to rest with a
    share of the promised deceleration. Joints without a motor and everything else in the state
    stay as they are. Where on this way some constraint would have less room than one margin,
    and less than it has now, one joint brakes in place of doing what was wanted, or else all do.

    To brake is to hold what the joint carries, and as much against its speed as stops it within a
    period. What it carries, gravity above all, is learned from how the speed answers to efforts.
    Velocities and positions that are commanded are stopped by the robot's own drives: there
    braking is the action zero, and they are taken to need two control periods.
    """

    def __init__(
        self,
        spec: RobotSpec,
        room: Room,
        limits: Sequence[float],
        motors: Motors = Motors(),  # noqa: B008
        rate: float = 0.0,
    ) -> None:
        """Keep `spec`'s robot within the constraints; `reset` has to follow.

        Args:
            spec: The robot.
            room: Tells what states and actions leave of the constraints.
            limits: `(q,)` largest actions.
            motors: What its efforts can do.
            rate: Largest change of an action from one to the next [limits a period]; 0: any.
        """
        self._spec, self._room, self._period = spec, room, spec.period
        self._index = [spec.joint_names.index(name) for name in spec.actuated_joints]
        self._speeds = [len(spec.joint_names) + index for index in self._index]
        self._limits = np.asarray(limits, float)
        self._brakes = SHARE * np.asarray(motors.deceleration, float)
        self._effort = spec.command == "effort"
        self._gain = np.asarray(motors.acceleration, float) / self._limits if self._effort else 0.0
        self._fastest = np.asarray(motors.speed or (np.inf,) * len(self._limits))
        self._ramp = 1.0 / rate if rate > 0 else 0.0
        self._rate = rate * self._limits if rate > 0 else np.inf
        self.reset()

    def reset(self) -> None:
        """An episode begins with the robot under no action, and nothing is known."""
        self._sent = self._acting = self._load = np.zeros_like(self._limits)
        self._speed: Array | None = None
        self._kept = Kept(ROUNDING)

    def check(self, state: Array, action: Array, coming: Sequence[InForce] = ()) -> Checked:
        """The wanted action, or one that brakes.

        Args:
            state: `(p,)`, measured.
            action: `(q,)`, wanted for a control period.
            coming: Commands that the robot is under before this action takes effect.
        """
        self._learn_load(state[self._speeds])
        position, velocity = self._under(coming, state)
        candidates = self._candidates(np.clip(action, -self._limits, self._limits), velocity)
        sent = np.clip(candidates, self._sent - self._rate, self._sent + self._rate)
        path = self._stopped if self._effort else self._driven
        now, rooms = self._rooms(state, *path(position, velocity, sent))
        lacking = rooms.min(axis=1) - np.minimum(self._kept.of(now), WANTED) + ROUNDING
        fine = (lacking >= 0.0).all(axis=1)  # not where it is no number
        chosen = int(np.argmax(fine)) if fine.any() else len(candidates) - 1
        self.obey(sent[chosen], coming)
        return Checked(
            action=candidates[chosen],
            overruled=not np.array_equal(candidates[chosen], candidates[0]),
            constraint=-1 if fine[0] else int(np.argmin(lacking[0])),
            one_brakes=0 < chosen < len(candidates) - 1,
            brake=candidates[-1],
        )

    def go_on_from(self, other: "BrakingRule") -> None:
        """Know what `other` has learned of the same robot; what is constrained may differ."""
        self._sent, self._acting, self._load = other._sent, other._acting, other._load
        self._speed = other._speed

    def miss(self) -> None:
        """A state went by unseen: what the speed does until the next one tells of no load."""
        self._speed = None

    def obey(self, action: Array, coming: Sequence[InForce] = ()) -> None:
        """`action` `(q,)` is sent, after those that are `coming`: for loads, and for the rate."""
        self._sent = action
        left, acting = 1.0, np.zeros_like(action)
        for command, share in coming:  # Those that come after this period don't act in it.
            used = min(share, left)
            acting, left = acting + used * command, left - used
        self._acting = acting + left * action

    def _mean(self, coming: Sequence[InForce]) -> Array:
        """`(q,)` the sum of what the commands are for their shares of a period."""
        return sum((share * command for command, share in coming), np.zeros_like(self._limits))

    def _learn_load(self, speed: Array) -> None:
        """Take in how the speed `(q,)` has changed under what has been acting for a period."""
        if self._effort and self._speed is not None:
            moved = (speed - self._speed) / (self._gain * self._period)
            load = np.clip(self._acting - moved, -self._limits, self._limits)
            self._load = self._load + NEWS * (load - self._load)
        self._speed = speed

    def _candidates(self, wanted: Array, velocity: Array) -> Array:
        """`(q + 2, q)`, or `(2, q)`: the wanted action, one joint braking, all of them."""
        brake = np.zeros_like(wanted)
        if self._effort:
            brake = self._load - velocity / (self._gain * self._period)
            brake = np.clip(brake, -self._limits, self._limits)
        ones = np.where(np.eye(len(wanted), dtype=bool), brake, wanted)
        return np.stack([wanted, *(ones if len(wanted) > 1 else ()), brake])

    def _under(self, coming: Sequence[InForce], state: Array) -> tuple[Array, Array]:
        """Positions and velocities `(q,)` when the action takes effect."""
        position, velocity = state[self._index], state[self._speeds]
        if self._spec.command == "velocity":
            return position + self._period * self._mean(coming), velocity
        if self._effort:
            for command, share in coming:
                push = self._gain * (command - self._load)
                position, velocity = _moved(position, velocity, push, share * self._period)
        return position, velocity  # of positions, what was commanded before has been checked

    def _stopped(
        self, position: Array, velocity: Array, sent: Array
    ) -> tuple[Array, Array, Array]:
        """Where efforts `(C, q)` lead, until at rest: positions, velocities, actions `(C, P, q)`.

        No constraint on actions forbids to brake, so they are 0 then.
        """
        push = self._gain * (sent - self._load)
        parts = [
            (*_moved(position, velocity, push, share * self._period), sent)
            for share in np.linspace(0.0, 1.0, ACTING)
        ]
        # Where its rate is limited, an effort goes on until it has become the opposite one: with
        # just this impulse, and for a little longer.
        position, velocity, _ = parts[-1]
        heading = np.where(velocity == 0.0, np.sign(push), np.sign(velocity))
        ahead = np.maximum(heading * sent / self._limits, 0.0)
        ramp = self._ramp * self._period
        velocity = velocity + heading * 0.5 * ahead**2 * ramp * self._gain * self._limits
        position = position + velocity * (ahead + 0.5) * ramp
        # In the end effort falls with the speed, so braking lasts some periods.
        least = self._gain * self._limits / self._brakes * self._period
        duration = np.maximum(np.abs(velocity) / self._brakes, least)
        none = np.zeros_like(sent)
        for share in np.linspace(0.0, 1.0, STOPPING):
            along = _moved(position, velocity, -velocity / duration, share * duration)
            parts.append((*along, none))
        positions, velocities, actions = zip(*parts, strict=True)
        return _stacked(positions, sent), _stacked(velocities, sent), _stacked(actions, sent)

    def _driven(self, position: Array, velocity: Array, sent: Array) -> tuple[Array, Array, Array]:
        """Where velocities, or ways to positions, `(C, q)` lead within two periods, as above."""
        is_velocity = self._spec.command == "velocity"
        way = sent * self._period if is_velocity else sent
        way = way * (2.0 + 0.5 * self._ramp * np.abs(sent) / self._limits)
        speed = sent if is_velocity else sent / self._period
        shares = np.linspace(0.0, 1.0, ACTING + STOPPING)
        positions = [position + share * way for share in shares]
        count = len(shares)
        return (
            _stacked(positions, sent),
            _stacked([speed] * count, sent),
            _stacked([sent] * count, sent),
        )

    def _rooms(
        self, state: Array, positions: Array, velocities: Array, actions: Array
    ) -> tuple[Array, Array]:
        """Room `(K + 1,)` of the state under no action, and `(C, P, K + 1)` on the way."""
        count, points, width = positions.shape
        states = np.tile(state, (1 + count * points, 1))
        states[1:, self._index] = positions.reshape(-1, width)
        states[1:, self._speeds] = velocities.reshape(-1, width)
        resting = np.concatenate([np.zeros((1, width)), actions.reshape(-1, width)])
        rooms = np.asarray(self._room(states, resting), float)
        slow = (1.0 - np.abs(states[:, self._speeds]) / self._fastest) / SPEED_MARGIN
        rooms = np.concatenate([rooms, slow.min(axis=1, keepdims=True)], axis=1)
        return rooms[0], rooms[1:].reshape(count, points, -1)


def _moved(
    position: Array, velocity: Array, acceleration: Array, duration: Array | float
) -> tuple[Array, Array]:
    """Positions and velocities after a time [s] of constant acceleration."""
    after = velocity + acceleration * duration
    return position + 0.5 * (velocity + after) * duration, after


def _stacked(parts: Sequence[Array], like: Array) -> Array:
    """`(C, P, q)` from P arrays that are as large as `like` `(C, q)`, or smaller."""
    return np.stack([np.broadcast_to(part, like.shape) for part in parts], axis=1)


def braking_rule(bundle: Bundle, safety: SafetySettings) -> BrakingRule | None:
    """What keeps actions within a bundle's constraints; None: nothing has to, or nothing is known.

    Args:
        bundle: Has the constraints.
        safety: What is in force.
    """
    manifest, spec = bundle.manifest, bundle.manifest.spec
    known = bool(manifest.deceleration) or spec.command != "effort"
    if not (manifest.constraints and known):
        return None

    def room(states: Array, actions: Array) -> Array:
        inputs = {"state": states.astype(np.float32), "action": actions.astype(np.float32)}
        return bundle.run("constraints", **inputs)[0].astype(np.float64)

    limits, motors = limits_under(spec, safety), motors_under(manifest, safety)
    return BrakingRule(spec, room, limits, motors, safety.effort_rate)
