"""Which bundles may play, and which limits are in force: those that loosen nothing."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from threading import Lock

import numpy as np

from hucrl_ros.config.files import override
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import Config, SafetySettings
from hucrl_ros.config.task_file import beside, kept_robot
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.manifest import Manifest
from hucrl_ros.controller.motors import keeping_promise, motors_under
from hucrl_ros.errors import BundleError, ConfigError, HucrlError, shortened

LIMITS = (
    "safety.effort_limits",
    "safety.effort_rate",
    "safety.position_limits",
    "safety.position_margin",
    "safety.velocity_limits",
    "safety.stale_periods",
)
"""Settings that may be made stricter while a node runs."""


class Admission:
    """Admits bundles and stricter limits, in the controller and the watchdog alike.

    A limit that was tightened holds until the node ends, also for the bundles to come, where
    theirs isn't stricter. Bundles may be admitted in another thread.
    """

    def __init__(
        self,
        task: str,
        given: Mapping[str, object],
        robot: RobotSpec | None,
        source: str,
        own: SafetySettings | None = None,
    ) -> None:
        """Admit nothing yet.

        Args:
            task: The node's task.
            given: Dotted keys and values that replace a bundle's settings.
            robot: The robot as the node's side describes it; None: it doesn't.
            source: Where `given` comes from, for messages.
            own: What the robot's side says is safe, `given` included; None: nothing, so that a
                bundle itself says it.
        """
        self._task, self._given, self._robot, self._source = task, given, robot, source
        self._own = own
        self._lock = Lock()
        self._constraints: tuple[str, ...] = ()
        self._braking: Manifest | None = None  # the first that promises brakes
        self.guard: Guard | None = None
        """In force; None before the first bundle."""
        self.tightened: Mapping[str, object] = {}
        """Limits made stricter in this node while it runs, by dotted keys."""
        self._followed: Mapping[str, object] = {}
        """Limits made stricter elsewhere, by dotted keys."""

    @property
    def filters(self) -> bool:
        """Whether the robot's side has the safety filter on, whatever a bundle says of it."""
        return bool(self._given.get("safety.filter")) or bool(self._own and self._own.filter)

    def anew(self) -> "Admission":
        """One for the same node that has admitted nothing yet, and knows of nothing tightened."""
        return Admission(self._task, self._given, self._robot, self._source, self._own)

    def admit(self, path: Path, manifest: Manifest) -> tuple[Manifest, Guard]:
        """What plays if the bundle is accepted: its settings with the node's, and its guard.

        Raises:
            BundleError: see `admit`.
            ConfigError: the settings don't fit each other or the robot.
        """
        given = override(manifest, self._given, f"{path} with {self._source}")
        manifest = keeping_promise(given, manifest)
        for name in self._constraints:
            if name not in manifest.constraints:
                raise BundleError(
                    f"{path}: looser than the safety in force: no constraint "
                    f"{shortened(repr(name))}; start the node anew to loosen it"
                )
        if (first := self._braking) is not None:
            motors_under(manifest, first.safety).refuse_stronger(
                motors_under(first, first.safety),
                f"{path}: looser than the safety in force",
                "in force until the node ends",
            )
        safety = self._as_told(Guard(manifest.spec, manifest.safety)).safety
        guard = admit(path, manifest, self._task, safety, self._robot, self.guard, self._own)
        return manifest, guard

    def accept(self, path: Path, manifest: Manifest, guard: Guard) -> Guard:
        """Put an admitted guard in force, with what was tightened in the meantime.

        Raises:
            BundleError: even so it is looser than what is in force.
        """
        with self._lock:
            found = self._as_told(guard)
            if self.guard is not None:
                refuse_looser(found, self.guard, path)
            self.guard, self._constraints = found, manifest.constraints
            if self._braking is None and manifest.deceleration:
                self._braking = manifest
            return found

    def tighten(self, limits: Mapping[str, object]) -> Guard:
        """Make limits stricter, all of them or none; returns the guard now in force.

        Args:
            limits: Values of some of `LIMITS`.

        Raises:
            ConfigError: there is no bundle yet, a value makes no sense, or one is looser.
        """
        with self._lock:
            if self.guard is None:
                raise ConfigError(
                    f"{self._source}: {', '.join(limits)}: no limits are in force before the "
                    "first bundle; give them when the node starts"
                )
            self.guard = self._changed(self.guard, limits)
            self.tightened = {**self.tightened, **limits}
            return self.guard

    def follow(self, limits: Mapping[str, object]) -> Guard | None:
        """Obey what was tightened elsewhere where it is stricter; returns the guard in force."""
        with self._lock:
            self._followed = {**self._followed, **limits}
            if self.guard is not None:
                self.guard = self._stricter(self.guard, limits)
            return self.guard

    def _as_told(self, guard: Guard) -> Guard:
        """The guard with what was tightened here and elsewhere, each where it is stricter."""
        return self._stricter(self._stricter(guard, self.tightened), self._followed)

    def _stricter(self, guard: Guard, limits: Mapping[str, object]) -> Guard:
        """The guard with each limit that is stricter than its own.

        All at once, as they were given: one may be stricter only with another. Else one by one.
        """
        known = {name: limits[name] for name in LIMITS if name in limits}
        for some in (known, *({name: value} for name, value in known.items())):
            with contextlib.suppress(ConfigError):
                guard = self._changed(guard, some)
        return guard

    def _changed(self, guard: Guard, limits: Mapping[str, object]) -> Guard:
        """The guard with stricter limits."""
        safety = override(Config(safety=guard.safety), limits, self._source).safety
        if safety == guard.safety:
            return guard
        found = Guard(guard.spec, safety)
        refuse_looser(found, guard, self._source, ConfigError)
        return found


def admit(
    path: Path,
    manifest: Manifest,
    task: str,
    safety: SafetySettings,
    robot: RobotSpec | None = None,
    in_force: Guard | None = None,
    own: SafetySettings | None = None,
) -> Guard:
    """Check a bundle that somebody offers, for the controller and the watchdog alike.

    What the robot is says the robot's side: the description in the node's run, or one that the
    node was given. Else that in the run of the node's first bundle says it, and without both the
    first bundle that it accepts. What is safe says the robot's side, too: a bundle may be
    stricter, and where it is looser, the robot's own settings hold. A later one may be
    stricter, never looser, so that no swap switches safety off.

    Args:
        path: The bundle.
        manifest: What it says.
        task: The node's task.
        safety: The manifest's settings with those in it that the node was given.
        robot: The robot as the node's side describes it; None: it doesn't.
        in_force: Guard of the bundle accepted before; None: there was none.
        own: What the robot's side says is safe; None: nothing.

    Returns:
        The guard of this bundle, in force once the bundle is accepted.

    Raises:
        BundleError: it is for another task or robot, asks too much of the robot, or is looser
            than what is in force; names the field and both values.
        ConfigError: the safety settings don't fit the robot, or its description can't be read.
    """
    spec = manifest.spec
    if manifest.task != task:
        found = shortened(repr(manifest.task))
        raise BundleError(f"{path}: made for the task {found}; this controller's is {task!r}")
    if robot is None and in_force is None:
        robot = kept_robot(beside(path), task)
    if robot is not None:
        weaker = tuple(map(min, spec.effort_limits, robot.effort_limits))
        check_robot(path, spec, replace(robot, effort_limits=weaker))
    if in_force is not None:
        check_robot(path, spec, in_force.spec)
    guard = Guard(spec, safety)
    if own is not None:
        guard = _no_looser(guard, own, path)
    if in_force is not None:
        refuse_looser(guard, in_force, path)
    return guard


def _no_looser(guard: Guard, own: SafetySettings, path: Path) -> Guard:
    """The guard with each setting of the robot's side that is stricter than its own.

    Raises:
        BundleError: neither is stricter, as each is for another joint.
    """
    ours = Guard(guard.spec, own)
    for names, room in ours.room.items():
        theirs = guard.room[names]
        # Of safe commands none is the stricter one; the robot's side knows which it takes.
        if np.any(room < theirs) and (np.all(room <= theirs) or "safe_command" in names):
            changes = {name: getattr(own, name) for name in names}
            guard = Guard(guard.spec, guard.safety.model_copy(update=changes))
    refuse_looser(guard, ours, path)
    return guard


def refuse_looser(
    guard: Guard, in_force: Guard, source: Path | str, error: type[HucrlError] = BundleError
) -> None:
    """Refuse a guard that leaves more room than the one in force.

    Raises:
        HucrlError: names the setting and both values.
    """
    for names, room in guard.room.items():
        if np.any(room > in_force.room[names]):
            raise error(
                f"{source}: looser than the safety in force: {_told(names, guard.safety)}, in "
                f"force {_told(names, in_force.safety)}; start the node anew to loosen it"
            )


def check_robot(path: Path, made_for: RobotSpec, here: RobotSpec) -> None:
    """Refuse a bundle that was made for another robot than the one here.

    Raises:
        BundleError: names the field and both values.
    """
    for field in fields(RobotSpec):
        theirs, ours = getattr(made_for, field.name), getattr(here, field.name)
        if theirs != ours:
            raise BundleError(
                f"{path}: made for another robot: {field.name} is {shortened(repr(theirs))} in "
                f"the bundle, {shortened(repr(ours))} here"
            )


def _told(names: Sequence[str], safety: SafetySettings) -> str:
    values = ((name, getattr(safety, name)) for name in names)
    return ", ".join(f"safety.{name} = {shortened(value)}" for name, value in values)
