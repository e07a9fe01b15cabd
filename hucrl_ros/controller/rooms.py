"""How much room constraints leave along imagined trajectories, and on the ways to rest behind."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.controller.backup import Array, Backup, Joints
from hucrl_ros.controller.engines.fan import Fan

Room = Callable[[Array, Array], NDArray[np.floating]]
"""States `(N, p)`, actions `(N, q)` [units of the actions] → `(N, K)` room that each constraint
leaves, in its margins: 1 is a margin inside, below 0 is outside."""

INSIDE = 1.0
"""[margins] Room that a proof demands."""
ROUNDING = 1e-3
"""[margins] Less than this isn't further out; it is never lost twice, see `Kept`."""
FLAT = 1e-4
"""[margins] A smaller difference of two rooms is rounding."""
POSES = 32
"""In which it is tried what a constraint depends on."""
FOR_EVER = 1e6
"""Periods to rest of what can't brake."""
SWINGING = 0.5
"""Load that counts at most where joints without a motor make a part of it [shares of the limits]:
they take back what they ask for."""
TO_REST = np.array([0.5, 1.0])[:, None, None, None]
"""Shares of the way from a fan's end to rest, after which it is looked how much room is left."""


class Rooms:
    """What the constraints of a robot leave it."""

    def __init__(
        self, spec: RobotSpec, joints: Joints, room: Room, limits: Array, rate: float
    ) -> None:
        """Try what each constraint depends on.

        Args:
            spec: The robot.
            joints: Its actuated joints.
            room: What the constraints leave.
            limits: `(q,)` largest actions that the guard lets pass.
            rate: Largest change of an action that the guard lets pass [limits a period].
        """
        self._spec, self._joints, self._room = spec, joints, room
        self._limits, self._rate = limits, rate
        self._acted = self._asked_of_actions()
        self.moves = ~self._acted | self._asked_of_states()
        """Whether each constraint is of states, not of actions alone `(K,)`."""
        self._driven, self._carried = self._moved_by()

    def at(self, states: Array) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Room of states `(N, p)` under no action `(N, K)`; under all where it depends on it."""
        actions = np.zeros((len(states), self._spec.action_dim))
        room = asked = self._room(states, actions)
        if self._acted.any():  # Under no action none of them falls, whatever the speed.
            asked = np.where(self._acted, self._room(states, actions + self._limits), room)
        return room, asked

    def left(
        self, fan: Fan, backup: Backup, here: NDArray[np.floating]
    ) -> tuple[Array, NDArray[np.intp]]:
        """Room beyond what is demanded that a fan leaves, and on the way to rest after it.

        Args:
            fan: Of C first actions.
            backup: That follows them.
            here: `(K,)` room that the robot has, see `Kept` [margins].

        Returns:
            The least of it `(C,)` [margins], and whose it is `(C,)`.
        """
        count, lanes, horizon, actions = fan.actions.shape
        # The first state is the present one: nothing changes it, but what is asked of actions.
        states = fan.states[:, :, 1:].reshape(count * lanes * horizon, -1).astype(np.float64)
        efforts = (fan.actions * self._limits).reshape(-1, actions)
        found: NDArray[np.floating] = self._room(states, efforts)
        found = found.reshape(count, lanes, horizon, -1)
        if self._acted.any():  # An action acts in the state, too, in which it begins.
            begun = fan.states[:, :, :-1].reshape(count * lanes * horizon, -1).astype(np.float64)
            at_first = self._room(begun, efforts).reshape(count, lanes, horizon, -1)
            found = np.where(self._acted, np.minimum(found, at_first), found)
        room = np.where(np.isfinite(found), found, -np.inf)
        beyond = room - np.minimum(INSIDE, here) + ROUNDING
        rest = self._to_rest(fan, backup, room) - np.minimum(here, 0.0)
        rest = np.where(np.isfinite(rest), rest, -np.inf) + ROUNDING
        worst = np.minimum(beyond.min(axis=(1, 2)), rest.min(axis=1))
        return worst.min(axis=1), worst.argmin(axis=1)

    def _to_rest(
        self, fan: Fan, backup: Backup, room: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """Least room `(C, L, K)` on the way to rest after a fan that has left `(C, L, H, K)`.

        What has most room in the middle, as between two walls or in a box, doesn't fall before
        the middle is passed, so how fast it falls tells nothing of the wall that comes: it is
        looked on that way, too.
        """
        count, lanes, horizon, actions = fan.actions.shape
        joints = len(self._spec.joint_names)
        ends = fan.states[:, :, -1].astype(np.float64)
        speeds = fan.states[..., self._joints.velocities].astype(np.float64)
        load = backup.load(np.diff(speeds, axis=2), fan.actions)
        if len(self._joints.positions) < joints:  # What swings pushes back and forth.
            load = np.clip(load, -SWINGING, SWINGING)
        periods = backup.periods_to_rest(speeds[:, :, -1], load)
        periods = np.where(np.isfinite(periods), periods, FOR_EVER if backup.brakes else horizon)
        # Where actions are still on their way to what the backup wants, or to what it will want
        # when it pulls home no more, it brakes from then on. What doesn't come to rest by actions
        # alone must be in in the same time again, at least.
        held = backup._replace(stiffness=np.zeros_like(backup.stiffness))
        wanted = np.stack([self._joints.shares(each, ends) for each in (backup, held)])
        lag = np.abs(np.clip(wanted, -1.0, 1.0) - fan.actions[:, :, -1])
        behind = lag.max(axis=(0, -1)) > self._rate
        lasting = (periods + np.where(behind, horizon, 0))[..., None]
        both = self._driven & self._carried
        lasting = np.where(both, np.maximum(lasting, horizon), lasting)
        lasting = np.where(self._driven, lasting, horizon)
        last, before = room[:, :, -1], room[:, :, -2]
        with np.errstate(invalid="ignore"):
            least: NDArray[np.floating] = last + np.minimum(last - before, 0.0) * lasting
            way = ends - fan.states[:, :, -2]
            way[..., joints : 2 * joints] = 0.0  # Who brakes gets no faster.
            newest = (fan.actions[:, :, -1] * self._limits).reshape(-1, actions)
            efforts = np.tile(newest, (len(TO_REST), 1))
            for whose in (~self._carried, both, ~self._driven):
                if whose.any():
                    there = ends + TO_REST * (lasting[..., whose.argmax(), None] * way)
                    then = self._room(there.reshape(len(TO_REST) * count * lanes, -1), efforts)
                    then = then.reshape(len(TO_REST), count, lanes, -1).min(axis=0)
                    least = np.where(whose, np.minimum(least, then), least)
        return least

    def _moved_by(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether each constraint is one of actuated joints, and of what no action stops `(K,)`.

        One that shows no difference may be of either.
        """
        spec, draws = self._spec, np.random.default_rng(0)
        own = [*self._joints.positions, *self._joints.velocities]
        states = draws.uniform(-1.0, 1.0, (POSES, spec.state_dim))
        moves = np.eye(spec.predicted_dim, spec.state_dim)
        moved = np.concatenate([states, (states[:, None] + moves).reshape(-1, spec.state_dim)])
        full = np.tile(self._limits, (len(moved), 1))
        room = np.stack([self._room(moved, action) for action in (0.0 * full, full)])
        room, others = room[:, :POSES], room[:, POSES:].reshape(2, POSES, len(moves), -1)
        with np.errstate(invalid="ignore"):
            seen: NDArray[np.bool_] = np.any(np.abs(others - room[:, :, None]) > FLAT, (0, 1))
        of_own = np.isin(np.arange(len(moves)), own)
        driven, carried = seen[of_own].any(axis=0), seen[~of_own].any(axis=0)
        unknown = ~driven & ~carried
        free = self.moves & (~of_own).any()
        return np.asarray(driven | unknown), np.asarray(carried | (unknown & free))

    def _asked_of_actions(self) -> NDArray[np.bool_]:
        """Whether each constraint is one of actions, too, as a motor's power is `(K,)`."""
        spec, draws = self._spec, np.random.default_rng(0)
        states = draws.uniform(-1.0, 1.0, (POSES, spec.state_dim))
        resting, full = np.zeros((POSES, spec.action_dim)), np.tile(self._limits, (POSES, 1))
        change = np.abs(self._room(states, full) - self._room(states, resting))
        return np.asarray((change > FLAT).any(axis=0))

    def _asked_of_states(self) -> NDArray[np.bool_]:
        """Whether each constraint is one of states `(K,)`, under full actions."""
        states = np.random.default_rng(0).uniform(-1.0, 1.0, (POSES, self._spec.state_dim))
        room = self._room(states, np.tile(self._limits, (POSES, 1)))
        return np.asarray(np.ptp(room, axis=0) > FLAT)
