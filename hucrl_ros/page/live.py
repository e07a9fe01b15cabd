"""Draws the robot as it is heard of, with what the bundle in force believes at that moment."""

import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from viser import ViserServer

from hucrl_ros.config.task_file import Description
from hucrl_ros.controller.examiner import load_examined
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.errors import BundleError, HucrlError
from hucrl_ros.page.belief import Belief, Believer
from hucrl_ros.page.figure import Figure
from hucrl_ros.page.heard import Heard
from hucrl_ros.page.kinematics import Kinematics
from hucrl_ros.page.repeated import Repeated

FRAME_S = 1.0 / 30.0
"""[s] Least time between two pictures."""
THINK_S = 0.5
"""[s] Least time between two plans."""
SILENT_S = 2.0
"""[s] After this long without a joint state the robot isn't heard of any more."""
TRACE = 150
"""Places of the tip that are drawn: each picture sends all of them."""
MEASURED = 300
"""Pictures by which the page's own pace is told."""
Array = NDArray[np.float64]


class Pace(NamedTuple):
    """How fast the page draws."""

    rate: float
    """Pictures in a second, while the robot moves (median)."""
    p50: float
    """From a joint state's arrival to its picture being sent, median [ms]."""
    p99: float
    """99% quantile [ms]."""


class Live:
    """The live scene, the same for everybody."""

    root = "/live"

    def __init__(
        self, server: ViserServer, described: Description, heard: Heard, bundles: Path
    ) -> None:
        """Draw the robot and begin to follow it; `bundles`: folder of the run's."""
        self._server, self._heard, self._bundles = server, heard, bundles
        kinematics = Kinematics(described)
        self._kinematics, self._thinking = kinematics, Kinematics(described)
        self._figure = Figure(server.scene, kinematics, self.root)
        self._trace: deque[Array] = deque(maxlen=TRACE)
        self._drawn = (-1, -1)
        self._state: Array = np.zeros(kinematics.spec.state_dim)
        self._untold: Array = kinematics.way(self._state[None])[0]
        self._believer: Believer | None = None
        self._believed: Path | None = None
        self._belief: Belief | None = None
        self._belief_is_new = False
        self._sent: deque[tuple[float, float]] = deque(maxlen=MEASURED)
        """When pictures were sent, and how old their joint states were [s]."""
        self._threads = [
            Repeated(self._draw, FRAME_S, "draw", heard.rhythm),
            Repeated(self._think, THINK_S, "think", heard.rhythm),
        ]

    def close(self) -> None:
        """Stop following."""
        for thread in self._threads:
            thread.close()

    @property
    def pace(self) -> Pace | None:
        """Of the newest pictures; None before there are two."""
        times, ages = np.array(list(self._sent)).reshape(-1, 2).T
        if len(times) < 2 or times[-1] == times[0]:
            return None
        p50, p99 = np.percentile(1e3 * ages, (50, 99))
        return Pace(float(1.0 / np.median(np.diff(times))), float(p50), float(p99))

    def _draw(self) -> None:
        self._heard.fetch()
        now = self._heard.now
        place = (now.episode, now.stamp_ns)
        state = None if place == self._drawn else now.state
        if state is None and not self._belief_is_new:
            return
        if state is not None and now.episode != self._drawn[0]:
            self._trace.clear()
            self._untold = np.zeros_like(self._untold)
        elif state is not None:
            passed = (now.stamp_ns - self._drawn[1]) / NANOSECONDS
            periods = min(max(passed, 0.0), SILENT_S) / self._kinematics.spec.period
            way = self._kinematics.way(np.stack([self._state, state]))
            self._untold = self._untold + periods * way[-1]
        with self._server.atomic():
            if state is not None:
                self._figure.pose(state, self._untold)
                self._trace.append(self._kinematics.tips(state, self._untold))
                self._figure.happened(np.array(self._trace))
            if self._belief_is_new:
                self._belief_is_new = False
                self._figure.believe(self._belief)
        if state is not None:
            done = time.monotonic()
            self._sent.append((done, done - now.received))
            self._drawn, self._state = place, state

    def _think(self) -> None:
        now = self._heard.now
        silent = time.monotonic() - now.received > SILENT_S
        idle = silent or not now.active or not self._server.get_clients()
        belief = None
        if now.state is not None and now.bundle is not None and not idle:
            # Anybody may publish a path; only what the run holds is read.
            bundle = self._bundles / now.bundle.name
            if bundle != self._believed:
                self._believed, self._believer = bundle, _believer(bundle, self._heard)
            if self._believer is not None:
                given = (now.state, self._untold, self._thinking, self._heard.rhythm)
                belief = self._believer.from_state(*given)
        if belief is not None or self._belief is not None:
            self._belief, self._belief_is_new = belief, True


def _believer(path: Path, heard: Heard) -> Believer | None:
    try:
        bundle = load_examined(path)
        return None if bundle.manifest.random else Believer(bundle)
    except (BundleError, HucrlError) as error:
        heard.note("page", str(error))
        return None
