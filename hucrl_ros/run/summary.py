"""`summary.json`: what a run did, for people's scripts as for ours (`docs/contracts.md`)."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hucrl_ros.config.files import explain, write_atomically
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.ticks import Source
from hucrl_ros.errors import RunError, shortened
from hucrl_ros.run.folder import RunFolder

if TYPE_CHECKING:
    from hucrl_ros.bags.reader import Episode
    from hucrl_ros.controller.manifest import LearningReport, Manifest
    from hucrl_ros.run.judged_task import JudgedTask

STOPPABLE = "speed from which the motors can stop"
"""What the braking rule keeps besides the constraints."""
_REPORTED_PACKAGES = ("hucrl_ros", "numpy", "torch", "mujoco", "onnxruntime", "ros-rclpy")


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TickStatistics(_Record):
    """Distribution of the control ticks' durations over an episode [ms]."""

    p50: float
    """Half of the ticks were faster [ms]."""
    p99: float
    """99% of them [ms]."""
    p999: float
    """99.9% of them [ms]."""
    max: float
    """The slowest [ms]."""

    @classmethod
    def of(cls, tick_ms: NDArray[np.float64]) -> TickStatistics | None:
        """Statistics of durations `(T,)` [ms]; None where there was no tick of known duration."""
        tick_ms = tick_ms[np.isfinite(tick_ms)]
        if not len(tick_ms):
            return None
        p50, p99, p999, largest = np.percentile(tick_ms, [50, 99, 99.9, 100]).round(4).tolist()
        return cls(p50=p50, p99=p99, p999=p999, max=largest)


class EpisodeSummary(_Record):
    """One finished episode. None: not known, or not yet, or by an older version."""

    index: int = Field(ge=0)
    """Number of the episode, counted from 0."""
    return_: float = Field(alias="return")
    """Undiscounted sum of the rewards."""
    predicted_return: float | None = Field(None, alias="promised_return")
    """Return that the bundle's policies had in the imagined episode; None for a random bundle."""
    steps: int = Field(ge=0)
    """Transitions recorded [1]."""
    cut: bool = False
    """It was ended by a surprise before its last step, so its return is no episode's."""
    tick_ms: TickStatistics | None = None
    """From receiving a joint state to sending its command [ms]."""
    misses: int | None = None
    """Ticks later than the control period [1]."""
    fallbacks: int | None = None
    """Ticks that sent something else than they were asked for: no fresh plan in time [1]."""
    clamps: int | None = None
    """Ticks whose command the guard changed [1]."""
    filtered: dict[str, int] | None = None
    """Ticks whose action was changed for a constraint, by the constraint [1]; None: the robot has
    none."""
    outside: dict[str, int] | None = None
    """States beyond a constraint, by the constraint [1]; like `filtered`."""
    deepest: dict[str, float] | None = None
    """How far beyond a constraint the worst of them was, by the constraint [its margins]; only
    where that is finite."""
    fit_s: float | None = None
    """Model fit that followed the episode [s]."""
    search_s: float | None = None
    """Policy search that followed the episode [s]."""
    complexity: float | None = None
    """Σ‖σ‖² over the visited points under the model that played (Eq. 9); None for a random one
    and before the learning that follows [units of the state, squared]."""
    bag: str | None = None
    """The bag's folder, relative to the run's."""
    bundle: str | None = None
    """The bundle that played, relative to the run's folder: the episode's own, or another one
    that a person chose."""

    @property
    def changed(self) -> int:
        """Ticks whose action was changed for a constraint, whichever."""
        return sum((self.filtered or {}).values())

    @property
    def flown(self) -> int:
        """Number of the bundle that played."""
        named = re.search(r"_(\d+)$", self.bundle or "")
        return self.index if named is None else int(named[1])

    model_config = ConfigDict(populate_by_name=True)


class Summary(_Record):
    """A whole run, as far as it got."""

    task: str
    """Name of the task."""
    strategy: str
    """Exploration strategy."""
    action_penalty: float
    """ρ, weight of the action's cost in the reward [1]."""
    seed: int
    """Seed of everything random [1]."""
    mode: Literal["lockstep", "real_time", "in_process"]
    """How it was played last; `in_process`: by `hucrl train`."""
    optimum: float | None
    """Best achievable return, where it is known."""
    best_return: float | None
    """Best return of the episodes; None before the first."""
    regret: float | None = None
    """Σ (optimum − return) over all episodes but cut ones, the random ones included; None where
    the optimum is unknown."""
    complexity: float | None = None
    """Σ of the episodes' complexity: what the regret's bound grows with (Theorem 1)."""
    wall_s: float
    """Time that the run took, all of its sessions together [s]."""
    cpu_s: float
    """Processor time of all its processes [s]."""
    versions: dict[str, str]
    """Of Python and the libraries that decide the outcome."""
    events: tuple[str, ...]
    """What a person should know of: lost nodes, interruptions; one line each."""
    episodes: tuple[EpisodeSummary, ...]
    """One entry for each finished episode."""

    @classmethod
    def of(
        cls,
        config: Config,
        *,
        optimum: float | None,
        episodes: Sequence[EpisodeSummary],
        wall_s: float,
        cpu_s: float,
        events: Sequence[str] = (),
        in_process: bool = False,
    ) -> Summary:
        """Summary of a run with the settings `config`; versions and the best return are added.

        Args:
            config: The run's settings.
            optimum: Best achievable return, `Task.optimum`.
            episodes: All finished episodes in order.
            wall_s: Time spent so far [s].
            cpu_s: Processor time spent so far [s].
            events: One line each.
            in_process: The run had no nodes (`hucrl train`).
        """
        complexities = [e.complexity for e in episodes if e.complexity is not None]
        returns = [e.return_ for e in episodes if not e.cut]
        return cls(
            task=config.task,
            strategy=config.strategy,
            action_penalty=config.action_penalty,
            seed=config.seed,
            mode="in_process" if in_process else config.mode,
            optimum=optimum,
            best_return=max(returns, default=None),
            regret=None if optimum is None else sum(optimum - earned for earned in returns),
            complexity=sum(complexities) if complexities else None,
            wall_s=round(wall_s, 3),
            cpu_s=round(cpu_s, 3),
            versions=installed_versions(),
            events=tuple(events),
            episodes=tuple(episodes),
        )


def summarise_episode(
    index: int,
    episode: Episode,
    task: JudgedTask,
    played: Manifest,
    learned: LearningReport | None,
    run: RunFolder,
) -> EpisodeSummary:
    """What `summary.json` says of an episode that was read from its bag.

    Args:
        index: The episode's number.
        episode: The bag's content.
        task: Gives the rewards.
        played: Manifest of the bundle that played it.
        learned: Report of the learning that followed; None where none did (yet).
        run: The run's folder, for relative paths.

    Raises:
        RunError: a reward is no number.
    """
    try:
        earned = episode_return(episode, task)
    except RunError as error:
        raise RunError(f"episode {index}: {error}") from None
    ticks, names = episode.ticks, played.constraints
    most = len(names) + 2  # a bag may say anything
    asked = np.bincount(np.clip(ticks["filtered"], 0, most), minlength=most)[1:]
    rooms = task.rooms(episode.states[:-1], episode.actions)
    depth = -rooms.min(axis=0, initial=0.0)
    depth = np.where(np.isfinite(depth), depth, 0.0)  # A function may say anything.
    return EpisodeSummary(
        index=index,
        return_=earned,
        predicted_return=None if played.random else played.report.predicted_return,
        steps=len(episode.actions),
        cut=episode.cut,
        tick_ms=TickStatistics.of(ticks["tick_ms"]),
        misses=int(np.count_nonzero(ticks["missed"])),
        fallbacks=count_fallbacks(ticks["source"], played.planner.algorithm),
        clamps=int(np.count_nonzero(ticks["clamped"])),
        filtered=_by_name((*names, STOPPABLE), asked) if names else None,
        outside=_by_name(names, (rooms < 0.0).sum(axis=0)) if names else None,
        deepest=_by_name(names, depth.round(3)) if names else None,
        fit_s=learned.fit_s if learned else None,
        search_s=learned.search_s if learned else None,
        complexity=learned.complexity if learned else None,
        bag=str(run.bag(index).relative_to(run.root)),
        bundle=str(run.bundle(run.flown(index, episode.bundle)).relative_to(run.root)),
    )


def _by_name(names: Sequence[str], found: NDArray[Any]) -> dict[str, Any]:
    """What isn't 0."""
    return {name: value for name, value in zip(names, found.tolist(), strict=False) if value}


def episode_return(episode: Episode, task: JudgedTask) -> float:
    """Σ r(s_k, a_k) over the episode's steps, not discounted.

    Raises:
        RunError: one of them is no number.
    """
    rewards = task.rewards(episode.states[:-1], episode.actions)
    finite = np.isfinite(rewards)
    if not finite.all():  # A function may say anything.
        step = int(np.argmin(finite))
        state, action = episode.states[step].round(4), episode.actions[step].round(4)
        raise RunError(
            f"the reward of step {step} is {rewards[step]:g}, in the state "
            f"{shortened(state.tolist())} under the action {shortened(action.tolist())}"
        )
    return float(rewards.sum())


def count_fallbacks(source: NDArray[np.float64], algorithm: str) -> int:
    """Ticks that had to send something else than a fresh answer of the planner.

    Args:
        source: `Source` of each tick's action `(T,)`.
        algorithm: The planner's; where it is `policy`, sending π(s) is no fallback.
    """
    policy = [] if algorithm == "policy" else [Source.POLICY]
    return int(np.isin(source, [Source.PREVIOUS, *policy, Source.SAFE]).sum())


def write_summary(path: Path, summary: Summary) -> None:
    """Replace `summary.json` in one step: a reader sees the old or the new one.

    Raises:
        RunError: the disk is full, or the file can't be written; the old one stays.
    """
    values = summary.model_dump(mode="json", by_alias=True)
    try:
        write_atomically(path, json.dumps(values, indent=2) + "\n")
    except OSError as error:
        raise RunError(f"{path}: can't be written: {error.strerror}") from None


def with_learning(summary: Summary, report: LearningReport) -> Summary:
    """A summary with what was learned from its last episode, as its bundle's manifest tells."""
    names = ("fit_s", "search_s", "complexity")
    learned = {name: getattr(report, name) for name in names}
    episodes = (*summary.episodes[:-1], summary.episodes[-1].model_copy(update=learned))
    known = [e.complexity for e in episodes if e.complexity is not None]
    return summary.model_copy(
        update={"episodes": episodes, "complexity": sum(known) if known else None}
    )


def read_summary(path: Path) -> Summary:
    """Read a `summary.json`.

    Raises:
        RunError: it can't be read, or holds something else.
    """
    try:
        return Summary.model_validate_json(path.read_text())
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None
    except (ValidationError, UnicodeDecodeError) as error:
        what = explain(error, Summary) if isinstance(error, ValidationError) else error
        raise RunError(f"{path}: not a summary: {what}") from None


def installed_versions() -> dict[str, str]:
    """Versions of what decides a run's outcome, as far as it is installed."""
    versions = {"python": platform.python_version()}
    for package in _REPORTED_PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions
