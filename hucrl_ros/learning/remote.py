"""The learner of a robot on another machine: fetches episodes, learns, sends bundles."""

import logging
import math
import secrets
import time
from datetime import datetime

from hucrl_ros.config.files import override
from hucrl_ros.errors import HucrlError, LearningError, RunError
from hucrl_ros.learning.worker import LearnerFactory, LearningWorker, make_learner
from hucrl_ros.run.device import check_device
from hucrl_ros.run.remote.client import DamagedError, RobotClient, UnreachableError
from hucrl_ros.run.remote.contract import Order, Report
from hucrl_ros.run.remote.mirror import Mirror

POLL_S = 0.5
"""[s] Between two reports to the robot's side."""
RETRY_S = 1.0
"""[s] Until a robot's side that didn't answer is asked again."""
DOUBT_S = 60.0
"""[s] So long after it was understood, what a robot's side answers may be the network's doing.
Learning that doesn't stop in `CLOSE_S` is none: that has to take as long at least."""
CLOSE_S = 60.0
"""[s] For the learning to stop, where the run's settings have changed."""
END_S = 2.0
"""[s] For the same, where the process ends."""
STATUS_LETTERS = 500
logger = logging.getLogger(__name__)


class RemoteLearner:
    """Learns as the robot's side asks, through any interruption, until its run is finished."""

    def __init__(
        self,
        client: RobotClient,
        mirror: Mirror,
        device: str | None = None,
        factory: LearnerFactory = make_learner,
    ) -> None:
        """Prepare; nobody is asked yet.

        Args:
            client: The robot's side.
            mirror: Our copy of its run.
            device: Where to learn; None: as the run's settings say.
            factory: Makes the learner.
        """
        self._client, self._mirror = client, mirror
        self._device, self._factory = device, factory
        self._name = secrets.token_hex(8)
        self._worker: LearningWorker | None = None
        self._settings = ""
        self._troubles: set[str] = set()
        """What was said of the present outage."""
        self._understood = -math.inf
        """[s] When the robot's side was last understood, by the monotonic clock."""

    def serve(self) -> None:
        """Learn until the run is finished.

        Raises:
            LearningError: the learning failed; the robot's side was told.
            RunError: the robot's side refuses, or this is another run's folder; once it was
                understood, only where that lasts.
        """
        try:
            while not self._served():
                time.sleep(RETRY_S if self._troubles else POLL_S)
        finally:  # What is half-learned is learned anew, so nobody has to wait for it.
            if self._worker is not None:
                self._worker.close(END_S)

    def _served(self) -> bool:
        """Report, and do what is to be done now; returns whether the run is finished."""
        try:
            report = self._report()
            order = self._client.report(report)
            if self._worker is not None and report.failed:
                raise LearningError(self._worker.status.message)
            finished = self._follow(order)
            if self._troubles:
                logger.warning("%s answers again", self._client.url)
                self._troubles.clear()
            self._understood = time.monotonic()
            return finished
        except UnreachableError as error:
            self._tell(error)
        except (RunError, DamagedError) as error:
            if time.monotonic() > self._understood + DOUBT_S:
                raise
            self._tell(error)
        return False

    def _tell(self, trouble: HucrlError) -> None:
        """Say it, once in an outage."""
        if str(trouble) not in self._troubles:
            logger.warning("%s; since %s, trying on", trouble, f"{datetime.now():%H:%M:%S}")
            self._troubles.add(str(trouble))

    def _report(self) -> Report:
        status = self._worker.status if self._worker else None
        if status is None:
            return Report(learner=self._name, message="preparing")
        return Report(
            learner=self._name,
            message=status.message[:STATUS_LETTERS],
            failed=status.failed,
            episode=status.episode,
            progress=status.progress,
        )

    def _follow(self, order: Order) -> bool:
        if order.finished:
            return True
        worker = self._worker
        if worker is None or order.settings != self._settings:
            self._stop()
            self._start(order)
        elif order.wanted is not None and not worker.busy:
            return self._make(order.wanted, worker)
        return False

    def _start(self, order: Order) -> None:
        self._mirror.fetch()
        run = self._mirror.run
        # The key is at the robot, where the bundles are signed as they come.
        config = override(run.config, {"control.signing_key": ""})
        if self._device is not None:
            config = override(config, {"device": self._device})
        check_device(config.device)
        self._settings = order.settings
        self._worker = LearningWorker(config, run, 1, self._factory)
        logger.info("%s: %d episodes are here", run.root, run.finished_episodes())

    def _make(self, wanted: int, worker: LearningWorker) -> bool:
        """Send the bundle that is wanted, or learn it first; returns whether it was the last."""
        self._mirror.fetch()  # also to see that it is the same run as before
        run = self._mirror.run
        if run.bundle(wanted).is_dir():
            order = self._mirror.send(wanted)
            logger.info("bundle %d was sent", wanted)
            return order.finished  # nobody may be there to be asked any more
        if wanted != run.finished_episodes():
            raise RunError(
                f"{run.root}: the robot waits for bundle {wanted} and has "
                f"{run.finished_episodes()} finished episodes"
            )
        logger.info("learning from %d episodes", wanted)
        worker.request()
        return False

    def _stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None and not worker.close(CLOSE_S):
            raise RunError("learning doesn't stop")


def wait_for_name(client: RobotClient) -> str:
    """Name of the run at the robot, as soon as somebody answers.

    Raises:
        RunError: the robot's side refuses.
    """
    said = False
    while True:
        try:
            return client.listing().name
        except UnreachableError as error:
            if not said:
                logger.warning("%s; trying on", error)
            said = True
            time.sleep(RETRY_S)
