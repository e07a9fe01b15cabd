"""What makes simulated time pass: the commands that arrive, or the steady clock."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from hucrl_ros.errors import HucrlError
from hucrl_ros.robots.mujoco_robot import Array, Plant, Sample

logger = logging.getLogger(__name__)

Publish = Callable[[Sample], None]


class Lockstep:
    """Each command makes one control period pass, as fast as the machine allows.

    Given the same commands it always publishes the same joint states.
    """

    failure: BaseException | None = None
    """Nothing ends the physics; see `RealTime`."""
    overruns = 0
    """No joint state is late."""

    def __init__(self, plant: Plant, publish: Publish) -> None:
        self._plant = plant
        self._publish = publish

    def start(self) -> None:
        """Publish the first joint state, then wait."""
        self._publish(self._plant.sample())

    def apply(self, command: Array | None) -> None:
        """Apply a command `(q,)` for a period, None: no action; publish what it leads to."""
        self._plant.command(command)
        self._plant.period()
        self._publish(self._plant.sample())

    def reset(self, episode: int) -> None:
        """Publish the start of the episode, then wait.

        Motors are cold again, so that an episode depends on no other.
        """
        self._plant.robot.cool()
        self._plant.reset(episode)
        self._publish(self._plant.sample())

    def stop(self) -> None:
        """Nothing runs between two commands."""


class RealTime:
    """Physics in a thread of its own by the steady clock; it waits for nobody.

    The newest command holds until the next one, however old it gets: so does the controller
    of a real robot, which is why there is a watchdog. A thread that wakes up late catches up,
    substep by substep, so simulated time never drifts from the steady clock.
    """

    def __init__(
        self,
        plant: Plant,
        publish: Publish,
        dead_time: float = 0.0,
        lateness: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Let time pass for a plant.

        Args:
            plant: The robot with its clock.
            publish: Gets the samples.
            dead_time: From a command's arrival until it acts, as of one sent over a bus [s].
            lateness: Draws the time from a measurement to its publication [s].
        """
        self._plant = plant
        self._publish = publish
        self._dead_time = dead_time
        self._lateness = lateness
        self.failure: BaseException | None = None
        """What ended the physics, if anything did."""
        self.overruns = 0
        """Joint states published more than a control period late."""
        self._coming: deque[tuple[float, Array | None]] = deque()
        self._leaving: deque[tuple[float, Sample]] = deque()
        self._lock = threading.Lock()
        self._stopping = False
        self._begin = 0.0
        self._done = 0
        self._thread = threading.Thread(target=self._run, name="physics", daemon=True)

    def start(self) -> None:
        """Publish the first joint state and let time pass."""
        with self._lock:
            self._restart()
        self._thread.start()

    def apply(self, command: Array | None) -> None:
        """Apply a command `(q,)` from the first substep after the dead time; None: no action."""
        with self._lock:
            self._coming.append((time.monotonic() + self._dead_time, command))

    def reset(self, episode: int) -> None:
        """Publish the start of the episode; its first control period begins now."""
        with self._lock:
            self._plant.reset(episode)
            self._coming.clear()
            self._leaving.clear()
            self._restart()

    def stop(self) -> None:
        """End the thread."""
        self._stopping = True
        if self._thread.is_alive():
            self._thread.join()

    def _restart(self) -> None:
        self._begin = time.monotonic()
        self._done = 0
        self._publish(self._plant.sample())

    def _run(self) -> None:
        try:
            while not self._stopping:
                with self._lock:
                    wait = self._advance()
                if wait > 0:
                    time.sleep(wait)
        except HucrlError as error:
            logger.error("the physics thread ended: %s", error)
            self.failure = error
        except BaseException as error:
            logger.exception("the physics thread ended")
            self.failure = error

    def _advance(self) -> float:
        """Do what is due by now; returns the time until something else is [s]."""
        plant = self._plant
        substep = plant.sample_period / plant.substeps
        begin = self._begin + self._done * substep
        due = begin + substep
        now = time.monotonic()
        if self._leaving and self._leaving[0][0] <= now:
            self._publish(self._leaving.popleft()[1])
            return 0.0
        if now < due:
            return min(due, self._leaving[0][0] if self._leaving else due) - now
        while self._coming and self._coming[0][0] <= begin:
            plant.command(self._coming.popleft()[1])
        plant.substep()
        self._done += 1
        if self._done % plant.substeps == 0:
            self.overruns += now - due > plant.robot.spec.period
            self._leaving.append((due + self._lateness(), plant.sample()))
        return 0.0


Pacing = Lockstep | RealTime
"""Drives a plant and publishes its joint states."""
