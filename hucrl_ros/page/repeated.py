"""A function that is called again and again, in a thread of its own."""

import logging
import threading
import time
from collections.abc import Callable

from hucrl_ros.page.rhythm import Rhythm

logger = logging.getLogger(__name__)


class Repeated:
    """Calls a function again and again in a thread of its own, until it is closed."""

    def __init__(self, call: Callable[[], None], period: float, name: str, rhythm: Rhythm) -> None:
        """Begin at once; `period` is the least time from call to call [s], between ticks."""
        self._call, self._period, self._rhythm = call, period, rhythm
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End; the call under way is waited for."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        begin = time.monotonic()
        while not self._closed.wait(max(0.0, begin + self._period - time.monotonic())):
            self._closed.wait(self._rhythm.wait())
            begin = time.monotonic()
            try:
                self._call()
            except Exception:
                logger.exception("the page could not be drawn")
