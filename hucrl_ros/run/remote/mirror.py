"""The learner's copy of a robot's run: fetched as it grows, and never mixed with another's."""

import shutil
from functools import partial
from pathlib import Path

from hucrl_ros.config.files import load_config, to_disk
from hucrl_ros.controller.manifest import MANIFEST
from hucrl_ros.errors import RunError
from hucrl_ros.run.folder import RunFolder, numbered
from hucrl_ros.run.remote.client import RobotClient, patiently
from hucrl_ros.run.remote.contract import Digests, FileEntry, Order, unit_of

MAY_CHANGE = {"episodes", "device"}
"""Settings that may change when a run is resumed."""
ORDER = ("config.yaml", "robot", "prior", "episodes", "checkpoints", "bundles")
"""What is fetched first: nothing may come after an episode that isn't there."""


class Mirror:
    """Fetches what the robot has; sends what it waits for."""

    def __init__(self, client: RobotClient, root: Path) -> None:
        self._client = client
        self.run = RunFolder(root)
        self._digests = Digests(self.run.root)
        run = self.run
        for folder in (run.episodes, run.bundles, run.checkpoints, run.logs, run.incoming):
            folder.mkdir(parents=True, exist_ok=True)

    def fetch(self) -> None:
        """Fetch what is missing or has changed, and go on where a transfer broke off.

        Raises:
            RunError: the folder holds another run.
            UnreachableError: the robot's side doesn't answer.
        """
        listed = self._client.listing().files
        units: dict[str, dict[str, FileEntry]] = {}
        for path, entry in listed.items():
            units.setdefault(unit_of(path), {})[path] = entry
        self._require_same_run(units)
        for unit in sorted(units, key=lambda x: (ORDER.index(x.split("/")[0]), numbered(x))):
            if not self._has(units[unit]):
                self._fetch_unit(unit, units[unit])

    def send(self, index: int) -> Order:
        """Send a bundle, and the weights that were learned with it; returns the next order.

        Raises:
            RunError: it was refused again and again.
            UnreachableError: the robot's side doesn't answer.
        """
        return patiently(lambda: self._send(index))

    def _send(self, index: int) -> Order:
        run, bundle = self.run, self.run.bundle(index)
        weights = run.checkpoint(index - 1)
        if weights.is_file():
            self._client.send(self._name(weights), weights)
        missing = self._client.send(self._name(bundle / MANIFEST), bundle / MANIFEST)
        for name in missing:
            self._client.send(self._name(bundle / name), bundle / name)
        return self._client.finish(index)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.run.root).as_posix()

    def _fetch_unit(self, unit: str, files: dict[str, FileEntry]) -> None:
        root, incoming = self.run.root, self.run.incoming
        for path, entry in files.items():
            part = incoming / path
            part.parent.mkdir(parents=True, exist_ok=True)
            patiently(partial(self._client.fetch, path, entry, part))
        if unit == self.run.config_path.name and self.run.config_path.is_file():
            self._require_same_settings(incoming / unit)
        to_disk(*(incoming / path for path in files))
        target = root / unit
        if target.is_dir():
            shutil.rmtree(target)
        (incoming / unit).replace(target)

    def _has(self, files: dict[str, FileEntry]) -> bool:
        root = self.run.root
        return all((root / p).is_file() and self._digests.entry(p) == e for p, e in files.items())

    def _require_same_run(self, units: dict[str, dict[str, FileEntry]]) -> None:
        """What is here of these never changes: where one differs, this is another run's copy."""
        run = self.run
        kept = [run.robot, run.prior, *(run.bag(k) for k in range(run.finished_episodes()))]
        for unit in (self._name(folder) for folder in kept if folder.is_dir()):
            if unit not in units or not self._has(units[unit]):
                raise RunError(
                    f"{self.run.root}: holds another run than the robot's ({unit} differs); "
                    "choose another folder: --out DIR"
                )

    def _require_same_settings(self, new: Path) -> None:
        ours, theirs = (load_config(p).model_dump() for p in (self.run.config_path, new))
        if changed := {key for key in ours if ours[key] != theirs[key]} - MAY_CHANGE:
            raise RunError(
                f"{self.run.root}: holds another run than the robot's "
                f"({', '.join(sorted(changed))} differs); choose another folder: --out DIR"
            )
