"""The safety filter: an action goes to the robot if a way to stop safely remains behind it."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.controller.backup import Array, Backup, Expect, Joints, backups, braking_at
from hucrl_ros.controller.braking import BrakingRule, Checked, Kept, braking_rule
from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.controller.doubts import Doubt, Doubts, led
from hucrl_ros.controller.engines.engine import make_fans
from hucrl_ros.controller.engines.fan import FanEngine
from hucrl_ros.controller.motors import limits_under
from hucrl_ros.controller.rooms import ROUNDING, Room, Rooms
from hucrl_ros.controller.timing import InForce

BLENDS = (0.7, 0.5, 0.3, 0.15, 0.05)
"""Shares of the wanted action that are tried where it isn't safe; the rest is the backup's. Where
little is known only little is safe, and nothing more would be learned from standing still."""
SHORTEST, LONGEST = 5, 60
"""Periods that a backup is followed for."""
SAME = 1e-4
"""[margins] By so much equal rooms differ: a robot that stays where it is isn't further out."""
SENT = 1e-6
"""Share of the limits by which what is sent may differ from what was let through, by rounding."""
ANSWER = 2.0 / 3.0
"""Share of the rate of actions that may be needed to undo a period's doubt. A backup that needs
more comes late each time and swings, further than any fan shows, whose η don't change."""
SLOW = 0.5
"""Share of the limits that braking takes at most of a robot that is held to where it is."""
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
    doubt: Doubt
    """What may be wrong about the model."""
    away: Array | float = 0.0
    """`(P, p)` how far η leads until the action takes effect; 0: it does at once."""
    begins: Array | None = None
    """`(J, p)` where each head of the model believes that it does; None: where the mean does."""


def _always() -> bool:
    return True


class SafetyFilter:
    """Lets an action through if, after it, a backup policy keeps every constraint.

    It must do so along each trajectory of a fan (`engines.fan`): each head of the model, and the
    mean with η against us. Every imagined state has to be a margin inside, or, where the robot
    isn't, no further out; and at the end the robot must be at rest, or so slow that on the way
    to rest it wouldn't get out. Otherwise mixtures of the action and a backup are tried, then
    what physics promises and the mean expects to end well. At last, after what was only believed
    the robot brakes by physics, or, where joints without a motor swing, of which physics promises
    nothing, goes on with its backup, if the mean expects that to end better; otherwise the backup
    of the tick before acts: where that was proved, it is for this state as well, if what the
    robot did since was in the fan (Wabersich & Zeilinger 2018; Koller et al. 2018; Curi et al.
    2022). That needs no time, so it also acts where there is none left to look for something
    better.
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
        self._fans, self._expect = fans, expect
        self._limits, self._rule, self._rate = limits, rule, rate
        self._rooms = Rooms(spec, self.joints, room, limits, rate)
        braking = braking_at(rate)
        self._doubts = Doubts(spec, self.joints, self._rooms, expect, deviate, limits, braking)
        self._swings = len(self.joints.positions) < len(spec.joint_names)
        self._ahead = fans.horizon  # periods that a fan looks ahead
        self._go_on_looking, self._in_time = _always, True
        self.start_episode()

    def start_episode(self) -> None:
        """Forget where the robot began and how it would stop; it is under no action."""
        self._home: Array | None = None
        self._sent = np.zeros_like(self._limits)  # as it was, which may be above limits of now
        self._kept = Kept(ROUNDING)
        self._backup: Backup | None = None
        self._periods_left = 0.0  # of those that it was imagined for
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
        """A state went by unseen: the robot was under its action for longer than was proved."""
        self._sure = False
        if self._rule is not None:
            self._rule.miss()

    def obey(self, action: Array) -> bool:
        """`(q,)` has been sent, whatever was let through; returns whether it is the same."""
        same = np.allclose(action / self._limits, self._sent / self._limits, atol=SENT)
        self._sure = self._sure and same  # What was proved was so without another action.
        self._sent = action.copy()
        if self._rule is not None:
            self._rule.obey(action)
        return same

    def check(
        self,
        state: Array,
        action: Array,
        wary: bool = False,
        measured: Array | None = None,
        coming: Sequence[InForce] = (),
        go_on: Callable[[], bool] = _always,
    ) -> Filtered:
        """What may be sent instead of an action.

        Args:
            state: `(p,)` where it takes effect.
            action: `(q,)` what is wanted.
            wary: The robot does what its model didn't claim.
            measured: `(p,)` where the robot is, from where `state` is predicted; None: there.
            coming: Commands that it is under until then.
            go_on: Whether there is time for another fan; asked before each. The first, for the
                action itself, is made anyway.
        """
        self._go_on_looking, self._in_time = go_on, True
        if self._home is None:
            self._home = state[self.joints.positions].copy()
        promised = self._rule.check(state, action) if self._rule is not None else None
        beta = self.beta * (WARY if wary else 1.0)
        share = self._passed(self._share_of(action))
        doubt = self._doubts.at(state, share, beta, self._ahead)
        asked = Asked(state, share, self._kept.of(doubt.room), doubt)
        if measured is not None and coming:
            away = self._doubts.led_away(measured, coming, doubt.patterns, beta)
            asked = asked._replace(away=away, begins=self._heads_led(measured, coming))
        found = self._find(asked, action, wary, promised, beta)
        self._sent = self._passed(self._share_of(found.action)) * self._limits
        if self._rule is not None:
            self._rule.obey(found.action)
        return found

    def _heads_led(self, measured: Array, coming: Sequence[InForce]) -> Array | None:
        """`(J, p)` where each head believes that the robot gets to under commands that come."""
        if not self._fans.heads:
            return None
        begins = np.repeat(measured[None], self._fans.heads, axis=0)
        return led(self.spec, self._limits, begins, coming, self._fans.follow_heads)

    def _share_of(self, action: Array) -> Array:
        return np.clip(action / self._limits, -1.0, 1.0)

    def _passed(self, share: Array) -> Array:
        """What the guard makes of a share `(q,)`, by how fast an action may change."""
        sent = self._sent / self._limits
        return np.clip(np.clip(share, sent - self._rate, sent + self._rate), -1.0, 1.0)

    def _held(self, backup: Backup, state: Array) -> Array:
        """What a backup does in a state `(q,)`."""
        return self._passed(np.clip(self.joints.shares(backup, state), -1.0, 1.0))

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
        told = self.spec, self.joints, state, self._home, self._expect, self._limits
        known = backups(*told, self._rate)
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
                if not self._has_time():
                    break
                if self._follow(asked, first, backup, 0.0)[0][0] >= 0.0:
                    # What was proved was so without this action: it may lead anywhere from now on.
                    self._remember(backup, sure=False)
                    whose = constraint if promised.overruled else -1
                    return Filtered(promised.action, promised.overruled, whose, False)
        if promised is not None and self._backup is not None and not self._sure:
            if self._swings:
                held = self._brake_or_go_on(asked, promised.brake, known)
                return Filtered(held * self._limits, True, constraint, False)
            # Feedback by what the model believes of motors may ring where that is wrong.
            return Filtered(promised.brake, True, constraint, False)
        if self._backup is not None:
            way = self._periods_left < math.inf and self._backup.stiffness.any()
            if way and not self._sure:  # It was proved from elsewhere.
                self._remember(known[-1], sure=False)
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
        doubt = beta * asked.doubt.deviation[self.joints.velocities]
        keeps_up = bool((known[-1].undoes @ doubt <= ANSWER * self._rate).all())
        sees_end = self._ahead >= 2.0 / self._rate + SHORTEST
        # Two at once take no longer than one. Mostly the action is let through; where the backup
        # by itself doesn't end well, no mixture is asked for.
        for backup in (known[0], *known[:0:-1]):
            if not self._has_time() and backup is not known[0]:
                break
            held = self._held(backup, asked.state)
            first = np.stack([share, held])
            left, whose = self._follow(asked, first, backup, beta)
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
        self._remember(backup, keeps_up)
        if self._has_time():
            first = np.stack([b * share + (1.0 - b) * held for b in BLENDS])
            passes = self._follow(asked, first, backup, beta)[0] >= 0.0
            held = first[np.argmax(passes)] if passes.any() else held
        return held, best[1], constraint

    def _brake_or_go_on(self, asked: Asked, brake: Array, known: list[Backup]) -> Array:
        """To `brake` by physics `(q,)`, or go on with a backup, if the mean expects better of it.

        Physics knows motors alone. Of a pole that falls it expects no push. A model that knows
        nothing expects none either: then, and without time to look, it brakes.
        """
        assert self._backup is not None
        followed, braked = self._backup, self._passed(self._share_of(brake))
        held = self._go_on(asked.state, followed)
        first, most = np.stack([braked, held]), [-math.inf, -math.inf]
        for each in (self._backup, *known):
            if not self._has_time():
                break
            left = self._follow(asked, first, each, 0.0)[0]
            if left[1] > most[1]:
                followed = each
            most = [max(pair) for pair in zip(most, left, strict=True)]
        if most[0] >= 0.0 or most[0] >= most[1]:
            return braked
        self._remember(followed, sure=False)
        return held

    def _has_time(self) -> bool:
        """Whether there is time for another fan; where there was none once, there is none."""
        self._in_time = self._in_time and self._go_on_looking()
        return self._in_time

    def _follow(
        self, asked: Asked, first: Array, backup: Backup, beta: float
    ) -> tuple[Array, NDArray[np.intp]]:
        """Room that is left after each of `first` `(C, q)` and the backup; whose it is `(C,)`."""
        # The mean alone is believed about what comes until the action takes effect, too.
        away = asked.away if beta > 0.0 else 0.0
        fan = self._fans(
            asked.state, first, backup, asked.doubt.patterns, beta, away, asked.begins
        )
        return self._rooms.left(fan, backup, asked.here)

    def _remember(self, backup: Backup, sure: bool = True) -> None:
        self._backup, self._periods_left, self._sure = backup, self._ahead, sure

    def _go_on(self, state: Array, backup: Backup) -> Array:
        """What the backup that was found last does in a state `(q,)`; no newer one was."""
        self._periods_left -= 1
        pull = np.abs(self.joints.shares(backup.pulling, state))
        far = bool((pull > 1.0).any())  # Nobody has looked that far.
        if self._periods_left <= 0 and far and self.spec.command != "effort":
            backup = self._backup = backup._replace(place=state[self.joints.positions])
            self._periods_left = math.inf  # Drives hold it there; doubt moves that place no more.
        effort = self.spec.command == "effort"
        if self._periods_left <= 0 and effort and (far or not backup.stiffness.any()):
            # As was imagined, the robot is at rest now, or could stop from here. Held to a place
            # at speed it would swing about that, as far as doubt lets it.
            backup = backup._replace(stiffness=np.zeros_like(backup.stiffness))
            brake = np.abs(backup.damping @ state[self.joints.velocities])
            if (brake <= SLOW).all():
                backup = backup.staying(state[self.joints.positions], self.spec.period)
                self._periods_left = math.inf
            self._backup = backup
        return self._held(backup, state)


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
