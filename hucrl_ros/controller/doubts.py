"""Which η the safety filter holds possible: against each side of a constraint within reach."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.controller.backup import Array, Expect, Joints
from hucrl_ros.controller.rooms import FLAT, INSIDE, Rooms
from hucrl_ros.controller.timing import InForce

PUSHED = 8
"""Sides of constraints against which η pushes: those with the least room."""
ALIKE = 0.8
"""Cosine of the angle from which on two η push to different sides of a constraint."""
FARTHEST = 10.0
"""[rad or m] Further away no side of a constraint is looked for."""
STEP, WIDE = 1e-2, 1.0
"""Of an entry, for the slopes of the room, and where these tell nothing."""
NO_DOUBT = 1e-6
"""Added to deviations, so that noise has a direction where the model has none."""
NOISE = 2.0
"""Deviations of the noise that are held possible, as in a fan."""


class Doubt(NamedTuple):
    """What may be wrong about the model in a state."""

    room: NDArray[np.floating]
    """`(K,)` that constraints leave there [margins]."""
    patterns: Array
    """`(P, m)` η that are held possible, towards each side of a constraint and away from it."""
    deviation: Array
    """`(m,)` of what the model predicts."""


class Doubts:
    """Finds what would be worst. What pushes a position pushes its speed, too.

    Each η is the worst of its length: of the doubts of several joints not all are at their worst
    at once.
    """

    def __init__(
        self,
        spec: RobotSpec,
        joints: Joints,
        rooms: Rooms,
        expect: Expect,
        deviate: Expect,
        limits: Array,
        braking: float,
    ) -> None:
        """Look by what the model expects of actions in shares of `limits` `(q,)`.

        Backups brake by the share `braking` of a speed in a period.
        """
        self._braking = braking
        self._spec, self._joints, self._rooms = spec, joints, rooms
        self._expect, self._deviate, self._limits = expect, deviate, limits

    def at(self, state: Array, share: Array, beta: float, ahead: int) -> Doubt:
        """What may be wrong of an action `(q,)` in a state `(p,)` and `ahead` periods after it."""
        moving, joints = self._spec.predicted_dim, len(self._spec.joint_names)
        deviation = self._deviate(state[None], share[None])[0]
        places = self._within_reach(state, beta * deviation, ahead)
        steps = np.concatenate([np.zeros((1, len(state))), STEP * np.eye(moving, len(state))])
        room, asked = self._rooms.at((places[:, None] + steps).reshape(-1, len(state)))
        asked = asked.reshape(len(places), len(steps), -1)
        slopes = _no_rounding(asked[:, 1:] - asked[:, :1]).transpose(0, 2, 1)
        flat = ~slopes[0].any(axis=-1)
        if flat.any():  # A margin may be thousands of a small step, as a rotor's largest speed is.
            wide = self._rooms.at(state + WIDE * np.eye(moving, len(state)))[1]
            slopes[0] = np.where(flat[:, None], _no_rounding(wide - asked[0, 0]).T, slopes[0])
        positions, speeds = slopes[..., :joints], slopes[..., joints : 2 * joints]
        speeds[speeds == 0.0] = positions[speeds == 0.0]
        worst = slopes * (deviation + NO_DOUBT)
        for entries in np.split(worst, [joints, 2 * joints], axis=-1):
            lengths = np.linalg.norm(entries, axis=-1, keepdims=True)
            entries /= np.where(lengths > 0.0, lengths, 1.0)
        against = _against(worst, asked[:, 0])
        flat = ~slopes[0].any(axis=-1)
        if (flat & self._rooms.moves).any():  # Its side isn't known: any joint may lead there.
            each = np.eye(joints, moving)
            each[:, joints : 2 * joints] = np.eye(joints)
            others = np.eye(moving)[2 * joints :]
            against = np.concatenate([against, each, others])
        return Doubt(room[0], np.unique(np.concatenate([against, -against]), axis=0), deviation)

    def led_away(
        self, measured: Array, coming: Sequence[InForce], patterns: Array, beta: float
    ) -> Array:
        """`(P, p)` how far η lead from what the mean expects, under commands that are coming."""
        signs = np.concatenate([np.zeros_like(patterns[:1]), patterns])

        def follow(states: Array, shares: Array) -> Array:
            doubt = max(beta, NOISE) * self._deviate(states, shares)
            return self._expect(states, shares) + signs * doubt

        begins = np.repeat(measured[None], len(signs), axis=0)
        now = led(self._spec, self._limits, begins, coming, follow)
        away: Array = now[1:] - now[0]
        return away

    def _within_reach(self, state: Array, doubt: Array, ahead: int) -> Array:
        """The state, and how far joints may get, each by itself, `(2q + 1, p)`; one is alone."""
        where, how_fast = self._joints.positions, self._joints.velocities
        if len(where) == 1:  # Whatever side is near, it is pushed to, and to the other one.
            return state[None]
        slow = doubt[where] + self._spec.period * doubt[how_fast] / self._braking
        way = ahead * (slow + self._spec.period * abs(state[how_fast]))
        steps = np.zeros((len(where), len(state)))
        steps[np.arange(len(where)), where] = np.minimum(way, FARTHEST)
        places: Array = state + np.concatenate([np.zeros((1, len(state))), steps, -steps])
        return places


def led(
    spec: RobotSpec, limits: Array, begins: Array, coming: Sequence[InForce], follow: Expect
) -> Array:
    """Where commands that are coming lead from `begins` `(N, p)`, if periods are as `follow` says.

    It is asked of actions in shares of `limits` `(q,)`.
    """
    now, moving = begins.copy(), spec.predicted_dim
    for command, share in coming:
        shares = spec.to_action(command, now) / limits
        following = follow(now, np.broadcast_to(shares, (len(now), len(limits))))
        now[:, :moving] += share * (following - now[:, :moving])
    return now


def _no_rounding(change: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.where(abs(change) > FLAT, change, 0.0)


def _against(worst: Array, room: NDArray[np.floating]) -> Array:
    """`(P, m)` η against the sides with the least room; a constraint has several, as a box does.

    Args:
        worst: `(B, K, m)` η at the state, then at places within reach.
        room: `(B, K)` there [margins].
    """
    found: list[tuple[float, Array]] = []
    for whose, least in enumerate(room.min(axis=0)):
        sides = [worst[0, whose]]
        found.append((least, sides[0]))
        for place in np.argsort(room[1:, whose]) + 1:
            if not room[place, whose] < INSIDE:
                break
            side = worst[place, whose]
            lengths = [np.linalg.norm(side) * np.linalg.norm(other) for other in sides]
            alike = zip(sides, lengths, strict=True)
            if all(abs(side @ other) <= ALIKE * length for other, length in alike):
                sides.append(side)
                found.append((room[place, whose], side))
    found.sort(key=lambda pair: pair[0])
    return np.stack([eta for _, eta in found[:PUSHED]])
