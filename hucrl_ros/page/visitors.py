"""The browsers that look at the page, and what each has of its own."""

import gc
import logging
import math
import time

import numpy as np
from numpy.typing import NDArray
from viser import ClientHandle, ViserServer

from hucrl_ros.config.task_file import Description
from hucrl_ros.page.controls import Controls
from hucrl_ros.page.heard import Heard
from hucrl_ros.page.kinematics import Kinematics
from hucrl_ros.page.look import BRAND
from hucrl_ros.page.memory import Memory
from hucrl_ros.page.past import Past
from hucrl_ros.page.repeated import Repeated
from hucrl_ros.page.stage import show_narrow
from hucrl_ros.page.timeline import TimeLine
from hucrl_ros.page.wishes import Wishes

logger = logging.getLogger(__name__)

ADVANCE_S, LOOK_S = 0.05, 1.0
"""[s] Between two looks at what browsers want to see, and at what the run's folder has."""
SWEEP_S = 2.0
"""[s] From when a browser has left until its memory is free."""


class Visitor:
    """One browser."""

    def __init__(self, client: ClientHandle, time: TimeLine, controls: Controls) -> None:
        self.time, self.controls = time, controls
        self._client = client
        dark = client.gui.add_checkbox("dark", False, order=95)
        dark.on_update(lambda _: self._paint(dark.value))

    def _paint(self, dark: bool) -> None:
        self._client.gui.configure_theme(
            show_logo=False, show_share_button=False, dark_mode=dark, brand_color=BRAND
        )


class Visitors:
    """All of them; one thread draws for all."""

    def __init__(
        self,
        server: ViserServer,
        described: Description,
        past: Past,
        heard: Heard,
        wishes: Wishes,
        token: str,
    ) -> None:
        """Wait for browsers; whoever enters `token` gets the controls."""
        self._server, self._token = server, token
        self._past, self._heard, self._wishes = past, heard, wishes
        self._kinematics = Kinematics(described)
        self._memory = Memory(past, Kinematics(described), heard.rhythm, self._watched)
        self._known: dict[int, Visitor] = {}
        self._odd: set[int] = set()
        self._looked, self._sweep = -LOOK_S, math.inf
        self._finished, self._bundles = 0, list[str]()
        self._thread = Repeated(self._advance, ADVANCE_S, "visitors", heard.rhythm)

    def close(self) -> None:
        """Draw for nobody any more."""
        self._thread.close()
        self._memory.close()

    def _welcome(self, client: ClientHandle) -> Visitor:
        show_narrow(client, self._kinematics)
        size = float(self._kinematics.model.stat.extent)
        line = TimeLine(client, self._kinematics, self._memory)
        controls = Controls(client, self._wishes, self._token, self._goal(), size)
        return Visitor(client, line, controls)

    def _goal(self) -> NDArray[np.float64] | None:
        """Where the goal is, or is drawn where none was heard of."""
        if not self._kinematics.goal:
            return None
        told = self._heard.now.goal
        if told is not None:
            return np.array(told)
        return np.asarray(self._kinematics.model.body(self._kinematics.goal).pos, np.float64)

    def _watched(self) -> set[int]:
        """Finished episodes that somebody looks at."""
        looked_at = (visitor.time.past for visitor in self._known.values())
        return {episode for episode in looked_at if episode is not None}

    def _advance(self) -> None:
        # Looked up rather than told of: one that is gone before it is welcome is never known.
        clients, before = self._server.get_clients(), self._known
        self._known = {i: before[i] for i in clients if i in before}
        self._odd &= clients.keys()
        now = time.monotonic()
        if before.keys() - clients.keys():
            self._sweep = min(self._sweep, now + SWEEP_S)
        if now > self._sweep:
            # What a browser had of its own refers to itself, and Python would let tens of MB of
            # that come together before it looks.
            self._sweep = math.inf
            gc.collect()
        if not clients:
            return
        if now > self._looked + LOOK_S:
            self._looked = now
            self._finished, self._bundles = self._past.finished, self._past.bundles()
        for number in clients.keys() - self._odd:
            try:
                self._draw_for(number, clients[number])
            except Exception:
                # Of what a browser sent; others are drawn for as before.
                logger.exception("a browser is drawn for no longer")
                self._known.pop(number, None)
                self._odd.add(number)

    def _draw_for(self, number: int, client: ClientHandle) -> None:
        if number not in self._known:
            self._known[number] = self._welcome(client)
        visitor, used = self._known[number], self._heard.now.bundle
        visitor.time.offer(self._finished, self._wishes.connected)
        visitor.time.advance()
        visitor.controls.advance(self._bundles, used.name if used is not None else "")
