"""The guard in force in a node: of the bundle accepted last, with what was tightened since."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from hucrl_ros.config.files import override
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.guard import Guard, admit, refuse_looser
from hucrl_ros.controller.manifest import Manifest
from hucrl_ros.errors import ConfigError

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
        self, task: str, given: Mapping[str, object], robot: RobotSpec | None, source: str
    ) -> None:
        """Admit nothing yet.

        Args:
            task: The node's task.
            given: Dotted keys and values that replace a bundle's settings.
            robot: The robot as the node's run describes it; None: there is no run, or it doesn't.
            source: Where `given` comes from, for messages.
        """
        self._task, self._given, self._robot, self._source = task, given, robot, source
        self._lock = Lock()
        self.guard: Guard | None = None
        """In force; None before the first bundle."""
        self.tightened: Mapping[str, object] = {}
        """Limits made stricter while the node runs, by dotted keys."""

    def admit(self, path: Path, manifest: Manifest) -> tuple[Manifest, Guard]:
        """What plays if the bundle is accepted: its settings with the node's, and its guard.

        Raises:
            BundleError: see `guard.admit`.
            ConfigError: the settings don't fit each other or the robot.
        """
        manifest = override(manifest, self._given, f"{path} with {self._source}")
        safety = manifest.safety
        if self.tightened:
            safety = self._stricter(Guard(manifest.spec, safety), self.tightened).safety
        return manifest, admit(path, manifest, self._task, safety, self._robot, self.guard)

    def accept(self, path: Path, guard: Guard) -> Guard:
        """Put an admitted guard in force, with what was tightened in the meantime.

        Raises:
            BundleError: even so it is looser than what is in force.
        """
        with self._lock:
            found = self._stricter(guard, self.tightened)
            if self.guard is not None:
                refuse_looser(found, self.guard, path)
            self.guard = found
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
            self.tightened = {**self.tightened, **limits}
            if self.guard is not None:
                self.guard = self._stricter(self.guard, limits)
            return self.guard

    def _stricter(self, guard: Guard, limits: Mapping[str, object]) -> Guard:
        """The guard with each limit that is stricter than its own."""
        for name in LIMITS:
            if name in limits:
                with contextlib.suppress(ConfigError):
                    guard = self._changed(guard, {name: limits[name]})
        return guard

    def _changed(self, guard: Guard, limits: Mapping[str, object]) -> Guard:
        """The guard with stricter limits; it goes on from the same command."""
        safety = override(Config(safety=guard.safety), limits, self._source).safety
        if safety == guard.safety:
            return guard
        found = Guard(guard.spec, safety)
        refuse_looser(found, guard, self._source, ConfigError)
        found.reset(guard.last)
        return found
