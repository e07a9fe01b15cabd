"""The robot's side: a run as a learner on another machine sees it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import BinaryIO

from hucrl_ros.config.regular_files import open_regular
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import Description
from hucrl_ros.errors import HucrlError
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.remote.contract import (
    AWAY_S,
    SHARED,
    Digests,
    FileEntry,
    Listing,
    Missing,
    Order,
    Report,
    files_below,
    require_plain_names,
)
from hucrl_ros.run.remote.inbox import Inbox, RefusedError


class Exchange:
    """What a learner may read, what it is asked for, and what is taken of it.

    Bundles are the truth: one that is in the run's folder has come, whoever made it.
    """

    def __init__(self, run: RunFolder, config: Config, described: Description) -> None:
        """Begin a session, in which nothing is on its way."""
        self._run, self._config = run, config
        self._inbox = Inbox(run, config, described, self.hear)
        self._digests = Digests(run.root)
        self._lock = threading.Lock()
        self._requested: int | None = None
        self._learner = ""
        self._heard_at = time.monotonic()
        self.report: Report | None = None
        """The newest one of this session."""
        self.refused = ""
        """Why the newest file or bundle that was sent wasn't taken; empty: it was."""

    # For the node

    def request(self, bundle: int) -> None:
        """From now on wait for this bundle."""
        if self.report is not None and not self.report.failed:
            self.report = None
        self.refused, self._requested = "", bundle

    def close(self) -> None:
        """Delete what is half-sent."""
        self._inbox.close()

    @property
    def wanted(self) -> int | None:
        """Number of the bundle that is waited for; None: none is."""
        # The first one is random efforts, without a request, unless it is learned from `prior/`.
        random = self._config.exploration.random_episodes > 0
        first = 0 if random or not self._run.prior.is_dir() else None
        for index in (first, self._requested):
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
        folders = [run.robot, run.prior, *(run.bag(k) for k in range(finished))]
        if self._config.model.interrupted:
            folders += [path for k in range(finished) for path in run.interrupted(k)]
        folders += [run.bundle(k) for k in range(finished + 1)]
        paths = [run.config_path.name]
        for folder in folders:
            paths += files_below(root, str(folder.relative_to(root)))
        # Weights whose bundle hasn't come are nobody's: whoever learns it has others.
        kept = [run.checkpoint(k) for k in range(-1, finished) if run.bundle(k + 1).is_dir()]
        paths += [str(path.relative_to(root)) for path in kept if path.is_file()]
        require_plain_names(root, paths)
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
        """Take in a file of the bundle that is waited for, see `Inbox.take`.

        Raises:
            RefusedError: nobody waits for it, or it is not what it should be.
        """
        with self._refusals_told():
            return self._inbox.take(self._wanted_now(), path, size, sha256, read)

    def finish(self, index: int) -> Order:
        """Let the bundle that was sent appear; returns the next order.

        Raises:
            RefusedError: it isn't complete, or not what the run needs.
        """
        if index != self._wanted_now():
            raise RefusedError(HTTPStatus.CONFLICT, f"bundle {index} isn't waited for")
        with self._refusals_told():
            self._inbox.finish(index)
        return self.order()

    @contextmanager
    def _refusals_told(self) -> Iterator[None]:
        try:
            yield
        except (ConnectionError, TimeoutError):
            raise  # the network
        except (HucrlError, OSError) as error:  # also of this side's disk or key
            self.refused = str(error)
            raise
        self.refused = ""

    def _wanted_now(self) -> int:
        index = self.wanted
        if index is None:
            raise RefusedError(HTTPStatus.CONFLICT, "no bundle is waited for")
        return index
