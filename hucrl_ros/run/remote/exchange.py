"""The robot's side: what a learner may read, and what of it is taken in, whatever it sends."""

import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.bundle import BUNDLE_BYTES, load_bundle
from hucrl_ros.controller.manifest import MANIFEST, MANIFEST_BYTES, Manifest, read_manifest
from hucrl_ros.errors import BundleError, HucrlError, RunError, shortened
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.remote.contract import (
    AWAY_S,
    CHECKPOINT_BYTES,
    CHUNK,
    SHARED,
    Digests,
    FileEntry,
    Listing,
    Missing,
    Order,
    Report,
    files_below,
    open_regular,
)

FREE = 2**28
"""Bytes of the disk that stay free: a bag has to fit."""


class RefusedError(HucrlError):
    """A request that isn't served; says why in one line."""

    def __init__(self, status: HTTPStatus, line: str) -> None:
        super().__init__(line)
        self.status = status


class Exchange:
    """A run as a learner on another machine sees it; for the threads of a server.

    Bundles are the truth: one that is in the run's folder has come, whoever made it.
    """

    def __init__(self, run: RunFolder, config: Config, spec: RobotSpec) -> None:
        """Begin with nothing on its way: what an earlier session left half-sent is deleted."""
        self._run, self._config, self._spec = run, config, spec
        self._digests = Digests(run.root)
        self._lock = threading.Lock()
        self._requested: int | None = None
        self._learner = ""
        self._heard_at = time.monotonic()
        self.report: Report | None = None
        """The newest one of this session."""
        shutil.rmtree(run.incoming, ignore_errors=True)
        run.incoming.mkdir(parents=True)

    # For the node

    def request(self, bundle: int) -> None:
        """From now on wait for this bundle."""
        self.report = None
        self._requested = bundle

    def close(self) -> None:
        """Delete what is half-sent."""
        shutil.rmtree(self._run.incoming, ignore_errors=True)

    @property
    def wanted(self) -> int | None:
        """Number of the bundle that is waited for; None: none is."""
        for index in (0, self._requested):
            if index is not None and not self._run.bundle(index).is_dir():
                return index
        return None

    @property
    def silent_s(self) -> float:
        """How long nothing was heard of a learner [s]."""
        return time.monotonic() - self._heard_at

    # For the server

    def hear(self) -> None:
        """A learner does something."""
        self._heard_at = time.monotonic()

    def take_report(self, report: Report) -> Order:
        """What a learner says; returns what it is asked for.

        Raises:
            RefusedError: it is not the one that this run has.
        """
        with self._lock:
            if report.learner != self._learner and self._learner and self.silent_s < AWAY_S:
                raise RefusedError(HTTPStatus.CONFLICT, "another learner is connected")
            self._learner = report.learner
            self.hear()
        self.report = report
        return self.order()

    def order(self) -> Order:
        """What a learner is asked for."""
        return Order(
            wanted=self.wanted,
            settings=self._digests.entry(self._run.config_path.name).sha256,
            finished=self._run.bundle(self._config.episodes).is_dir(),
        )

    def listing(self) -> Listing:
        """All that may be read.

        Raises:
            RunError: one of the files that a learner needs has a name that may not travel.
        """
        run, root = self._run, self._run.root
        finished = run.finished_episodes()
        folders = [run.robot, *(run.bag(k) for k in range(finished))]
        folders += [run.bundle(k) for k in range(finished + 1)]
        paths = [run.config_path.name]
        for folder in folders:
            paths += files_below(root, str(folder.relative_to(root)))
        kept = (run.checkpoint(k) for k in range(finished))
        paths += [str(path.relative_to(root)) for path in kept if path.is_file()]
        for path in paths:
            if not SHARED.fullmatch(path):
                raise RunError(
                    f"{root}/{shortened(path)}: only files with plain names travel: letters, "
                    "digits, dots, lines, below nine folders"
                )
        return Listing(name=root.name, files={path: self._digests.entry(path) for path in paths})

    def open(self, path: str) -> tuple[BinaryIO, FileEntry]:
        """A file that may be read, opened.

        Raises:
            RefusedError: `path` is no such file.
        """
        entry = self.listing().files.get(path) if SHARED.fullmatch(path) else None
        if entry is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, "no such file")
        try:
            return open_regular(self._run.root / path), entry
        except OSError as error:
            raise RefusedError(HTTPStatus.NOT_FOUND, f"{path}: {error.strerror}") from None

    def take_file(
        self, path: str, size: int, sha256: str, read: Callable[[int], bytes]
    ) -> Missing:
        """Take in a file that is waited for, and return what of its bundle is still missing.

        Args:
            path: Where it belongs in the run's folder.
            size: Its length [bytes].
            sha256: Its hash, as the sender says.
            read: Reads up to so many bytes of it.

        Raises:
            RefusedError: nobody waits for it, it is too large, or it is not what it should be.
        """
        index = self._wanted_now()
        staged = self._staged(index)
        target, limit = self._place(path, index)
        if size > limit:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"{path} has {size} bytes, more than the {limit} accepted",
            )
        if shutil.disk_usage(self._run.incoming).free < size + FREE:
            raise RefusedError(HTTPStatus.INSUFFICIENT_STORAGE, "the robot's disk is full")
        descriptor, name = tempfile.mkstemp(dir=self._run.incoming)
        try:
            with os.fdopen(descriptor, "wb") as file:
                found = self._copy(read, file, size)
            if found != sha256:
                raise RefusedError(
                    HTTPStatus.UNPROCESSABLE_ENTITY,
                    f"{path}: its SHA-256 is {found[:12]}…, the sender says {sha256[:12]}…",
                )
            with self._lock:
                if target == staged / MANIFEST:
                    self._begin_bundle(index, Path(name).read_bytes())
                elif target.parent == staged:
                    self._require_listed(staged, path, found)
                Path(name).replace(target)
                return self._missing(staged)
        finally:
            Path(name).unlink(missing_ok=True)

    def finish(self, index: int) -> Order:
        """Check the bundle that was sent, and let it appear; returns the next order.

        Raises:
            RefusedError: it isn't complete, or not what the run needs; it is deleted then.
        """
        with self._lock:
            if index != self._wanted_now():
                raise RefusedError(HTTPStatus.CONFLICT, f"bundle {index} isn't waited for")
            staged = self._staged(index)
            if missing := self._missing(staged).missing:
                raise RefusedError(HTTPStatus.CONFLICT, f"still missing: {', '.join(missing)}")
            try:
                bundle = load_bundle(staged, self._spec)
                require_ours(bundle.manifest, self._config, index)
            except BundleError as error:
                shutil.rmtree(staged, ignore_errors=True)
                line = str(error).replace(str(staged), staged.name)
                raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, line) from None
            weights = self._weights(index)
            if weights.is_file():
                weights.replace(self._run.checkpoint(index - 1))
            staged.rename(self._run.bundle(index))
        return self.order()

    # What is on its way

    def _wanted_now(self) -> int:
        index = self.wanted
        if index is None:
            raise RefusedError(HTTPStatus.CONFLICT, "no bundle is waited for")
        return index

    def _staged(self, index: int) -> Path:
        return self._run.incoming / self._run.bundle(index).name

    def _weights(self, index: int) -> Path:
        """Weights after learning from the episode before; there are none before episode 0."""
        return self._run.incoming / self._run.checkpoint(index - 1).name

    def _place(self, path: str, index: int) -> tuple[Path, int]:
        """Where a file waits for its bundle to be complete, and its largest size [bytes]."""
        folder, _, name = path.rpartition("/")
        staged = self._staged(index)
        if SHARED.fullmatch(path):
            if folder == f"{self._run.bundles.name}/{staged.name}":
                if name == MANIFEST:
                    return staged / name, MANIFEST_BYTES
                if name in self._listed(staged):
                    held = sum(p.stat().st_size for p in staged.iterdir() if p.name != name)
                    return staged / name, BUNDLE_BYTES - held
            elif index and path == f"{self._run.checkpoints.name}/{self._weights(index).name}":
                return self._weights(index), CHECKPOINT_BYTES
        raise RefusedError(HTTPStatus.NOT_FOUND, "nobody waits for such a file")

    def _copy(self, read: Callable[[int], bytes], file: BinaryIO, size: int) -> str:
        digest = hashlib.sha256()
        while size and (chunk := read(min(size, CHUNK))):
            file.write(chunk)
            digest.update(chunk)
            size -= len(chunk)
            self.hear()
        if size:
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"{size} bytes of a file didn't come")
        return digest.hexdigest()

    def _begin_bundle(self, index: int, content: bytes) -> None:
        """Keep what came of the bundle already only where its manifest is the same."""
        staged = self._staged(index)
        if staged.is_dir() and (staged / MANIFEST).read_bytes() == content:
            return
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir()
        try:
            (staged / MANIFEST).write_bytes(content)
            require_ours(read_manifest(staged), self._config, index)
        except BundleError as error:
            shutil.rmtree(staged)
            line = str(error).replace(str(staged), staged.name)
            raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, line) from None

    def _listed(self, staged: Path) -> Mapping[str, str]:
        """Names and hashes of the bundle's files; none before its manifest has come."""
        return read_manifest(staged).files if (staged / MANIFEST).is_file() else {}

    def _require_listed(self, staged: Path, path: str, found: str) -> None:
        listed = self._listed(staged).get(path.rpartition("/")[2])
        if found != listed:
            raise RefusedError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"{path}: its SHA-256 is {found[:12]}…, the manifest says {str(listed)[:12]}…",
            )

    def _missing(self, staged: Path) -> Missing:
        listed = self._listed(staged) or [MANIFEST]
        return Missing(missing=tuple(n for n in listed if not (staged / n).is_file()))


def require_ours(manifest: Manifest, config: Config, index: int) -> None:
    """A bundle from elsewhere must be for this episode of this run, with the run's own settings.

    Raises:
        BundleError: names what differs.
    """
    random = index < config.exploration.random_episodes
    for name, ours in {
        "episode": index,
        "task": config.task,
        "action_penalty": config.action_penalty,
        "strategy": config.strategy,
        "seed": config.seed,
        "random": random,
        "random_share": config.exploration.random_share,
        "random_bandwidth": config.exploration.random_bandwidth,
        "planner": config.planner,
        "safety": config.safety,
        "driver": config.driver,
    }.items():
        theirs = getattr(manifest, name)
        if theirs != ours:
            raise BundleError(
                f"bundle {index}: {name} is {shortened(theirs)}, the run's is {shortened(ours)}"
            )
