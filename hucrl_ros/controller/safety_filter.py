"""The safety filter: an action goes to the robot if a way to stop safely remains behind it."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.controller.backup import BRAKING, Array, Backup, Expect, Joints, backups
from hucrl_ros.controller.braking import BrakingRule, Checked, Kept, braking_rule
from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.controller.engines.engine import make_fans
from hucrl_ros.controller.engines.fan import Fan, FanEngine
from hucrl_ros.controller.motors import limits_under
from hucrl_ros.controller.timing import InForce

Room = Callable[[Array, Array], NDArray[np.floating]]
"""States `(N, p)`, actions `(N, q)` [units of the actions] → `(N, K)` room that each constraint
leaves, in its margins: 1 is a margin inside, below 0 is outside."""

INSIDE = 1.0
"""[margins] Room that a proof demands."""
BLENDS = (0.7, 0.5, 0.3, 0.15, 0.05)
"""Shares of the wanted action that are tried where it isn't safe; the rest is the backup's. Where
little is known only little is safe, and nothing more would be learned from standing still."""
PUSHED = 8
"""Constraints against which η pushes: those with the least room."""
ALIKE = 0.8
"""Cosine of the angle from which on two η push to different sides of a constraint."""
FARTHEST = 10.0
"""[rad or m] Further away no side of a constraint is looked for."""
SHORTEST, LONGEST = 5, 60
"""Periods that a backup is followed for."""
STEP, WIDE, FLAT = 1e-2, 1.0, 1e-4
"""Of an entry, for the slopes of the room, and where these tell nothing; a smaller difference
[margins] is rounding."""
ROUNDING = 1e-3
"""[margins] Less than this isn't further out; it is never lost twice, see `Kept`."""
SAME = 1e-4
"""[margins] By so much equal rooms differ: a robot that stays where it is isn't further out."""
SENT = 1e-6
"""Share of the limits by which what is sent may differ from what was let through, by rounding."""
NO_DOUBT = 1e-6
"""Added to deviations, so that noise has a direction where the model has none."""
ANSWER = 0.4
"""Share of the rate of actions that a backup may need for its answer to a period's doubt. One that
needs more comes late each time and swings, further than any fan shows, whose η don't change."""
NOISE = 2.0
"""Deviations of the noise that are held possible, as in a fan."""
POSES = 32
"""In which it is tried what a constraint depends on."""
TO_REST = (0.5, 1.0)
"""Shares of the way from a fan's end to rest, after which it is looked how much room is left."""
WARY = 2.0
"""Factor on β while the robot does what its model didn't claim."""


class Filtered(NamedTuple):
    """What the filter lets through."""

    action: Array
    """`(q,)`, in the unit of the robot's actions."""
    overruled: bool
    """It isn't what was wanted."""
    constraint: int
    """The one that asked for it; −1: none."""
    proved: bool
    """A way to stop safely remains, for all that the model holds possible."""


class Asked(NamedTuple):
    """What a tick asks the filter."""

    state: Array
    """`(p,)`"""
    share: Array
    """`(q,)` the wanted action, in shares of the limits."""
    here: NDArray[np.floating]
    """`(K,)` room that the robot has, see `Kept` [margins]."""
    patterns: Array
    """`(P, m)` η that are held possible."""
    doubt: Array
    """`(m,)` deviation of what the model predicts."""
    away: Array | None = None
    """`(P, p)` how far η leads until the action takes effect; None: it does at once."""


class SafetyFilter:
    """Lets an action through if, after it, a backup policy keeps every constraint.

    It must do so along each trajectory of a fan (`engines.fan`): each head of the model, and the
    mean with η against us. Every imagined state has to be a margin inside, or, where the robot
    isn't, no further out; and at the end the robot must be at rest, or so slow that on the way
    to rest it wouldn't get out. Otherwise mixtures of the action and a backup are tried, then
    what physics promises and the mean expects to end well. At last, after what was only believed
    the robot brakes by physics; otherwise the backup of the tick before acts: where that was
    proved, it is for this state as well, if what the robot did since was in the fan
    (Wabersich & Zeilinger 2018; Koller et al. 2018; Curi et al. 2022).
    """

    def __init__(
        self,
        spec: RobotSpec,
        angles: tuple[int, ...],
        room: Room,
        fans: FanEngine,
        expect: Expect,
        deviate: Expect,
        limits: Array,
        beta: float,
        rule: BrakingRule | None = None,
        rate: float = math.inf,
    ) -> None:
        """Filter for a robot.

        Args:
            spec: The robot.
            angles: Entries that networks see as cosine and sine.
            room: What the constraints leave.
            fans: Imagines, at this `rate`; its shares are of `limits`.
            expect: The model's mean, for the backups; likewise.
            deviate: Deviation of what it predicts, all doubts together; likewise.
            limits: `(q,)` largest actions that the guard lets pass.
            beta: β, deviations of the model that are held possible.
            rule: What physics promises; None: nothing is known of it.
            rate: Largest change of an action that the guard lets pass [limits a period].
        """
        self.spec = spec
        self.joints = Joints(spec, angles)
        self.beta = beta
        self._room, self._fans, self._expect, self._deviate = room, fans, expect, deviate
        self._limits, self._rule, self._rate = limits, rule, rate
        self._stopped = self._stopped_by_actions()
        self._acted = self._asked_of_actions()
        self._ahead = 0  # periods that the last fan looked ahead
        self.start_episode()

    def start_episode(self) -> None:
        """Forget where the robot began and how it would stop; it is under no action."""
        self._home: Array | None = None
        self._sent = np.zeros_like(self._limits)  # as it was, which may be above limits of now
        self._kept = Kept(ROUNDING)
        self._backup: Backup | None = None
        self._periods_left = 0  # of those that it was imagined for
        self._sure = False  # proved, not only believed
        if self._rule is not None:
            self._rule.reset()

    def go_on_from(self, other: "SafetyFilter") -> None:
        """Take over in the middle of an episode: where it began, and how the robot would stop."""
        self._home, self._sent = other._home, other._sent
        if np.array_equal(self._limits, other._limits):  # Of which a backup's efforts are shares.
            self._backup, self._periods_left = other._backup, other._periods_left
            self._sure = other._sure and self._rate >= other._rate
        if self._rule is not None and other._rule is not None:
            self._rule.go_on_from(other._rule)

    def learn_from(self, rule: BrakingRule) -> None:
        """Take over from random efforts, of which a rule alone has known how the robot stops."""
        if self._rule is not None:
            self._rule.go_on_from(rule)

    def miss(self) -> None:
        """A state went by unseen."""
        if self._rule is not None:
            self._rule.miss()

    def obey(self, action: Array) -> None:
        """`(q,)` has been sent, whatever was let through."""
        if not np.allclose(action / self._limits, self._sent / self._limits, atol=SENT):
            self._sure = False  # What was proved was so without this action.
        self._sent = action.copy()
        if self._rule is not None:
            self._rule.obey(action)

    def check(
        self,
        state: Array,
        action: Array,
        wary: bool = False,
        measured: Array | None = None,
        coming: Sequence[InForce] = (),
    ) -> Filtered:
        """What may be sent instead of an action.

        Args:
            state: `(p,)` where it takes effect.
            action: `(q,)` what is wanted.
            wary: The robot does what its model didn't claim.
            measured: `(p,)` where the robot is, from where `state` is predicted; None: there.
            coming: Commands that it is under until then.
        """
        if self._home is None:
            self._home = state[self.joints.positions].copy()
        promised = self._rule.check(state, action) if self._rule is not None else None
        beta = self.beta * (WARY if wary else 1.0)
        share = self._passed(self._share_of(action))
        asked = Asked(state, share, *self._doubts(state, share, beta))
        if measured is not None and coming:
            away = self._led_away(measured, coming, asked.patterns, beta)
            asked = asked._replace(away=away)
        found = self._find(asked, action, wary, promised, beta)
        self._sent = self._passed(self._share_of(found.action)) * self._limits
        if self._rule is not None:
            self._rule.obey(found.action)
        return found

    def _share_of(self, action: Array) -> Array:
        return np.clip(action / self._limits, -1.0, 1.0)

    def _passed(self, share: Array) -> Array:
        """What the guard makes of a share `(q,)`, by how fast an action may change."""
        sent = self._sent / self._limits
        return np.clip(np.clip(share, sent - self._rate, sent + self._rate), -1.0, 1.0)

    def _held(self, backup: Backup, state: Array) -> Array:
        """What a backup does in a state `(q,)`."""
        return self._passed(np.clip(self.joints.shares(backup, state), -1.0, 1.0))

    def _led_away(
        self, measured: Array, coming: Sequence[InForce], patterns: Array, beta: float
    ) -> Array:
        """`(P, p)` how far η lead from what the mean expects, under what is `coming`."""
        signs = np.concatenate([np.zeros_like(patterns[:1]), patterns])
        now, moving = np.repeat(measured[None], len(signs), axis=0), self.spec.predicted_dim
        for command, share in coming:
            shares = self.spec.to_action(command, now) / self._limits
            shares = np.broadcast_to(shares, (len(now), len(self._limits)))
            doubt = max(beta, NOISE) * self._deviate(now, shares)
            following = self._expect(now, shares) + signs * doubt
            now[:, :moving] += share * (following - now[:, :moving])
        away: Array = now[1:] - now[0]
        return away

    def _find(
        self, asked: Asked, action: Array, wary: bool, promised: Checked | None, beta: float
    ) -> Filtered:
        """`promised`: after what action the robot could still stop in time, by physics."""
        assert self._home is not None
        state, share = asked.state, asked.share
        if wary and promised is not None and promised.overruled:
            # What the model proves of this robot isn't true, and half of what physics promises is.
            self._sure = False
            return Filtered(promised.action, True, promised.constraint, False)
        known = backups(self.spec, self.joints, state, self._home, self._expect)
        passed, best, constraint = self._prove(asked, known, beta)
        if passed is share:
            return Filtered(action, False, -1, self._sure)
        if passed is not None:
            return Filtered(passed * self._limits, True, constraint, self._sure)
        # Where there are no data, all is held possible. What physics promises and the mean expects
        # is let through there: of a robot that stands still nobody learns.
        if promised is not None and not wary and (not promised.overruled or promised.one_brakes):
            first = self._passed(self._share_of(promised.action))[None]
            for backup in known[::-1]:
                if self._follow(asked, first, backup, 0.0)[0][0] >= 0.0:
                    # What was proved was so without this action: it may lead anywhere from now on.
                    self._remember(backup, sure=False)
                    whose = constraint if promised.overruled else -1
                    return Filtered(promised.action, promised.overruled, whose, False)
        if promised is not None and self._backup is not None and not self._sure:
            # Feedback by what the model believes of motors may ring where that is wrong.
            return Filtered(promised.brake, True, constraint, False)
        if self._backup is not None:
            held = self._go_on(state, self._backup)
        elif promised is not None and promised.overruled:
            return Filtered(promised.action, True, promised.constraint, False)
        else:
            held = best
        return Filtered(held * self._limits, True, constraint, False)

    def _prove(
        self, asked: Asked, known: list[Backup], beta: float
    ) -> tuple[Array | None, Array, int]:
        """The action or what is nearest to it that is proved, in shares of the limits.

        Where doubt changes faster than actions may (see `ANSWER`), it is believed, not proved.
        Nothing is where actions take longer from one limit to the other than a fan looks ahead.

        Returns:
            It, which is `asked.share` itself where that is proved, None where nothing is; that
            of the backups that leaves most room, `(q,)`; and the constraint that the action would
            break.
        """
        share, best, constraint = asked.share, (-math.inf, np.zeros_like(asked.share)), -1
        ending_well: list[tuple[Backup, Array]] = []
        doubt = beta * asked.doubt[self.joints.velocities]
        keeps_up = bool((np.abs(known[-1].damping) @ doubt <= ANSWER * self._rate).all())
        # Two at once take no longer than one. Mostly the action is let through; where the backup
        # by itself doesn't end well, no mixture is asked for.
        for backup in (known[0], *known[:0:-1]):
            held = self._held(backup, asked.state)
            first = np.stack([share, held])
            left, whose = self._follow(asked, first, backup, beta)
            sees_end = self._ahead >= 2.0 / self._rate + SHORTEST
            if left[0] >= 0.0 and sees_end:
                self._remember(backup, keeps_up)
                return share, share, -1
            constraint = int(whose[0]) if constraint < 0 else constraint
            if left[1] >= -SAME and sees_end:
                ending_well.append((backup, held))
            # Of equals, and where nothing is finite, the later: the last one brakes at once.
            best = max((float(left[1]), held), best, key=lambda pair: pair[0])
        if not ending_well:
            return None, best[1], constraint
        backup, held = ending_well[-1]  # rather the one that brakes at once
        first = np.stack([b * share + (1.0 - b) * held for b in BLENDS])
        passes = self._follow(asked, first, backup, beta)[0] >= 0.0
        self._remember(backup, keeps_up)
        return first[np.argmax(passes)] if passes.any() else held, best[1], constraint

    def _follow(
        self, asked: Asked, first: Array, backup: Backup, beta: float
    ) -> tuple[Array, NDArray[np.intp]]:
        """Room that is left after each of `first` `(C, q)` and the backup; whose it is `(C,)`."""
        told = (asked.state, first, backup, asked.patterns, beta)
        # The mean alone is believed about what comes until then, too.
        away = asked.away if beta > 0.0 else None
        fan = self._fans(*told) if away is None else self._fans(*told, away)
        self._ahead = fan.actions.shape[2]
        return self._left(fan, backup, asked.here)

    def _remember(self, backup: Backup, sure: bool = True) -> None:
        self._backup, self._periods_left, self._sure = backup, self._ahead, sure

    def _go_on(self, state: Array, backup: Backup) -> Array:
        """What the backup that was found last does in a state `(q,)`; no newer one was."""
        self._periods_left -= 1
        pull = np.abs(self.joints.shares(backup.pulling, state))
        far = bool((pull > 1.0).any())  # Nobody has looked that far.
        if self._periods_left == 0 and backup.brakes and (far or not backup.stiffness.any()):
            # As was imagined, the robot is at rest now, or could stop from here.
            place = state[self.joints.positions]
            self._backup = backup = backup.staying(place, self.spec.period)
        return self._held(backup, state)

    def _doubts(
        self, state: Array, share: Array, beta: float
    ) -> tuple[NDArray[np.floating], Array, Array]:
        """Room at a state `(K,)`; η `(P, m)`, towards each constraint and away from it; doubt.

        Each is the worst of its length: of the doubts of several joints not all are at their
        worst at once. What pushes a position pushes its speed, too.
        """
        moving, joints = self.spec.predicted_dim, len(self.spec.joint_names)
        doubt = self._deviate(state[None], share[None])[0]
        places = self._within_reach(state, beta * doubt)
        steps = np.concatenate([np.zeros((1, len(state))), STEP * np.eye(moving, len(state))])
        states = (places[:, None] + steps).reshape(-1, len(state))
        room, asked = self._asked(states)
        asked = asked.reshape(len(places), len(steps), -1)
        slopes = _steeper(asked[:, 1:] - asked[:, :1]).transpose(0, 2, 1)
        flat = ~slopes[0].any(axis=-1)
        if flat.any():  # A margin may be thousands of a small step, as a rotor's largest speed is.
            wide = self._asked(state + WIDE * np.eye(moving, len(state)))[1]
            slopes[0] = np.where(flat[:, None], _steeper(wide - asked[0, 0]).T, slopes[0])
        positions, speeds = slopes[..., :joints], slopes[..., joints : 2 * joints]
        speeds[speeds == 0.0] = positions[speeds == 0.0]
        worst = slopes * (doubt + NO_DOUBT)
        for entries in np.split(worst, [joints, 2 * joints], axis=-1):
            lengths = np.linalg.norm(entries, axis=-1, keepdims=True)
            entries /= np.where(lengths > 0.0, lengths, 1.0)
        nearest = np.argsort(asked[0, 0])[:PUSHED]
        against = np.stack([*worst[0, nearest], *_other_sides(worst, asked[:, 0], nearest)])
        patterns = np.unique(np.concatenate([against, -against]), axis=0)
        return self._kept.of(room[0]), patterns, doubt

    def _asked(self, states: Array) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Room of states `(N, p)` under no action `(N, K)`; under all where it depends on it."""
        actions = np.zeros((len(states), self.spec.action_dim))
        room = asked = self._room(states, actions)
        if self._acted.any():  # Under no action none of them falls, whatever the speed.
            asked = np.where(self._acted, self._room(states, actions + self._limits), room)
        return room, asked

    def _within_reach(self, state: Array, doubt: Array) -> Array:
        """The state, and how far joints may get, each by itself, `(2q + 1, p)`; one is alone."""
        where, how_fast = self.joints.positions, self.joints.velocities
        if len(where) == 1:  # Whatever side is near, it is pushed to, and to the other one.
            return state[None]
        slow = doubt[where] + self.spec.period * doubt[how_fast] / BRAKING
        way = max(self._ahead, SHORTEST) * (slow + self.spec.period * abs(state[how_fast]))
        steps = np.zeros((len(where), len(state)))
        steps[np.arange(len(where)), where] = np.minimum(way, FARTHEST)
        places: Array = state + np.concatenate([np.zeros((1, len(state))), steps, -steps])
        return places

    def _stopped_by_actions(self) -> NDArray[np.bool_]:
        """Whether each constraint is one of actuated joints alone `(K,)`, and of what stays."""
        spec, draws = self.spec, np.random.default_rng(0)
        free = np.setdiff1d(
            np.arange(spec.predicted_dim), [*self.joints.positions, *self.joints.velocities]
        )
        states = draws.uniform(-1.0, 1.0, (POSES, spec.state_dim))
        if not len(free):  # A graph needs at least one state.
            return np.ones(self._room(states, np.zeros((POSES, spec.action_dim))).shape[1], bool)
        moved = np.repeat(states, len(free), axis=0)
        for row, entry in enumerate(free):
            moved[row :: len(free), entry] += 1.0
        actions = np.zeros((len(moved), spec.action_dim))
        before = np.repeat(self._room(states, actions[:POSES]), len(free), axis=0)
        change = np.abs(self._room(moved, actions) - before)
        return np.asarray((change <= FLAT).all(axis=0))

    def _asked_of_actions(self) -> NDArray[np.bool_]:
        """Whether each constraint is one of actions, too, as a motor's power is `(K,)`."""
        spec, draws = self.spec, np.random.default_rng(0)
        states = draws.uniform(-1.0, 1.0, (POSES, spec.state_dim))
        resting, full = np.zeros((POSES, spec.action_dim)), np.tile(self._limits, (POSES, 1))
        change = np.abs(self._room(states, full) - self._room(states, resting))
        return np.asarray((change > FLAT).any(axis=0))

    def _left(
        self, fan: Fan, backup: Backup, here: NDArray[np.floating]
    ) -> tuple[Array, NDArray[np.intp]]:
        """Least room beyond what is demanded `(C,)` [margins], and whose it is `(C,)`."""
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
        last, before = room[:, :, -1], room[:, :, -2]
        ends = fan.states[:, :, -1].astype(np.float64)
        speeds = ends[..., self.joints.velocities]
        periods = backup.periods_to_rest(speeds)
        periods = np.where(np.isfinite(periods), periods, horizon)
        wanted = np.clip(self.joints.shares(backup, ends), -1.0, 1.0)
        behind = np.abs(wanted - fan.actions[:, :, -1]).max(axis=-1) > self._rate
        # Where actions are still on their way to what the backup wants, and of what doesn't come
        # to rest by actions, in the same time again it must be in.
        periods = np.where(behind, horizon, periods)
        with np.errstate(invalid="ignore"):
            rest = last + np.minimum(last - before, 0.0) * np.where(
                self._stopped, periods[..., None], horizon
            )
            rest = np.minimum(rest, self._room_to_rest(fan, periods)) - np.minimum(here, 0.0)
        rest = np.where(np.isfinite(rest), rest, -np.inf) + ROUNDING
        worst = np.minimum(beyond.min(axis=(1, 2)), rest.min(axis=1))
        return worst.min(axis=1), worst.argmin(axis=1)

    def _room_to_rest(self, fan: Fan, periods: Array) -> NDArray[np.floating]:
        """Least room `(C, L, K)` if all goes on for `periods` `(C, L)` as in a fan's last one.

        What has most room in the middle, as between two walls or in a box, doesn't fall before
        the middle is passed, so how fast it falls tells nothing of the wall that comes.
        """
        count, lanes, horizon, actions = fan.actions.shape
        joints, ends = len(self.spec.joint_names), fan.states[:, :, -1].astype(np.float64)
        way = ends - fan.states[:, :, -2]
        way[..., joints : 2 * joints] = 0.0  # Who brakes gets no faster.
        efforts = (fan.actions[:, :, -1] * self._limits).reshape(-1, actions)
        least: NDArray[np.floating] = np.full((count, lanes, len(self._stopped)), np.inf)
        for whose, lasting in (
            (self._stopped, periods),
            (~self._stopped, np.full_like(periods, horizon)),
        ):
            for share in TO_REST if whose.any() else ():
                there = ends + share * lasting[..., None] * way
                room = self._room(there.reshape(count * lanes, -1), efforts)
                room = room.reshape(count, lanes, -1)
                least = np.where(whose, np.minimum(least, room), least)
        return least


def _steeper(change: NDArray[np.floating]) -> NDArray[np.floating]:
    """Changes of room that are no rounding."""
    return np.where(abs(change) > FLAT, change, 0.0)


def _other_sides(
    worst: Array, room: NDArray[np.floating], nearest: NDArray[np.intp]
) -> list[Array]:
    """η against sides of constraints that aren't the nearest ones yet, as a box has them.

    Args:
        worst: `(B, K, m)` η at the state, then at places within reach.
        room: `(B, K)` there [margins].
        nearest: Constraints to look at.
    """
    found: list[Array] = []
    for whose in nearest:
        known = [worst[0, whose]]
        for place in np.argsort(room[1:, whose]) + 1:
            if not room[place, whose] < INSIDE or len(found) == PUSHED:
                break
            side = worst[place, whose]
            lengths = [np.linalg.norm(side) * np.linalg.norm(other) for other in known]
            alike = zip(known, lengths, strict=True)
            if all(abs(side @ other) <= ALIKE * length for other, length in alike):
                known.append(side)
                found.append(side)
    return found


def make_safety_filter(
    bundle: Bundle, safety: SafetySettings, compiled: bool
) -> SafetyFilter | None:
    """The filter of a learned bundle; None where nothing constrains it, or it is off.

    Args:
        bundle: Has the model and the constraints.
        safety: What is in force.
        compiled: Whether the planning kernel may imagine.
    """
    manifest = bundle.manifest
    if not manifest.constraints or manifest.random or not safety.filter:
        return None
    spec = manifest.spec
    # A backup may do no more than the guard lets pass.
    limits = np.array(limits_under(spec, safety))
    rate = safety.effort_rate or math.inf
    # An action takes 2/rate periods from one limit to the other, before a backup can begin.
    asked = max(safety.backup_time / spec.period, SHORTEST) + 2.0 / rate
    periods = math.ceil(min(asked, LONGEST))

    def room(states: Array, actions: Array) -> NDArray[np.floating]:
        inputs = {"state": states.astype(np.float32), "action": actions.astype(np.float32)}
        return bundle.run("constraints", **inputs)[0]

    def predict(states: Array, shares: Array) -> list[Array]:
        inputs = {"state": states.astype(np.float32)}
        actions = (shares * limits).astype(np.float32)
        return [a.astype(np.float64) for a in bundle.run("dynamics", **inputs, action=actions)]

    def expect(states: Array, shares: Array) -> Array:
        return predict(states, shares)[0]

    def deviate(states: Array, shares: Array) -> Array:
        _, epistemic, aleatoric = predict(states, shares)
        return epistemic + aleatoric

    fans = make_fans(bundle, periods, Joints(spec, manifest.angles), limits, compiled, rate)
    rule = braking_rule(bundle, safety)
    beta = safety.filter_beta
    return SafetyFilter(
        spec, manifest.angles, room, fans, expect, deviate, limits, beta, rule, rate
    )
