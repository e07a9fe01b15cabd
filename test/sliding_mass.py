"""A mass on a slide as the safety filter sees it, in closed form."""

from typing import NamedTuple

import numpy as np

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.controller.backup import Joints
from hucrl_ros.controller.braking import BrakingRule
from hucrl_ros.controller.engines.fan import Fan
from hucrl_ros.controller.motors import Motors
from hucrl_ros.controller.safety_filter import SafetyFilter


class Slide(NamedTuple):
    """A mass that an effort of -1 to 1 pushes."""

    gain: float = 1.0
    """Speed that the largest effort adds in a period [m/s]."""
    doubt: float = 0.0
    """Σ of its speed after a period [m/s]."""
    slope: float = 0.0
    """Speed that it gains in a period by itself [m/s]."""
    period: float = 0.05

    def step(self, states, shares, eta):
        """One period, of states `(..., 2)`; effort and doubt act in its middle."""
        change = self.gain * shares[..., 0] + self.slope + self.doubt * eta
        speed = states[..., 1] + change
        place = states[..., 0] + self.period * (states[..., 1] + 0.5 * change)
        return np.stack([place, speed], axis=-1)

    @property
    def spec(self):
        return RobotSpec("slide", ("slide",), ("slide",), (1.0,), self.period)

    @property
    def fastest_stop(self):
        """Largest deceleration with all doubt and the slope against it [m/s²]."""
        return (self.gain - self.doubt - abs(self.slope)) / self.period


class Drive(NamedTuple):
    """A mass whose drive takes velocities, or ways to go: actions -1 to 1, of `limit`."""

    command: str
    limit: float = 1.0
    """[m/s or m]"""
    speed: float = 0.5
    """Share of the way to what is commanded that the drive goes in a period."""
    doubt: float = 0.0
    """Σ of the velocity, or of the place, after a period [m/s or m]."""
    period: float = 0.05

    def step(self, states, shares, eta):
        """One period, of states `(..., 2)`."""
        wanted = self.limit * shares[..., 0]
        if self.command == "velocity":
            last = states[..., 1]
            way = self.period * (last + self.speed * (wanted - last) + self.doubt * eta)
        else:
            way = self.speed * wanted + self.doubt * eta
        return np.stack([states[..., 0] + way, way / self.period], axis=-1)

    @property
    def spec(self):
        limit = (self.limit,)
        return RobotSpec("slide", ("slide",), ("slide",), limit, self.period, command=self.command)


class Knocked(NamedTuple):
    """A mass on a slide, and what swings by and knocks against it: a joint without a motor."""

    gain: float = 0.5
    """Speed that the largest effort adds in a period [m/s]."""
    doubt: float = 2.0
    """Σ of its speed after a period [m/s]."""
    knock: float = -1.5
    """Speed that the mass gains in each period in which the swing is between 0 and 1 [m/s]."""
    period: float = 0.05

    def step(self, states, shares, eta):
        """One period, of states `(..., 4)`; the swing goes on as fast as it comes."""
        swing, speed = states[..., 1], states[..., 3]
        there = (swing >= 0.0) & (swing < 1.0)
        change = self.gain * shares[..., 0] + self.knock * there + self.doubt * eta
        last = states[..., 2]
        place = states[..., 0] + self.period * (last + 0.5 * change)
        return np.stack([place, swing + self.period * speed, last + change, speed], axis=-1)

    @property
    def spec(self):
        return RobotSpec("knocked", ("slide", "swing"), ("slide",), (1.0,), self.period)


class SlideFans:
    """Fans of the closed form, and of heads that are slides, too."""

    def __init__(self, slide, horizon, rate=np.inf, others=()):
        self.slide, self.horizon, self.rate, self.others = slide, horizon, rate, others
        self.joints = Joints(slide.spec, ())

    @property
    def heads(self):
        return len(self.others)

    def follow_heads(self, states, shares):
        each = zip(self.others, states, shares, strict=True)
        return np.stack([other.step(state, share, 0.0) for other, state, share in each])

    def __call__(self, state, first, backup, patterns, beta, away, begins=None):
        found = [self._follow(self.slide, state, state + away, first, backup, patterns, beta)]
        if beta > 0.0:
            at = [state] * self.heads if begins is None else begins
            found += [
                self._follow(other, state, start, first, backup, 0.0 * patterns[:1], beta)
                for other, start in zip(self.others, at, strict=True)
            ]
        return Fan(*(np.concatenate(arrays, axis=1) for arrays in zip(*found, strict=True)))

    def _follow(self, slide, state, begins, first, backup, patterns, beta):
        shares = np.repeat(first[:, None], len(patterns), axis=1)
        now = np.broadcast_to(begins, (*shares.shape[:2], len(state)))
        unseen = self.joints.shares(backup, state) - self.joints.shares(backup, begins)
        states, actions = [now], []
        for _ in range(self.horizon):
            shares = np.clip(shares, -1.0, 1.0)
            if actions:
                shares = np.clip(shares, actions[-1] - self.rate, actions[-1] + self.rate)
            actions.append(shares)
            now = slide.step(now, shares, beta * patterns[:, self.joints.velocities[0]])
            states.append(now)
            shares = self.joints.shares(backup, now) + unseen
        return Fan(np.stack(states, axis=2), np.stack(actions, axis=2))


def filter_of(slide, room, beta=1.0, horizon=30, promised=0.0, rate=np.inf, heads=()):
    """A safety filter that believes what is true of a slide.

    `promised`: the share of the largest effort's speed that physics promises; 0: nothing.
    `rate`: the largest change of an effort in a period. `heads`: slides that the model holds
    possible besides this one.
    """

    def expect(states, shares):
        return slide.step(states, shares, 0.0)

    def deviate(states, shares):
        return slide.step(states, shares, 1.0) - expect(states, shares)

    fans = SlideFans(slide, horizon, rate, heads)
    rule = None
    if promised:
        motors = Motors(*[(promised * slide.gain / slide.period,)] * 2)
        told = (slide.spec, room, (1.0,), motors, rate if np.isfinite(rate) else 0.0)
        rule = BrakingRule(*told)
    limits = np.array(slide.spec.effort_limits)
    return SafetyFilter(slide.spec, (), room, fans, expect, deviate, limits, beta, rule, rate)


def wall(low, high, margin):
    """Room between two walls."""

    def room(states, actions):
        place = states[:, :1]
        return np.minimum(high - place, place - low) / margin

    return room
