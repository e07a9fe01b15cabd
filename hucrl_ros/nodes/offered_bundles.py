"""Reads, beside the watch, what the bundles that are played say of the robot."""

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from hucrl_ros.controller.admission import Admission
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.manifest import Manifest


class Admitted(NamedTuple):
    """What a bundle that the controller plays says of the robot."""

    name: str
    manifest: Manifest


class OfferedBundles:
    """Manifests of bundles, read and admitted in a thread, and the limits that follow.

    Whatever a reader does, the watch goes on: a bundle that can't be read changes nothing.
    """

    def __init__(self, admission: Admission, read: Callable[[Path], Manifest]) -> None:
        """Begin with no bundle, as `admission` does, and with what reads a trusted manifest."""
        self._admission, self._read = admission, read
        self._own: dict[str, object] = {}
        self._thread = ThreadPoolExecutor(1, "bundle")
        self._thread.submit(int).result()  # so that its thread gets no priority
        self.forget()

    @property
    def guard(self) -> Guard | None:
        """In force; ahead of the bundle that was taken last, if limits were tightened."""
        return self._admission.guard

    def forget(self) -> None:
        """Nothing is known of the robot but what this node was given and told itself."""
        self._admission = self._admission.anew()
        self._admission.tightened = dict(self._own)
        self._offers: deque[Future[Admitted]] = deque()

    def offer(self, name: str) -> None:
        """Read the bundle in folder `name`, which takes the place of those that wait."""
        # The newest good one stays, and what is being read: no flood makes the watch miss it.
        read: list[Future[Admitted]] = []
        under_way: list[Future[Admitted]] = []
        for each in self._offers:
            if not each.cancel():
                (read if each.done() else under_way).append(each)
        good = [each for each in read if each.exception() is None]
        self._offers = deque([*good[-1:], *under_way])
        self._offers.append(self._thread.submit(self._admit, name, self._admission))

    def take(self) -> Admitted | None:
        """The next bundle that has been read and admitted; raises why it wasn't."""
        if not self._offers or not self._offers[0].done():
            return None
        return self._offers.popleft().result()

    def follow(self, limits: Mapping[str, object]) -> Guard | None:
        """Obey what was tightened in the controller; returns the guard in force."""
        return self._admission.follow(limits)

    def tighten(self, limits: Mapping[str, object]) -> Guard:
        """Tighten limits here, for as long as this node lives; returns the guard in force."""
        guard = self._admission.tighten(limits)
        self._own |= limits
        return guard

    def close(self) -> None:
        """Read no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _admit(self, name: str, admission: Admission) -> Admitted:
        path = Path(name)
        manifest, guard = admission.admit(path, self._read(path))
        admission.accept(path, manifest, guard)
        return Admitted(name, manifest)
