"""Who may control a run: whoever knows the token."""

import hmac
import threading
import time
from collections.abc import Callable

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""[s] After a wrong token; it doubles with each."""


class Door:
    """The token's check, for one browser."""

    def __init__(self, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` tells seconds from any start."""
        self._token, self._clock = token.encode(), clock
        self._wait, self._until = FIRST_WAIT, 0.0
        self._lock = threading.Lock()

    def opens(self, given: str) -> bool:
        """Whether it is the token. For a while after a wrong one nothing is."""
        with self._lock:
            if self._clock() < self._until:
                return False
            if hmac.compare_digest(given.strip().encode(errors="replace"), self._token):
                return True
            self._until = self._clock() + self._wait
            self._wait = min(2.0 * self._wait, LONGEST_WAIT)
            return False

    @property
    def shut_for(self) -> float:
        """Until the next attempt counts [s]."""
        return max(0.0, self._until - self._clock())
