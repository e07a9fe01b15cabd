"""Loads bundles in a thread of its own, so that no tick has to wait for it."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from hucrl_ros.errors import HucrlError, shortened

logger = logging.getLogger(__name__)

Loaded = TypeVar("Loaded")
LINE = 1000
"""Most letters of a line that says why a bundle was refused."""


@dataclass(frozen=True)  # a NamedTuple can't be generic before Python 3.11
class Outcome(Generic[Loaded]):
    """How loading ended."""

    path: Path
    loaded: Loaded | None
    """What was loaded; None if it was refused."""
    error: str
    """Why it was refused, in one line."""


class BundleLoader(Generic[Loaded]):
    """Loads the bundle asked for last; ONNX Runtime and hashing release the interpreter."""

    def __init__(self, prepare: Callable[[Path], Loaded]) -> None:
        """`prepare` loads, verifies and warms up; it runs in the loader's thread."""
        self._prepare = prepare
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bundle")
        # Now, so that it doesn't inherit what the control loop's thread will be given.
        self._pool.submit(int).result()
        self._future: Future[Outcome[Loaded]] | None = None

    def request(self, path: Path) -> None:
        """Start loading; an older request whose outcome wasn't taken is dropped."""
        self.cancel()
        self._future = self._pool.submit(self.load, path)

    def cancel(self) -> None:
        """Forget the last request."""
        if self._future is not None:
            self._future.cancel()
        self._future = None

    def poll(self) -> Outcome[Loaded] | None:
        """The outcome of the last request, once."""
        if self._future is None or not self._future.done():
            return None
        future, self._future = self._future, None
        return future.result()

    def load(self, path: Path) -> Outcome[Loaded]:
        """Load now, in the calling thread."""
        try:
            return Outcome(path, self._prepare(path), "")
        except HucrlError as error:
            return Outcome(path, None, shortened(error, LINE))
        except Exception as error:
            logger.exception("%s can't be loaded", shortened(path))
            reason = f"{shortened(path)}: {type(error).__name__}: {error}"
            return Outcome(path, None, shortened(reason, LINE))

    def close(self) -> None:
        """Drop what is waiting; a load under way ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)
