"""What persons wish of the episodes to come, as the supervisor goes by it."""

import re
from dataclasses import dataclass
from pathlib import Path

from rclpy.node import Node

from hucrl_ros.config.schema import Config
from hucrl_ros.controller.admission import Admission
from hucrl_ros.controller.trust import Trust
from hucrl_ros.errors import ConfigError
from hucrl_ros.nodes.parameters import origin, robot_of_run
from hucrl_ros.nodes.wishes import BUNDLE, PAUSE, Wish, Wishes
from hucrl_ros.run.folder import RunFolder, numbered
from hucrl_ros.run.progress import Phase


@dataclass
class Steering:
    """What holds now; nothing of it reaches into an episode under way."""

    bundle: str = ""
    """Name of the bundle that flies; empty: the newest."""
    paused: bool = False
    """No learning and no episode begins."""
    refused: str = ""
    """A wished bundle that the controller has refused, until another one is wished for."""

    def holds(self, stopped: bool) -> Phase | None:
        """Why no episode may begin, if so."""
        if stopped:
            return Phase.HELD
        if self.paused:
            return Phase.PAUSED
        return Phase.REFUSED if self.refused and self.refused == self.bundle else None


class RunWishes:
    """The supervisor's parameters `next.bundle` and `pause`."""

    def __init__(self, node: Node, run: RunFolder, config: Config) -> None:
        """Declare them; bundles are judged as the controller will, but not loaded."""
        root = config.control.bundle_root
        self._run = run
        self._anew = False
        self._trust = Trust(Path(root) if root else run.root, config.control.trusted_keys)
        self._admission = Admission(
            config.task, {}, robot_of_run(node, config.task), origin(node), config.safety
        )
        self._wishes = Wishes(
            node,
            {
                BUNDLE: Wish(
                    "",
                    "Bundle of the run that flies in the next episodes, until it is changed; "
                    "empty: the newest.",
                    "the name of a folder in the run's bundles/, e.g. bundle_003, or empty",
                    self._judge,
                ),
                PAUSE: Wish(
                    False,
                    "After the episode under way neither learning nor another episode begins.",
                    "true, false",
                    lambda paused: None,
                ),
            },
        )

    def show(self, steering: Steering) -> None:
        """Let `steering` be what is wished now."""
        steering.bundle, steering.paused = self._wishes[BUNDLE], self._wishes[PAUSE]
        if self._anew:  # The same one again: whoever wishes it may have mended it.
            steering.refused, self._anew = "", False

    def _judge(self, name: str) -> None:
        """Raise a `HucrlError` where it is no bundle of the run, or none that may play."""
        if not name:
            return
        path = self._run.bundles / name
        if not re.fullmatch(r"bundle_\d{3,6}", name) or not path.is_dir():
            found = sorted((x.name for x in self._run.bundles.glob("bundle_*")), key=numbered)
            known = f"{found[0]} to {found[-1]}" if found else "none yet"
            raise ConfigError(
                f"{BUNDLE} = {name!r}: no such bundle in {self._run.bundles}; accepted: the name "
                f"of one ({known}), or empty for the newest"
            )
        manifest = self._trust.read_manifest(path)
        for file in manifest.files:
            if not (path / file).is_file():
                raise ConfigError(f"{BUNDLE} = {name!r}: {path / file} is missing")
        self._admission.anew().admit(path, manifest)
        self._anew = True
