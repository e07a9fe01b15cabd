"""Backup policies: how the robot would come to rest, if nothing better could be done."""

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec

Array = NDArray[np.float64]

BRAKING = 0.6
"""Share of its speed that a joint is to lose in a control period, at most; see `braking_at`."""
STAYING = 0.25
"""Share of its damping by which a joint is pulled back to where it came to rest, without
overshoot [of `braking_at` a period]."""
PROBE = 0.5
"""[shares of the limits] Actions by which the model is asked what they do."""
RIDGE = 1e-3
"""Of the regression for what actions do, where some do next to nothing [share of the largest]."""
RESERVE = 0.75
"""Share of what an action has left, besides what it has to stand against, that is counted on."""


class Expect(Protocol):
    """The model's mean."""

    def __call__(self, states: Array, shares: Array) -> Array:
        """Predicted entries `(N, m)` after a period of actions `(N, q)` [shares of the limits]."""


class Backup(NamedTuple):
    """Feedback u = bias − damping q̇ − stiffness e(q − place), in shares of the limits.

    q are the n actuated joints; e is the sine for those that networks see as angles.
    """

    stiffness: Array
    """`(q, q)` [1/rad or 1/m]"""
    damping: Array
    """`(q, q)` [s/rad or s/m]"""
    place: Array
    """`(q,)` [rad or m]"""
    bias: Array
    """`(q,)` what holds the joints against gravity and springs."""
    undoes: Array
    """`(q, q)` of actions that undo what changes the speeds in a period, if all adds up."""
    brakes: bool = False
    """Whether it takes away the speed of each actuated joint, and so promises when it ends."""
    braking: float = BRAKING
    """κ, the share of its speed that a joint loses in a period."""

    def load(self, moved: Array, actions: NDArray[np.floating]) -> Array:
        """What gravity, doubt and the like ask of actions on trajectories, on average `(..., q)`.

        Args:
            moved: `(..., H, q)` what the speeds gain in each period.
            actions: `(..., H, q)` that the robot was under.
        """
        load: Array = (self.needed(moved) - actions).mean(axis=-2)
        return load

    def needed(self, moved: Array) -> Array:
        """Actions `(..., q)` that change the speeds `(..., q)` so much in a period."""
        needed: Array = moved @ self.damping.T / self.braking
        return needed

    def periods_to_rest(self, speeds: Array, load: Array) -> Array:
        """Periods of these speeds that the ways to rest from speeds `(..., q)` are worth: `(...)`.

        Infinite where the backup doesn't brake, or a `load` `(..., q)` leaves no action to do so.
        A speed that falls by a share κ a period goes as far as 1/κ periods of it do; one too large
        for that falls evenly, by all that is left. One that doesn't fall, because something pushes
        on, is held at last by what pulls a joint that is `staying`, which gives way by 4/κ periods
        of it.
        """
        if not self.brakes:
            return np.full(speeds.shape[:-1], np.inf)
        needed = np.abs(self.needed(speeds))
        left = RESERVE * (1.0 - np.abs(load))
        never = np.where(needed > 0.0, np.inf, 0.0)
        full: Array = np.divide(needed, left, out=never, where=left > 0.0).max(axis=-1)
        return np.maximum(1.0 / self.braking + 0.5 * full, 1.0 / (STAYING * self.braking))

    @property
    def pulling(self) -> "Backup":
        """What pulls joints to a place, alone."""
        return self._replace(
            damping=np.zeros_like(self.damping), bias=np.zeros_like(self.bias), brakes=False
        )

    def staying(self, place: Array, period: float) -> "Backup":
        """The same for joints at rest in `place` `(q,)`, which are also pulled back to there.

        What the model gets wrong of what holds them moves them a little then; by damping alone
        they would creep on, to anywhere.
        """
        stiffness = STAYING * self.braking / period * self.damping
        return self._replace(stiffness=stiffness, place=place)


class Joints:
    """The actuated joints in a robot's states."""

    def __init__(self, spec: RobotSpec, angles: tuple[int, ...]) -> None:
        """Find them; `angles` are the entries that networks see as cosine and sine."""
        self.positions = np.array([spec.joint_names.index(j) for j in spec.actuated_joints])
        self.velocities = self.positions + len(spec.joint_names)
        self.turns = np.isin(self.positions, angles)

    def shares(self, backup: Backup, states: Array) -> Array:
        """What the backup does in states `(..., p)`: `(..., q)`, not clipped."""
        away = states[..., self.positions] - backup.place
        away = np.where(self.turns, np.sin(away), away)
        speed = states[..., self.velocities]
        held: Array = backup.bias - speed @ backup.damping.T - away @ backup.stiffness.T
        return held


def braking_at(rate: float) -> float:
    """κ for actions that change by `rate` a period at most [limits a period].

    A speed that falls by κ of itself asks for an action that falls by κ of itself: a larger one
    would come late, and swing further each time.
    """
    return min(BRAKING, rate)


def backups(
    spec: RobotSpec,
    joints: Joints,
    state: Array,
    home: Array,
    expect: Expect,
    limits: Array,
    rate: float = math.inf,
) -> list[Backup]:
    """Two ways to come to rest from a state `(p,)`: to brake on the way to `home`, or at once.

    What an action does to the joints' speeds is asked of the model, around the state. A robot
    that takes velocities or positions is sent to `home`, or to where it is: its drives brake.

    Args:
        spec: The robot.
        joints: Its actuated joints.
        state: Where it is.
        home: `(q,)` positions where it was safe.
        expect: The model's mean.
        limits: `(q,)` largest actions that the guard lets pass.
        rate: Largest change of an action [limits a period].
    """
    count, braking = spec.action_dim, braking_at(rate)
    nothing = np.zeros((count, count))
    still = Backup(nothing, nothing, home, np.zeros(count), nothing)
    gain, bias = _response(joints, state, expect, count)
    scale = np.abs(gain).max()
    if not np.isfinite(gain).all() or not np.isfinite(bias).all() or scale == 0.0:
        return [still]
    # Ridge regression: a joint that no action moves isn't braked by all of them at once.
    inverse = gain.T @ np.linalg.inv(gain @ gain.T + (RIDGE * scale) ** 2 * np.eye(count))
    if spec.command != "effort":
        # Under the action zero it would creep on, as far as doubt leads it.
        pull = min(1.0, rate) if spec.command == "position" else braking / spec.period
        stay = still._replace(
            stiffness=np.diag(pull / limits), place=state[joints.positions], undoes=abs(inverse)
        )
        return [stay._replace(place=home), stay]
    hold = np.clip(-inverse @ bias, -PROBE, PROBE)
    # Δq̇ = −κ q̇ − κ²/4 (q − place)/Δt, which doesn't overshoot.
    pull = braking**2 / 4.0 / spec.period
    brake = still._replace(
        damping=braking * inverse,
        undoes=abs(inverse),
        braking=braking,
        place=state[joints.positions],
        bias=hold,
        brakes=bool(np.allclose(gain @ inverse, np.eye(count), atol=0.1)),
    )
    return [brake._replace(stiffness=pull * inverse, place=home), brake]


def _response(joints: Joints, state: Array, expect: Expect, count: int) -> tuple[Array, Array]:
    """What a unit of each share adds to the speeds `(q, q)`; what they gain at rest `(q,)`."""
    probes = PROBE * np.concatenate([np.eye(count), -np.eye(count), np.zeros((1, count))])
    states = np.repeat(state[None], len(probes), axis=0)
    states[-1, joints.velocities] = 0.0
    speeds = expect(states, probes)[:, joints.velocities]
    gain = (speeds[:count] - speeds[count : 2 * count]).T / (2.0 * PROBE)
    return gain, speeds[-1]
