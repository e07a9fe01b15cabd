"""What comes before an episode: its bundle, the robot at the start, and nobody who holds it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from std_srvs.srv import Trigger

from hucrl_ros.config.schema import Config
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.controller.timing import STOPPED
from hucrl_ros.errors import BundleError, HucrlError, RunError
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.node_clients import NodeClients
from hucrl_ros.nodes.script import Script, Wait, held, soon
from hucrl_ros.nodes.steering import Steering
from hucrl_ros.nodes.wishes import BUNDLE
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.progress import Phase, Progress
from hucrl_ros.run.summary_writer import Ledger

LOAD_S = 300.0
"""[s] For a bundle to load: for the first one the planner's kernel may have to be compiled, which
takes minutes on a loaded machine."""
ASKED = 10
"""How often the controller is asked in that time: on a busy machine an answer was lost once. What
it is loading when it is asked again it goes on with."""
HOME_S = 60.0
"""[s] For the motion to the start to begin and to end, on top of its own time."""


def reset_of(config: Config) -> str:
    """Who brings the robot to the start; in lockstep the simulator does."""
    return config.driver.reset if config.mode == "real_time" else "service"


class Readiness:
    """Makes everything ready for an episode, and lets persons hold it back."""

    def __init__(
        self,
        run: RunFolder,
        config: Config,
        clients: NodeClients,
        ledger: Ledger,
        progress: Progress,
        steering: Steering,
        where: Callable[[], str],
    ) -> None:
        """Begin with no bundle loaded; `where` says where the run stands, for messages."""
        self._run, self._config = run, config
        self._clients, self._ledger = clients, ledger
        self._progress, self._steering, self._where = progress, steering, where
        self._placed = False
        self._flying = ""
        """Path of the bundle that the controller was made to load last."""

    def confirm(self) -> str:
        """A person has put the robot at the start; returns why that doesn't count, or nothing."""
        if self._progress.phase is not Phase.PERSON:
            return "no episode waits for a person now"
        self._placed = True
        return ""

    def make_ready(self, index: int) -> Script[None]:
        """Until the wanted bundle is loaded, nobody holds the run, and the robot is in place."""
        while True:
            yield from self._load(index)
            yield from self._hold()
            if self._flying != self._wanted(index):
                continue
            placed = yield from self._place()
            yield from self._load(index)  # It may have taken a person a while.
            if placed and self._holds() is None:
                return

    def is_ready(self, index: int) -> bool:
        """Whether what is wanted now is loaded, and nobody holds the run."""
        return self._holds() is None and self._flying == self._wanted(index)

    def _holds(self) -> Phase | None:
        return self._steering.holds(self._clients.stopped)

    def _hold(self) -> Script[None]:
        """Let nothing begin for as long as persons want it so."""
        while (phase := self._holds()) is not None:
            self._progress.enter(phase)
            yield held(partial(self._goes_on, phase))

    def _goes_on(self, phase: Phase) -> bool:
        return self._holds() is phase

    def _wanted(self, index: int) -> str:
        """Path of the bundle that is to play episode `index`."""
        chosen = self._steering.bundle
        return str(self._run.bundles / chosen if chosen else self._run.bundle(index))

    def _load(self, index: int) -> Script[None]:
        """Have the controller load what is to play episode `index`, if it hasn't."""
        clients, path = self._clients, self._wanted(index)
        chosen = self._steering.bundle
        if path == self._flying == clients.loaded and self._progress.episode == index:
            return
        self._progress.enter(Phase.LOADING, episode=index)
        try:
            manifest = read_manifest(Path(path))
        except BundleError as error:
            self._refuse(chosen, path, error)
            return
        predicted = None if manifest.random else manifest.report.predicted_return
        self._progress.predicted_return = predicted
        if path == self._flying == clients.loaded:
            return
        yield from self._ask_for(path)
        self._flying, self._steering.refused = path, ""
        if clients.loaded != path:
            said = (clients.loaded or "").removeprefix(topics.REFUSED)
            self._refuse(chosen, path, RunError(f"controller: {said}"))

    def _ask_for(self, path: str) -> Script[None]:
        """Have the controller answer what became of a bundle."""
        clients, count = self._clients, self._clients.loaded_count

        def answered() -> bool:
            said = clients.loaded or ""
            return clients.loaded_count > count and (
                said == path or said.startswith(topics.REFUSED)
            )

        for _ in range(ASKED):
            clients.publish_bundle(path)
            yield soon(answered, LOAD_S / ASKED)
            if answered():
                return
        raise RunError(f"controller: {path} not loaded in {LOAD_S:g} s")

    def _refuse(self, chosen: str, path: str, error: HucrlError) -> None:
        """A bundle can't play; raises the error where nobody chose it."""
        if not chosen:
            raise error
        # Whoever chose another one may have had a reason not to fly the newest.
        self._flying, self._steering.refused = path, chosen
        self._ledger.note(f"{self._where()}: {error}; waiting for another {BUNDLE}")

    def _place(self) -> Script[bool]:
        """Have the robot put at the start by a motion, or by a person.

        Returns False where somebody stopped it on its way.
        """
        how, stops = reset_of(self._config), self._clients.stops
        away = (yield from self._home()) if how == "home" else ""
        if STOPPED in away and self._clients.stops == stops:
            self._clients.hold()  # It has reached homing alone, or comes here later.
        if how == "home" and self._clients.stops > stops:
            return False
        if away:
            self._ledger.note(f"{self._where()}: homing: {away}; a person has to do it")
        if how == "person" or away:
            self._placed = False
            self._progress.enter(Phase.PERSON)
            yield held(lambda: not self._placed)
        return True

    def _home(self) -> Script[str]:
        """Have the robot moved to the start; returns why it isn't there, or nothing."""
        self._progress.enter(Phase.HOMING)
        client, name = self._clients.home, "homing/home"
        future = self._clients.call(client, Trigger.Request())
        yield Wait(
            lambda: future.done() or not client.service_is_ready(),
            self._config.home.time + HOME_S,
            lambda: f"{name}: no answer",
        )
        if not future.done():
            raise RunError(f"{name}: whoever offered it has gone")
        answer = future.result()
        return "" if answer.success else str(answer.message)
