"""What a run is doing and what its present episode has brought, as data and in single lines."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.schema import Config, DriverSettings
from hucrl_ros.controller.state_reader import (
    MOST_JOINTS,
    JointReading,
    PoseBuffer,
    StateReader,
)
from hucrl_ros.controller.ticks import TickRecord
from hucrl_ros.errors import StateError
from hucrl_ros.run.summary import EpisodeSummary


class Phase(Enum):
    """What the run is doing."""

    WAITING = "waiting for the nodes"
    RESETTING = "resetting the robot"
    PERSON = "put the robot at the start; then press Enter, or call the service supervisor/start"
    HOMING = "moving the robot to the start"
    HELD = "stopped on the topic stop; publish false there, and the run goes on with a reset"
    PAUSED = "paused by a person"
    REFUSED = "the controller refuses the bundle that a person chose; set next.bundle to another"
    RUNNING = "running"
    FITTING = "fitting the model"
    SEARCHING = "searching policies"
    EXPORTING = "writing the bundle"
    JUDGING = "judging the bundle"
    AWAY = "waiting for the learner on another machine"
    LOADING = "loading the bundle"
    FINISHED = "finished"
    STOPPED = "stopped"


@dataclass
class Progress:
    """The present state of a run; the supervisor changes it, a view draws it."""

    config: Config
    steps: int = 0
    """Steps in an episode [1]; 0: not known yet."""
    optimum: float | None = None
    """Best achievable return, where it is known."""
    episode: int = 0
    """Number of the present episode, from 0."""
    step: int = 0
    """Ticks of the present episode so far [1]."""
    phase: Phase = Phase.WAITING
    detail: str = ""
    """What is waited for, or the share of the work that is done."""
    return_so_far: float | None = None
    predicted_return: float | None = None
    """Of the bundle that plays the present episode."""
    model_error: float | None = None
    """Held-out error of the newest model [standard deviations of the targets]."""
    tick_p50: float | None = None
    """Of the present episode [ms]."""
    tick_p99: float | None = None
    """Of the present episode [ms]."""
    misses: int = 0
    finished: list[EpisodeSummary] = field(default_factory=list)
    model_errors: dict[int, float] = field(default_factory=dict)
    """Model error after learning from an episode, by the episode's number."""
    notes: list[str] = field(default_factory=list)
    """Events of the run, one line each."""
    earlier_notes: int = 0
    """How many of them are of earlier sessions."""
    started: float = field(default_factory=time.monotonic)

    def enter(self, phase: Phase, episode: int | None = None) -> None:
        """Begin a phase, with nothing of it done."""
        self.phase, self.detail = phase, ""
        self.episode = self.episode if episode is None else episode
        if phase in (Phase.RESETTING, Phase.LOADING):
            self.step = self.misses = 0
            self.return_so_far = self.tick_p50 = self.tick_p99 = None

    @property
    def best_return(self) -> float | None:
        """Best return of the finished episodes."""
        return max((e.return_ for e in self.finished if not e.cut), default=None)


def describe_phase(progress: Progress) -> str:
    """One line: episode and phase."""
    total = progress.config.episodes
    if progress.phase in (Phase.FINISHED, Phase.STOPPED):
        return f"{progress.phase.value} after {len(progress.finished)} of {total} episodes"
    number = f"episode {progress.episode} ({progress.episode + 1} of {total})"
    return f"{number}: {progress.phase.value}"


def describe_episode(episode: EpisodeSummary) -> str:
    """One line: what a finished episode brought."""
    p50, p99 = format_ticks(episode)
    parts = [
        f"episode {episode.index}: return {format_number(episode.return_)}",
        f"predicted {format_number(episode.predicted_return)}",
        *([f"played by bundle {episode.flown}"] if episode.flown != episode.index else []),
        f"tick p50 {p50} p99 {p99} ms",
        f"{episode.misses or 0} misses",
    ]
    if episode.filtered is not None:
        parts += [
            f"{word} {count}"
            for word, count in zip(CONSTRAINED, constrained(episode), strict=True)
        ]
    return ", ".join(parts)


CONSTRAINED = ("filtered", "outside")
"""Headings of `constrained`."""


def constrained(episode: EpisodeSummary) -> tuple[str, str]:
    """Ticks that were changed for a constraint, and states beyond one."""
    counts = (episode.filtered, episode.outside)
    filtered, outside = ("–" if x is None else str(sum(x.values())) for x in counts)
    return filtered, outside


def describe_learning(progress: Progress, index: int) -> str:
    """One line: what was learned from episode `index`."""
    parts = [f"episode {index}: learned, model error {progress.model_errors[index]:.3f}"]
    for episode in progress.finished:
        if episode.index == index and episode.fit_s is not None:
            parts.append(f"fit {format_number(episode.fit_s)} s")
            parts.append(f"search {format_number(episode.search_s)} s")
    return ", ".join(parts)


def format_ticks(episode: EpisodeSummary) -> tuple[str, str]:
    """Median and 99% quantile of an episode's tick times [ms]."""
    ticks = episode.tick_ms
    if ticks is None:
        return format_number(None), format_number(None)
    return format_number(ticks.p50, 2), format_number(ticks.p99, 2)


def format_number(value: float | None, digits: int = 1) -> str:
    """A number for a table, none of them -0.0; a dash where there is none."""
    return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


if TYPE_CHECKING:
    from hucrl_ros.run.judged_task import JudgedTask

_KEPT_STATES = 1000
"""Joint states kept until their tick arrives."""
_POSE_PERIODS = 10.0
"""Age of an object's pose up to which it does for the live return [control periods]."""


class EpisodeMonitor:
    """Return so far and tick times, from joint states, poses and ticks as they come.

    The live return takes the efforts that were sent, and the pose that had come when the tick
    came; the summary's return, from the bag, the efforts that were applied and the right pose.
    """

    def __init__(self, task: JudgedTask, driver: DriverSettings | None = None) -> None:
        """Follow episodes of `task`; `driver` says where velocities come from, None: messages."""
        self._task = task
        self.poses = PoseBuffer()
        """What was heard of object and goal, at any time."""
        self._reader = StateReader(task.spec, self.poses, _POSE_PERIODS, driver)
        self.start()

    def start(self) -> None:
        """Forget the last episode."""
        self._reader.reset()
        self._readings: dict[int, JointReading] = {}
        self._pairs: list[tuple[NDArray[np.float64], tuple[float, ...]]] = []
        self._return = 0.0
        self._tick_ms: list[float] = []
        self._steps = 0
        self.misses = 0
        """Ticks later than the control period."""

    @property
    def steps(self) -> int:
        """Ticks so far, by their own count: a slow reader may lose some messages."""
        return self._steps

    def see_joint_state(self, reading: JointReading) -> None:
        """Take in a joint state."""
        if max(map(len, reading[:3])) > MOST_JOINTS:
            return  # many of these would fill the memory
        self._reader.joints.see(reading)
        self._readings[reading.stamp_ns] = reading
        if len(self._readings) > _KEPT_STATES:
            del self._readings[next(iter(self._readings))]

    def see_tick(self, tick: TickRecord) -> None:
        """Take in a tick."""
        self._tick_ms.append(tick.tick_ms)
        self._steps = tick.step + 1
        self.misses += tick.missed
        reading = self._readings.pop(tick.stamp_ns, None)
        if reading is None:
            return
        try:
            self._pairs.append((self._reader.read(reading), tick.action))
        except StateError:
            return  # one that makes no sense is for the controller to report

    def return_so_far(self) -> float | None:
        """Sum of the rewards so far; None before the first."""
        if self._pairs:
            states, actions = zip(*self._pairs, strict=True)
            self._pairs = []
            self._return += float(self._task.rewards(np.array(states), np.array(actions)).sum())
        return self._return if self._tick_ms else None

    def tick_quantiles(self) -> tuple[float, float] | None:
        """Median and 99% quantile of the tick times [ms]; None before the first tick."""
        if not self._tick_ms:
            return None
        p50, p99 = np.percentile(self._tick_ms, [50, 99]).tolist()
        return p50, p99
