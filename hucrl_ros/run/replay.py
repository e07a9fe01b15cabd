"""Recomputes the commands of a recorded episode, by the code that computed them."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.bags.played import Played, read_played
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import Bundle, bundle_digest, load_bundle
from hucrl_ros.controller.control_loop import ControlLoop
from hucrl_ros.controller.examiner import examined
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.manifest import MANIFEST, Manifest
from hucrl_ros.controller.motors import keeping_promise
from hucrl_ros.controller.setup import Setup, processor, versions
from hucrl_ros.controller.state_reader import JointReading, velocity_age
from hucrl_ros.controller.ticks import numbered
from hucrl_ros.errors import BagError, BundleError
from hucrl_ros.planners import Plan
from hucrl_ros.run.replayed_time import RecordedCommands, RecordedPlanning, RecordedStates

Array = NDArray[np.float64]


class Row(NamedTuple):
    """A tick, twice."""

    step: int
    source: int
    """As recorded, see `controller.ticks.Source`."""
    recorded: tuple[float, ...]
    """`(q,)` action that was sent, in the unit of the robot's actions."""
    recomputed: tuple[float, ...]
    """`(q,)`"""

    @property
    def equal(self) -> bool:
        """To the last bit."""
        return self.recorded == self.recomputed


class Replay(NamedTuple):
    """What came of it."""

    ticks: int
    """In the bag."""
    rows: list[Row]
    """Those that could be recomputed."""
    bundles: list[str]
    """What they were recomputed with."""
    joints: tuple[str, ...]
    """Of the actions."""
    notes: list[str]
    """What is otherwise than it was, and why ticks were left out."""

    @property
    def first(self) -> Row | None:
        """The first tick that differs."""
        return next((row for row in self.rows if not row.equal), None)

    @property
    def equal(self) -> int:
        """Ticks with the same command."""
        return sum(row.equal for row in self.rows)

    @property
    def apart(self) -> Array:
        """`(N, q)` absolute differences, in the unit of the robot's actions."""
        both = np.array([(row.recorded, row.recomputed) for row in self.rows], np.float64)
        apart: Array = np.abs(np.diff(both.reshape(-1, 2, len(self.joints)), axis=1)[:, 0])
        return apart


class Recalled(NamedTuple):
    """A tick, as its bundle saw it."""

    step: int
    state: Array
    """`(p,)`"""
    plan: Plan | None
    """The newest one then; None: there was none."""
    bundle: Bundle
    """Made it."""


def recall(path: Path) -> Iterator[Recalled]:
    """What was planned in each tick of an episode: computed once more, as `replay` does.

    Args:
        path: Its bag, in a run that has the bundle.

    Raises:
        BagError: as of `replay`, or where the bag lacks something, once all before it has come.
        BundleError: as of `replay`.
    """
    played = read_played(path)
    bundles = _load(path, played.setups)
    replayed, step = _Replayed(path, played, bundles), -1
    for row in replayed.rows():
        loop, step = replayed.loop, row.step
        assert loop is not None
        if loop.state is not None:
            yield Recalled(row.step, loop.state, loop.player.plan, loop.player.bundle)
    if step + 1 < len(played.ticks):
        raise BagError(f"{path}: {replayed.notes[-1]}")


def replay(path: Path, other: Path | None = None) -> Replay:
    """Recompute an episode's commands, each in the state and after the commands of the recording.

    Args:
        path: Its bag, in a run that has the bundle.
        other: A bundle to compute with; None: the one that was played.

    Raises:
        BagError: the bag is damaged, or doesn't tell how its ticks were computed.
        BundleError: the bundle isn't there, isn't what it says, or is of another robot.
    """
    played = read_played(path)
    bundles = _load(path, played.setups, other)
    joints = bundles[0].manifest.actuated_joints
    told = {name for tick in played.ticks if tick.reading for name in tick.reading.names}
    unknown = told and set(bundles[0].manifest.joint_names) - told
    if unknown or any(len(tick.record.action) != len(joints) for tick in played.ticks):
        raise BundleError(f"{bundles[0].path} is of another robot: it moves {', '.join(joints)}")
    replayed = _Replayed(path, played, bundles)
    rows = list(replayed.rows())
    names = list(dict.fromkeys(bundle.path.name for bundle in bundles))
    return Replay(len(played.ticks), rows, names, joints, list(dict.fromkeys(replayed.notes)))


class _Replayed:
    """The control loop of an episode, and what time and the network did to it."""

    def __init__(self, path: Path, played: Played, bundles: Sequence[Bundle]) -> None:
        self.notes: list[str] = []
        self._path, self._ticks = path, played.ticks
        self._coming = list(zip(played.setups, bundles, strict=True))
        setup, spec = played.setups[0], bundles[0].manifest.spec
        age = velocity_age(setup.driver, spec.period) if setup.timed else 0.0
        self._planning = RecordedPlanning()
        self._commands = RecordedCommands(spec, age)
        driver = setup.driver if setup.timed else None
        self._states = RecordedStates(spec, played.poses, driver)
        self.loop: ControlLoop | None = None
        """Plays now."""
        self._surprise = math.nan

    def rows(self) -> Iterator[Row]:
        """All ticks, up to where the bag lacks something."""
        for index, tick in enumerate(self._ticks):
            if tick.record.step != index or tick.reading is None:
                lost = "tick" if tick.record.step != index else "joint state"
                self.notes.append(
                    f"the {lost} of step {index} isn't in the bag: nothing from there on can be "
                    "recomputed"
                )
                return
            while self._coming and self._coming[0][0].step <= index:
                self.loop = self._take(self.loop, *self._coming.pop(0))
            assert self.loop is not None
            try:
                yield self._row(self.loop, index, tick.reading)
            except BagError as error:
                raise BagError(f"{self._path}: step {index}: {error}") from None
            self._surprise = tick.record.surprise

    def _take(self, before: ControlLoop | None, setup: Setup, bundle: Bundle) -> ControlLoop:
        """The loop that plays from this tick on; `before`: the one so far."""
        guard = Guard(bundle.manifest.spec, setup.safety)
        if before is not None and setup.since < setup.step:
            before.obey(guard)
            return before
        loop = self._build(setup, bundle, guard)
        self._surprise = math.nan
        if before is None:
            loop.start(setup.seed)
        else:
            self._planning.forget()
            loop.take_over(before, setup.seed)
        return loop

    def _build(self, setup: Setup, bundle: Bundle, guard: Guard) -> ControlLoop:
        period = bundle.manifest.period
        agent = Agent(
            replace(bundle, manifest=_in_force(setup, bundle)),
            period if setup.timed else None,
            clock=_no_time,
            executor=self._planning,
            engine="onnx" if setup.engine == "onnx" else "auto",
            threads=setup.threads,
            safety=setup.safety,
        )
        agent.warm_up()
        self.notes += _otherwise(setup, agent)
        steps = self._ticks[-1].record.step + 1
        return ControlLoop(guard.spec, steps, agent, guard, _no_time, self._commands, self._states)

    def _row(self, loop: ControlLoop, index: int, reading: JointReading) -> Row:
        record, told, _ = self._ticks[index]
        self._recall(loop, index, told)
        before = Guard(loop.spec, loop.guard.safety)
        before.reset(loop.guard)
        answer = loop.answer(reading, 0.0, lambda command: None)
        if answer is None or answer.record is None:
            raise BagError("two ticks answer one joint state")
        row = Row(index, record.source, record.action, answer.record.action)
        if not row.equal and loop.state is not None:
            # The robot went on under what was sent.
            loop.guard.reset(before)
            command = loop.guard.check(np.array(record.action), loop.state).command
            loop.player.sent(loop.guard.action, command=command)
            if command is not None:
                self._commands.all[-1:] = [command]
        return row

    def _recall(self, loop: ControlLoop, index: int, told: Mapping[str, float]) -> None:
        """Have the next tick find what it found."""
        self._states.told = numbered(told, "state_")
        self._commands.told = tuple(numbered(told, "in_force_").values())
        rest = (tick.decided for tick in self._ticks[index + 1 :])
        later = next((each["late"] for each in rest if "late" in each), None)
        iterations = self._ticks[index].record.iterations
        self._planning.begin(loop.player, iterations, told, later)
        looks, heard = itertools.count(), _commands(numbered(told, "heard_"), loop.spec.action_dim)
        loop.others = lambda: heard.get(next(looks))
        for _ in range(int(told.get("silences", 0))):
            loop.stale()
        loop.player.surprise.recall(self._surprise)
        bias, added = np.zeros(loop.spec.predicted_dim), numbered(told, "bias_")
        if added and max(added) >= len(bias):
            raise BagError(f"no entry {max(added)} in a prediction of {len(bias)}")
        bias[list(added)] = list(added.values())
        loop.player.bias.recall(bias)


def _commands(entries: Mapping[int, float], width: int) -> dict[int, NDArray[np.float64]]:
    """Commands `(width,)` by the number of the look at which they were heard."""
    found: dict[int, NDArray[np.float64]] = {}
    for number, value in entries.items():
        found.setdefault(number // width, np.full(width, math.nan))[number % width] = value
    return found


def _no_time() -> float:
    return 0.0


def _in_force(setup: Setup, bundle: Bundle) -> Manifest:
    """The bundle's manifest with the settings of the recording; another bundle plans its way."""
    # What ended an episode is in the bag, and nothing is to end this one.
    safety = setup.safety.model_copy(update={"surprise": 0.0})
    changes: dict[str, object] = {"driver": setup.driver, "safety": safety}
    if bundle.digest == setup.sha256:
        changes["planner"] = setup.planner
    return keeping_promise(bundle.manifest.model_copy(update=changes), bundle.manifest)


def _otherwise(setup: Setup, agent: Agent) -> Iterator[str]:
    """What is otherwise than when the episode was played, a line each."""
    if agent.bundle.digest != setup.sha256:
        played = f"{setup.bundle} was played, SHA-256 of its manifest {setup.sha256[:12]}…"
        yield f"another bundle: {played}, here {agent.bundle.digest[:12]}…"
    engine = "compiled" if agent.compiled else "onnx"
    if engine != setup.engine:
        yield f"another engine: {setup.engine} then, {engine} here"
    if processor() != setup.processor:
        yield f"another processor: {setup.processor} then, {processor()} here"
    here = versions()
    for name in sorted({*here, *setup.versions}):
        then, now = setup.versions.get(name, "none"), here.get(name, "none")
        if then != now:
            yield f"another version of {name}: {then} then, {now} here"


def _load(bag: Path, setups: Sequence[Setup], other: Path | None = None) -> list[Bundle]:
    """What each setup played, or `other` in its place; each folder is tried once.

    Raises:
        BundleError: it isn't there, or isn't what it says.
    """
    paths = [other or _find(bag, setup) for setup in setups]
    manifests = {path: examined(path) for path in dict.fromkeys(paths)}
    return [
        load_bundle(path, threads=setup.threads, manifest=manifests[path])
        for path, setup in zip(paths, setups, strict=True)
    ]


def _find(bag: Path, setup: Setup) -> Path:
    """The bundle that was played, in the run that has the bag.

    Raises:
        BundleError: it isn't there.
    """
    folder = bag.absolute() if bag.is_dir() else bag.absolute().parent
    bundles = folder.parent.parent / "bundles"
    named = bundles / Path(setup.bundle).name
    for found in (named, *sorted(bundles.glob("*"))):
        if (found / MANIFEST).is_file() and bundle_digest(found) == setup.sha256:
            return found
    raise BundleError(
        f"{bundles}: the bundle that was played isn't there: {setup.bundle}, its manifest's "
        f"SHA-256 {setup.sha256[:12]}…; --bundle BUNDLE computes with another one"
    )
