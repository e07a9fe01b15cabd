"""From joint states, object poses and goals to the robot's state, or to one line why not."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import AXES, VELOCITY, RobotSpec, sources
from hucrl_ros.config.schema import DriverSettings
from hucrl_ros.controller.pace import OVERTAKEN
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.controller.topics import GOAL, JOINT_STATES, OBJECT_POSE
from hucrl_ros.controller.velocity import VelocityEstimator
from hucrl_ros.errors import StateError, shortened

MOST_JOINTS = 1000
"""In a joint state: looking for those of the task among more takes too long."""


class JointReading(NamedTuple):
    """A joint state message."""

    names: Sequence[str]
    """Joints, in the message's order."""
    positions: Sequence[float]
    """One for each name [rad or m]."""
    velocities: Sequence[float]
    """One for each name [rad/s or m/s]."""
    stamp_ns: int
    """The message's stamp [ns]."""


class JointStateReader:
    """Finds the robot's joints in joint state messages by name.

    Robots publish all their joints, in any order, so joints that the task doesn't know are
    ignored; a joint that it needs and can't find is an error.
    """

    def __init__(
        self,
        joint_names: Sequence[str],
        further: Sequence[str] = (),
        estimator: VelocityEstimator | None = None,
    ) -> None:
        """Read positions and velocities of `joint_names`, and velocities of `further` joints.

        With an estimator velocities come from it, whatever the messages say of them.
        """
        self.joint_names = tuple(joint_names)
        self._estimator = estimator
        self._moving = (*self.joint_names, *further)
        self.extra_joints: tuple[str, ...] = ()
        """Joints of the last message that the task doesn't know."""
        self._names: tuple[str, ...] | None = None
        self._order: tuple[int, ...] = ()
        self._newest_ns: int | None = None

    @property
    def derives(self) -> bool:
        """Whether velocities come from positions."""
        return self._estimator is not None

    @property
    def fresh(self) -> bool:
        """Whether nothing was read since `reset`."""
        return self._newest_ns is None

    def reset(self) -> None:
        """Forget the newest stamp: the clock may start again."""
        self._newest_ns = None
        if self._estimator is not None:
            self._estimator.reset()

    def see(self, reading: JointReading) -> None:
        """Take in one of the joint states between two that are read, where that tells anything."""
        if self._estimator is None:
            return
        with suppress(StateError):  # whoever reads such a one says so
            self._observe(self._estimator, reading)

    def is_repetition(self, stamp_ns: int) -> bool:
        """Whether the newest message carried the same stamp [ns]."""
        return stamp_ns == self._newest_ns

    def read(self, reading: JointReading) -> NDArray[np.float64]:
        """Positions [rad or m], then velocities, then those of further joints [rad/s or m/s].

        Raises:
            StateError: a joint is missing or appears twice, the sizes don't match, a number
                is not finite, or time runs backwards.
        """
        names, positions, velocities, stamp_ns = reading
        newest, self._newest_ns = self._newest_ns, stamp_ns
        if newest is not None and stamp_ns < newest:
            _refuse(
                JOINT_STATES,
                f"stamp {_seconds(stamp_ns, 9)} after {_seconds(newest, 9)}: time runs "
                "backwards; stamps must increase",
            )
        if self._estimator is not None:
            places = self._observe(self._estimator, reading)[: len(self.joint_names)]
            speeds = self._estimator.at(stamp_ns).tolist()
        else:
            places = self._values("position", names, positions, self.joint_names)
            speeds = self._values("velocity", names, velocities, self._moving)
        return np.array([*places, *speeds], dtype=np.float64)

    def _observe(self, estimator: VelocityEstimator, reading: JointReading) -> list[float]:
        """Give all positions to the estimator; returns them."""
        places = self._values("position", reading.names, reading.positions, self._moving)
        estimator.add(reading.stamp_ns, np.array(places))
        return places

    def _values(
        self, what: str, names: Sequence[str], values: Sequence[float], joints: tuple[str, ...]
    ) -> list[float]:
        """Positions or velocities of `joints`, the first ones of the task's, in their order."""
        if len(values) != len(names):
            plural = {"position": "positions", "velocity": "velocities"}[what]
            hint = "; where the robot measures none: driver.velocity = derived"
            _refuse(
                JOINT_STATES,
                f"{len(values)} {plural} for {len(names)} joints; expected one for each"
                f"{hint if what == 'velocity' and not len(values) else ''}",
            )
        if tuple(names) != self._names:
            self._learn_order(tuple(names))
        found = [values[i] for i in self._order[: len(joints)]]
        for joint, value in zip(joints, found, strict=True):
            if not math.isfinite(value):
                _refuse(
                    JOINT_STATES, f"{what} of joint {joint!r} is {value}; expected a finite number"
                )
        return found

    def _learn_order(self, names: tuple[str, ...]) -> None:
        """Where each joint of the task stands in the message; kept until the names change."""
        if len(names) > MOST_JOINTS:
            _refuse(JOINT_STATES, f"{len(names)} joints; at most {MOST_JOINTS} are read")
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            _refuse(
                JOINT_STATES,
                f"joint {shortened(twice)!r} appears {names.count(twice)} times; expected once",
            )
        missing = [name for name in self._moving if name not in names]
        if missing:
            _refuse(
                JOINT_STATES,
                f"no joint {missing[0]!r} among {shortened(list(names), 500)}; "
                f"the task needs {', '.join(self._moving)}",
            )
        self._order = tuple(names.index(name) for name in self._moving)
        self.extra_joints = tuple(name for name in names if name not in self._moving)
        self._names = names


FRAME = "world"
"""Frame of all poses: nobody transforms them."""
KEPT = 1000
"""Poses of a body that are remembered: a joint state may come after those that follow its own, and
two of a fast camera's tell how fast it moves over a control period."""
SPEED_PERIODS = (0.9, 8.0)
"""Two poses tell a velocity if so many control periods lie between them: fewer would make much
of a camera's noise, more may hold a reset. Without such poses an object is taken to be at rest."""


class Pose(NamedTuple):
    """Where a body is, from when on."""

    stamp_ns: int
    """Simulated or real time, by the clock of the joint states [ns]."""
    frame: str
    """Frame of the coordinates."""
    position: Sequence[float]
    """`(3,)` [m]"""


class PoseHistory:
    """Where a body has been, in the order of the stamps."""

    def __init__(self, kept: int | None) -> None:
        """Remember the newest `kept` places; None: all."""
        self._kept = kept
        self._places: list[Pose] = []
        self.period = 0.0
        """[s] Control period, by which overtaken places are told from a clock that has started
        again; 0: none is overtaken."""

    @property
    def newest_ns(self) -> int | None:
        """Newest stamp [ns]."""
        return self._places[-1].stamp_ns if self._places else None

    def add(self, place: Pose) -> None:
        """Take in what was heard; it replaces what has the same stamp."""
        newest = self._places[-1].stamp_ns if self._places else place.stamp_ns
        if newest - place.stamp_ns >= OVERTAKEN * self.period * NANOSECONDS:
            # The clock has started again: later ones are of before.
            while self._places and self._places[-1].stamp_ns >= place.stamp_ns:
                self._places.pop()
        after = bisect_left(self._places, place.stamp_ns, key=lambda each: each.stamp_ns)
        same = after < len(self._places) and self._places[after].stamp_ns == place.stamp_ns
        self._places[after : after + same] = [place]
        if self._kept is not None:
            del self._places[: -self._kept]

    def at(self, stamp_ns: int) -> Pose | None:
        """The newest place that isn't newer than `stamp_ns` [ns]."""
        after = bisect_right(self._places, stamp_ns, key=lambda place: place.stamp_ns)
        return self._places[after - 1] if after else None


class PoseBuffer:
    """What was heard of the object and of the goal."""

    def __init__(self, kept: int | None = KEPT) -> None:
        """Remember the newest `kept` poses of each; None: all."""
        self.object, self.goal = PoseHistory(kept), PoseHistory(kept)


def velocity_estimator(driver: DriverSettings | None, period: float) -> VelocityEstimator | None:
    """What tells velocities at a control period [s]; None: joint states do."""
    if driver is None or driver.velocity == "measured":
        return None
    return VelocityEstimator(driver.velocity_window or period)


def velocity_age(driver: DriverSettings | None, period: float) -> float:
    """How long ago the velocities in a state were so, where they are derived [s]."""
    if driver is None or driver.velocity == "measured":
        return 0.0
    return (driver.velocity_window or period) / 2


def derived_entries(spec: RobotSpec) -> list[int]:
    """Entries of the state whose values a `VelocityEstimator` tells."""
    joints, moving = len(spec.joint_names), sources(spec).further
    further = [spec.observed.index(f"{joint}{VELOCITY}") for joint in moving]
    return [*range(joints, 2 * joints), *(2 * joints + index for index in further)]


class StateReader:
    """Puts a state together, whatever the order in which its parts have come.

    The context of a state is the newest goal that isn't newer than its joint state, so a goal
    may change at any time. An object is where the newest pose that isn't newer says; how fast it
    moves, that pose and the newest one that is a control period older say.
    """

    def __init__(
        self,
        spec: RobotSpec,
        poses: PoseBuffer | None = None,
        pose_periods: float = 0.0,
        driver: DriverSettings | None = None,
    ) -> None:
        """Read states of a robot.

        Args:
            spec: The robot.
            poses: Holds what was heard; None: nothing is needed.
            pose_periods: How much older than its joint state an object's pose may be
                [control periods]; 0: they have the same stamp.
            driver: Says where velocities come from; None: from joint states.

        Raises:
            ConfigError: nobody tells an entry of its states.
        """
        self.driver = driver
        self._sources = sources(spec)
        self.joints = JointStateReader(
            spec.joint_names, self._sources.further, velocity_estimator(driver, spec.period)
        )
        self._poses = poses or PoseBuffer()
        self._poses.object.period = self._period = spec.period
        self._oldest_ns = round(pose_periods * spec.period * 1e9)
        self._apart_ns = tuple(round(periods * spec.period * 1e9) for periods in SPEED_PERIODS)
        self._order = np.array(self._sources.order, dtype=np.intp)
        told = 2 * len(spec.joint_names) + len(self._sources.further)
        posed = [entry for entry, place in enumerate(self._sources.order) if place >= told]
        derived = derived_entries(spec) if self.joints.derives else []
        self.untold = tuple(sorted({*derived, *posed})) if pose_periods > 0 else ()
        """Entries of the state that depend on what else had been heard by then; none where
        joint states wait for it."""

    def limit_age(self, pose_periods: float) -> None:
        """Let an object's pose be no older than that either [control periods]."""
        self._oldest_ns = min(self._oldest_ns, round(pose_periods * self._period * 1e9))

    def reset(self) -> None:
        """An episode begins; the clock may start again."""
        self.joints.reset()

    @property
    def needs_goal(self) -> bool:
        """Whether a goal is needed and none has come."""
        return bool(self._sources.goal) and self._poses.goal.newest_ns is None

    def lacks(self, stamp_ns: int) -> bool:
        """Whether something of that moment has still to come, where all is told at once.

        That is the object's pose and, at the start of an episode, its goal.
        """
        if self.joints.is_repetition(stamp_ns):
            return False
        awaited = [self._poses.object] if self._sources.object else []
        if self._sources.goal and self.joints.fresh:
            awaited.append(self._poses.goal)
        return any(p.newest_ns is None or p.newest_ns < stamp_ns for p in awaited)

    def read(self, reading: JointReading) -> NDArray[np.float64]:
        """The state `(p,)` of a joint state.

        Raises:
            StateError: the joint state, the object's pose or the goal is missing or makes no
                sense, or the pose is too old.
        """
        told = self.joints.read(reading)
        if self._sources.object or self._sources.goal:
            told = np.concatenate(
                [told, self._object_at(reading.stamp_ns), self._goal_at(reading.stamp_ns)]
            )
        return told[self._order]

    def _object_at(self, stamp_ns: int) -> Sequence[float]:
        """Coordinates [m] and velocities [m/s], three each."""
        if not self._sources.object:
            return (0.0,) * 2 * len(AXES)
        place = self._poses.object.at(stamp_ns)
        if place is None:
            _refuse(OBJECT_POSE, f"none up to the joint state of {_seconds(stamp_ns)}")
        if stamp_ns - place.stamp_ns > self._oldest_ns:
            _refuse(
                OBJECT_POSE,
                f"the newest is {(stamp_ns - place.stamp_ns) / 1e6:.1f} ms older than the joint "
                f"state of {_seconds(stamp_ns)}; at most {self._oldest_ns / 1e6:.1f} ms",
            )
        return (*_coordinates(OBJECT_POSE, place), *self._speeds(place))

    def _speeds(self, place: Pose) -> Sequence[float]:
        """Velocities of the object at `place`, as far as an older pose tells them [m/s]."""
        least, most = self._apart_ns
        before = self._poses.object.at(place.stamp_ns - least)
        if before is None or place.stamp_ns - before.stamp_ns > most or _complaint(before):
            return (0.0,) * len(AXES)
        seconds = (place.stamp_ns - before.stamp_ns) / 1e9
        return [(x - y) / seconds for x, y in zip(place.position, before.position, strict=True)]

    def _goal_at(self, stamp_ns: int) -> Sequence[float]:
        if not self._sources.goal:
            return (0.0,) * len(AXES)
        place = self._poses.goal.at(stamp_ns)
        if place is None:
            _refuse(GOAL, f"none holds yet at the joint state's {_seconds(stamp_ns)}")
        return _coordinates(GOAL, place)


def _coordinates(topic: str, place: Pose) -> Sequence[float]:
    complaint = _complaint(place)
    if complaint:
        _refuse(topic, complaint)
    return place.position


def _complaint(place: Pose) -> str:
    """Why a place can't be used; empty where it can."""
    if place.frame not in (FRAME, ""):
        return f"frame {shortened(place.frame)!r}; expected {FRAME!r}, nothing is transformed"
    for axis, value in zip(AXES, place.position, strict=True):
        if not math.isfinite(value):
            return f"{axis} is {value}; expected a finite number"
    return ""


def _seconds(stamp_ns: int, digits: int = 3) -> str:
    return f"{stamp_ns / 1e9:.{digits}f} s"


def _refuse(topic: str, reason: str) -> NoReturn:
    raise StateError(f"{topic}: {reason}")
