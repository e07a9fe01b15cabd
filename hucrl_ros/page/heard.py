"""What the page has heard of a run while it is played, for whoever draws it."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import DriverSettings
from hucrl_ros.controller.state_reader import (
    MOST_JOINTS,
    JointReading,
    Pose,
    PoseBuffer,
    StateReader,
)
from hucrl_ros.controller.ticks import Source, TickRecord
from hucrl_ros.errors import StateError, shortened
from hucrl_ros.page.rhythm import Rhythm
from hucrl_ros.run.progress import Phase

Array = NDArray[np.float64]
KEPT_TICKS = 4000
"""Of the present episode."""
PLOTTED = ("step", "tick_ms", "hallucination", "epistemic_std")
"""What is kept of a tick."""
KEPT_EVENTS, KEPT_SOURCES = 200, 400
LONGEST_NAME = 100
"""Letters of a source's name, or of what is being done: each `Phase` has room."""
LEARNING = {
    phase.value for phase in (Phase.FITTING, Phase.SEARCHING, Phase.EXPORTING, Phase.JUDGING)
}
"""Of which the learner tells more."""
WATCHDOG = "watchdog tripped"
"""Source of what the watchdog says while it trips."""
_POSE_PERIODS = 10.0
"""Age of an object's pose up to which it does for a picture [control periods]."""


class Event(NamedTuple):
    """Something that a person should know of."""

    at: float
    """Seconds since the epoch."""
    source: str
    """Who says it."""
    text: str
    """One line."""


class Counts(NamedTuple):
    """Of the present episode's ticks, as far as they came."""

    ticks: int = 0
    missed: int = 0
    fallbacks: int = 0
    clamped: int = 0
    filtered: int = 0


class Now(NamedTuple):
    """One moment."""

    state: Array | None
    """`(p,)`; None: no joint state that makes sense was heard."""
    stamp_ns: int
    """Of its joint state."""
    received: float
    """When that came, by the steady clock [s]."""
    episode: int
    """Counts up with each episode heard, from 0."""
    step: int
    """Of the newest tick; -1: none."""
    active: bool
    """An episode is under way."""
    bundle: Path | None
    """In use."""
    goal: tuple[float, ...] | None
    """`(3,)` [m]"""
    phase: str
    """What the run does between two episodes: learns, or waits for somebody."""
    tripped: str
    """Why the watchdog trips; empty: it doesn't."""
    counts: Counts


class Heard:
    """Filled by one thread, looked at by others."""

    def __init__(
        self,
        spec: RobotSpec,
        driver: DriverSettings | None = None,
        planned: bool = True,
        period: float | None = None,
    ) -> None:
        """Begin with nothing.

        Args:
            spec: The robot.
            driver: Where velocities come from; None: joint states tell them.
            planned: Whether sending π(s) is a fallback.
            period: Of control in real time [s]; None: in lockstep.
        """
        self.rhythm = Rhythm(period)
        self._poses = PoseBuffer()
        self._reader = StateReader(spec, self._poses, _POSE_PERIODS, driver)
        self._lock, self._fetching = threading.Lock(), threading.Lock()
        self._fetch: Callable[[], None] | None = None
        self._reading: JointReading | None = None
        self._received = 0.0
        self._ticks = np.zeros((KEPT_TICKS, len(PLOTTED)))
        self._step = -1
        self._events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._said: dict[str, str] = {}
        self._episode, self._active = 0, False
        self._bundle: Path | None = None
        self._phase, self._stage = "", ""
        self._counts = Counts()
        self._fallback = {Source.PREVIOUS, Source.SAFE} | ({Source.POLICY} if planned else set())

    @property
    def derives(self) -> bool:
        """Whether every joint state counts: velocities come from positions."""
        return self._reader.joints.derives

    def begin_session(self) -> None:
        """Other nodes play the run from now on: what those before were at is over."""
        with self._lock:
            self._active, self._phase, self._stage, self._bundle = False, "", "", None
            self._step, self._counts = -1, Counts()
            self._episode += 1
            self._said.clear()  # what these say is news

    def fetch_by(self, fetch: Callable[[], None] | None) -> None:
        """What has `fetch` fill this; None: nothing is to be had."""
        with self._fetching:
            self._fetch = fetch

    def fetch(self) -> None:
        """Hear what has come since the last call."""
        with self._fetching:
            if self._fetch is not None:
                self._fetch()

    def joint_state(self, reading: JointReading, waited: float = 0.0) -> None:
        """A joint state has come, and `waited` since [s]."""
        if max(map(len, reading[:3])) > MOST_JOINTS:
            return
        with self._lock:
            self._reader.joints.see(reading)
            self._reading, self._received = reading, time.monotonic() - waited

    def object_at(self, pose: Pose) -> None:
        """The object is somewhere."""
        with self._lock:
            self._poses.object.add(pose)

    def goal_at(self, pose: Pose) -> None:
        """The goal is somewhere."""
        with self._lock:
            self._poses.goal.add(pose)

    def tick(self, record: TickRecord, waited: float = 0.0) -> None:
        """A tick has come, and `waited` since [s]."""
        self.rhythm.tick(time.monotonic() - waited, 1e-3 * record.tick_ms)
        with self._lock:
            if record.step <= self._step:
                self._counts = Counts()
                self._episode += 1
            self._step = record.step
            before = self._counts
            row = [getattr(record, name) for name in PLOTTED]
            self._ticks[before.ticks % KEPT_TICKS] = row
            self._counts = Counts(
                before.ticks + 1,
                before.missed + record.missed,
                before.fallbacks + (record.source in self._fallback),
                before.clamped + record.clamped,
                before.filtered + (record.filtered > 0),
            )

    def active(self, active: bool) -> None:
        """An episode has begun or ended."""
        with self._lock:
            self._active = active
            if active:
                self._reader.reset()

    def bundle(self, said: str) -> None:
        """The controller uses a bundle, or says why not."""
        if said.startswith("error:"):
            self.note("controller", said)
            return
        with self._lock:
            self._bundle = Path(said)

    def learner(self, phase: str, progress: str) -> None:
        """What the learner does, and how far it is."""
        with self._lock:
            share = float(progress) if _is_share(progress) else math.nan
            phase = shortened(phase, LONGEST_NAME)
            self._phase = phase if math.isnan(share) else f"{phase} {share:.0%}"

    def supervisor(self, stage: str) -> None:
        """What the run does."""
        with self._lock:
            self._stage = shortened(stage, LONGEST_NAME)

    def note(self, source: str, text: str) -> None:
        """One line that `source` says; said again it is no news."""
        source, line = shortened(source, LONGEST_NAME), shortened(text, 300)
        with self._lock:
            if self._said.pop(source, None) != line:
                self._events.append(Event(time.time(), source, line))
            self._said[source] = line  # the newest one
            if len(self._said) > KEPT_SOURCES:
                del self._said[next(iter(self._said))]

    def calm(self, source: str) -> None:
        """What `source` said is over: it is news when it is said again."""
        with self._lock:
            self._said.pop(shortened(source, LONGEST_NAME), None)

    @property
    def now(self) -> Now:
        """This moment."""
        with self._lock:
            state, reading = None, self._reading
            if reading is not None:
                try:
                    state = self._reader.read(reading)
                except StateError:
                    state = None
            goal = self._poses.goal.at(reading.stamp_ns) if reading is not None else None
            return Now(
                state,
                reading.stamp_ns if reading is not None else 0,
                self._received,
                self._episode,
                self._step,
                self._active,
                self._bundle,
                None if goal is None else tuple(goal.position),
                self._phase if self._stage in LEARNING else self._stage or self._phase,
                self._said.get(WATCHDOG, ""),
                self._counts,
            )

    def ticks(self) -> Mapping[str, Array]:
        """`PLOTTED` of the episode's newest ticks, `(T,)` each, oldest first."""
        with self._lock:
            count = self._counts.ticks
            ordered = np.roll(self._ticks, -count, axis=0)
        newest = ordered[KEPT_TICKS - min(count, KEPT_TICKS) :]
        return dict(zip(PLOTTED, newest.T, strict=True))

    def events(self) -> list[Event]:
        """The newest ones, oldest first."""
        with self._lock:
            return list(self._events)


def _is_share(text: str) -> bool:
    try:
        return 0.0 <= float(text) <= 1.0
    except ValueError:
        return False
