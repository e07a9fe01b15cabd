"""When the controller computes nothing, so that the page can do its work then.

Two processes that compute at once share caches and memory, on a small machine the processor as
well: whatever the page does beside a tick makes the tick longer.
"""

import threading
import time

SILENT_S = 1.0
"""[s] After this long without a tick nobody knows when the next one comes."""
BEGIN = 0.15
"""Share of the time between two ticks in which work may begin, that it is over before the next."""


class Rhythm:
    """Follows the ticks; any thread may ask."""

    def __init__(self, period: float | None) -> None:
        """`period`: of control [s]; None: physics waits for the controller (lockstep)."""
        self._period = period
        self._lock = threading.Lock()
        self._ended, self._took = -SILENT_S, 0.0

    def tick(self, ended: float, took: float) -> None:
        """A tick ended then, by the steady clock [s], and took so long [s]."""
        with self._lock:
            if ended > self._ended:
                self._ended, self._took = ended, took

    def wait(self, now: float | None = None) -> float:
        """Seconds until work may begin: 0 soon after a tick, or where there are none."""
        now = time.monotonic() if now is None else now
        with self._lock:
            ended, took = self._ended, self._took
        if self._period is None or now - ended > SILENT_S:
            return 0.0
        since = (now - ended) % self._period
        return 0.0 if since < BEGIN * (self._period - took) else self._period - since
