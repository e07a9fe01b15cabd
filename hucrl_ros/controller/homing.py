"""The slow motion to the start of an episode: `driver.reset: home`, without ROS."""

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import Config, HomeSettings
from hucrl_ros.controller.state_reader import velocity_age

Array = NDArray[np.float64]
TOLERANCE = 0.05
"""[rad or m] How far from the start a joint may be where `start` allows no more, and by how much
it may move within `SETTLE_S`."""
SETTLE_S = 1.0
"""[s] For all joints to be at the start before the motors let go, and again after that."""
RAMP_S = 0.5
"""[s] In which a joint reaches the largest speed."""
LEAD = 0.2
"""[rad or m] By which the place that a joint is led to may be ahead of it."""
BLOCKED_S = 5.0
"""[s] In which a joint that isn't there yet has to come nearer."""
INNER = 0.5
"""Share of what is allowed within which joints have to be before the motors let go."""
RETURNS = 3
"""Times that a robot may leave the start when its motors let go."""
STRAY = 0.5
"""[rad or m] By which a joint may get further away than where it was slow: beyond, efforts act
late, or the other way round."""
TOO_FAST = 3.0
"""Times `home.speed` at which a joint that was slow is let go: efforts act the other way round, or
somebody held it and let go."""
PACE_S = 0.1
"""[s] Over which speeds are taken from positions."""
STIFFEST = 8.0
"""[rad/s] Largest bandwidth of the position control."""
DELAY_SHARE = 0.2
"""[rad] Phase that all delays may cost at that bandwidth."""
INTEGRAL = 0.1
"""Of the integral gain, in units of the bandwidth's cube: against friction and weight."""
FOLLOWING = 2.0
"""[1/s] Velocity for a deviation of 1, of robots that take velocities."""
LONGEST_STEP = 5.0
"""[control periods] More between two joint states isn't made up for."""


class HomePlan(NamedTuple):
    """Where the robot is to go, and what moves there; n joints, q of them actuated."""

    targets: Array
    """`(n,)` [rad or m]"""
    tolerances: Array
    """`(n,)` how far from there the start may be [rad or m]."""
    turns: NDArray[np.bool_]
    """`(n,)` whether whole turns don't count."""
    inertias: Array
    """`(q,)` command for an acceleration of 1, the other joints free [kg m² or kg]."""


class HomeMotion:
    """Leads the actuated joints to the start, and looks whether all joints stay there.

    Each is led along a straight way with bounded speed and acceleration, by PID control where the
    robot takes efforts. At the start the motors let go (no effort, no velocity, or the place is
    held), as they will before the episode, and the robot has to stay there.
    """

    def __init__(self, spec: RobotSpec, plan: HomePlan, config: Config) -> None:
        """Prepare; the first `act` begins.

        Args:
            spec: The robot.
            plan: Where to.
            config: `home`, and what tells how late measurements and commands are.
        """
        self._spec, self._plan = spec, plan
        self._settings: HomeSettings = config.home
        self._motors = [spec.joint_names.index(name) for name in spec.actuated_joints]
        self._joints = len(spec.joint_names)
        age = velocity_age(config.driver, spec.period)
        delay = 1.5 * spec.period + config.control.extra_delay + age
        self._bandwidth = min(STIFFEST, DELAY_SHARE / delay)
        self._most = config.home.effort * np.asarray(spec.effort_limits)
        self._place: Array | None = None
        self._speed, self._integral = np.zeros((2, spec.action_dim))
        self._begin = self._last = 0.0
        self._seen: deque[tuple[float, Array]] = deque()
        self._nearest: Array = np.full(spec.action_dim, np.inf)
        self._nearer: Array = np.zeros(spec.action_dim)
        self._furthest: Array = np.full(spec.action_dim, np.inf)
        self._calm: NDArray[np.bool_] = np.zeros(spec.action_dim, bool)
        self._free, self._left = False, 0
        self.done = False
        """The robot is at the start and stays there."""
        self.problem = ""
        """Why it won't be, in one line; empty as long as it may."""

    def act(self, state: Array, now: float) -> Array:
        """The action `(q,)` at time `now` [s] in a state `(p,)`; look at `done` and `problem`."""
        positions, speeds = state[: self._joints], state[self._joints : 2 * self._joints]
        if self._place is None:
            self._place = positions[self._motors].copy()
            self._begin = self._last = now
        step = min(now - self._last, LONGEST_STEP * self._spec.period)
        self._last = now
        away = self._away(positions)
        self._look(away, now)
        self._judge(away, speeds[self._motors], now)
        if self._free and self._spec.command != "position":
            return np.zeros(self._spec.action_dim)
        self._lead(positions[self._motors], away[self._motors], step)
        return self._follow(positions[self._motors], speeds[self._motors], step)

    def _away(self, positions: Array) -> Array:
        """`(n,)` from the start to the joints, the short way round [rad or m]."""
        away = positions - self._plan.targets
        return self._short(away)

    def _short(self, ways: Array) -> Array:
        """Ways `(n,)`, the short way round where whole turns don't count."""
        return np.where(self._plan.turns, np.remainder(ways + np.pi, 2 * np.pi) - np.pi, ways)

    def _pace(self) -> Array:
        """`(q,)` how fast the actuated joints have moved of late; NaN where nobody knows yet."""
        now, newest = self._seen[-1] if self._seen else (0.0, np.zeros(self._joints))
        for then, before in reversed(self._seen):
            if now - then >= PACE_S:
                return np.abs(self._short(newest - before))[self._motors] / (now - then)
        return np.full(len(self._motors), np.nan)

    def _look(self, away: Array, now: float) -> None:
        """Judge how far the motion is."""
        plan, seen = self._plan, self._seen
        seen.append((now, away))
        while len(seen) > 1 and seen[1][0] <= now - SETTLE_S:
            seen.popleft()
        recent = np.stack([each for _, each in seen])
        share = 1.0 if self._free else INNER
        there = bool((np.abs(recent) <= share * plan.tolerances).all())
        still = bool((np.ptp(recent, axis=0) <= share * TOLERANCE).all())
        settled = there and still and now - seen[0][0] >= SETTLE_S
        if self._free and not (np.abs(away) <= plan.tolerances).all():
            self._free, self._left = False, self._left + 1
        elif settled and self._free:
            self.done = True
        elif settled:
            self._free = True
            seen.clear()

    def _judge(self, away: Array, speeds: Array, now: float) -> None:
        """Say why it won't get there."""
        plan, motors = self._plan, self._motors
        distance = np.abs(away[motors])
        allowed = INNER * plan.tolerances[motors]
        nearer = (distance < self._nearest - INNER * allowed) | (distance <= allowed)
        self._nearest = np.where(nearer, distance, self._nearest)
        self._nearer = np.where(nearer, now, self._nearer)
        slow = (np.abs(speeds) <= self._settings.speed) & np.isinf(self._furthest)
        self._furthest = np.where(slow, distance + STRAY, self._furthest)
        worst = int(np.argmax(np.abs(away) / plan.tolerances))
        pace, most = self._pace(), self._settings.speed
        self._calm = (self._calm | (pace <= most)) & (not self._free)
        if self.done:
            return
        if (fast := self._calm & (pace > TOO_FAST * most)).any():
            motor = int(fast.argmax())
            self.problem = (
                f"{self._told(motors[motor], away)}, and moves at {pace[motor]:.2g}, more than "
                f"{TOO_FAST:g} times home.speed = {most:g} [rad/s or m/s]"
            )
            return
        if (strays := distance > self._furthest).any():
            self.problem = f"{self._told(motors[int(strays.argmax())], away)}, and moves away"
        elif (now - self._nearer > BLOCKED_S).any():
            motor = motors[int(np.argmin(self._nearer))]
            self.problem = f"{self._told(motor, away)}, and comes no nearer"
        elif self._left > RETURNS:
            self.problem = f"{self._told(worst, away)}: it leaves the start when motors let go"
        elif now - self._begin > self._settings.time:
            restless = abs(away[worst]) <= INNER * plan.tolerances[worst]
            what = ", and not at rest" if restless else ""
            self.problem = f"{self._told(worst, away)}{what} after {self._settings.time:g} s"

    def _told(self, joint: int, away: Array) -> str:
        return (
            f"joint {self._spec.joint_names[joint]!r} is {abs(away[joint]):.3g} from the start "
            f"({INNER * self._plan.tolerances[joint]:.3g} are allowed) [rad or m]"
        )

    def _lead(self, positions: Array, away: Array, step: float) -> None:
        """Move the places that the joints are led to by a step of time [s]."""
        assert self._place is not None
        most = self._settings.speed
        growth = most / RAMP_S
        way = positions - away - self._place  # from there to the start
        # As fast as it can still be slowed down before the start.
        wished = np.sign(way) * np.minimum(most, np.sqrt(2 * growth * np.abs(way)))
        self._speed = np.clip(wished, self._speed - growth * step, self._speed + growth * step)
        moved = np.where(np.abs(way) <= np.abs(self._speed) * step, way, self._speed * step)
        lead = LEAD
        if self._spec.command == "effort":  # Let go, a joint moves twice as fast for it at most.
            lead = min(LEAD, 2.0 * most / self._bandwidth)
        self._place = np.clip(self._place + moved, positions - lead, positions + lead)

    def _follow(self, positions: Array, speeds: Array, step: float) -> Array:
        """The action that brings the joints there."""
        assert self._place is not None
        off = self._place - positions
        if self._spec.command == "position":
            return np.asarray(off)
        if self._spec.command == "velocity":
            most = self._settings.speed
            return np.clip(self._speed + FOLLOWING * off, -most, most)
        fast, inertia = self._bandwidth, self._plan.inertias
        grown = self._integral + INTEGRAL * fast**3 * inertia * off * step
        self._integral = np.clip(grown, -self._most, self._most)
        effort = inertia * (fast**2 * off + 2 * fast * (self._speed - speeds)) + self._integral
        return np.clip(effort, -self._most, self._most)
