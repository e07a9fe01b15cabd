"""A browser's own time line: live, or any moment of a past episode."""

import time

from viser import ClientHandle

from hucrl_ros.errors import HucrlError
from hucrl_ros.page.figure import Figure
from hucrl_ros.page.inputs import put, say
from hucrl_ros.page.kinematics import Kinematics
from hucrl_ros.page.live import Live
from hucrl_ros.page.memory import Memory

LIVE = "live"


class TimeLine:
    """Where one browser is in time; `advance` draws, all else only asks for it."""

    def __init__(self, client: ClientHandle, kinematics: Kinematics, memory: Memory) -> None:
        """Begin live."""
        self._client, self._kinematics, self._memory = client, kinematics, memory
        self._figure: Figure | None = None
        self._shown: tuple[object, ...] = (LIVE,)
        self._played = 0.0
        self._offered = False
        gui = client.gui
        with gui.add_folder("Time", order=0.5):
            self._episode = gui.add_dropdown("episode", (LIVE,))
            self._step = gui.add_slider("step", 0, 1, 1, 0, visible=False)
            self._play = gui.add_checkbox("play", False, visible=False)
            self._told = gui.add_html("", visible=False)
        command = gui.add_command("Play or hold the past episode", hotkey="P")
        command.on_trigger(lambda _: put(self._play, not self._play.value))
        back = gui.add_command("Back to live", hotkey="L")
        back.on_trigger(lambda _: put(self._episode, LIVE))

    def offer(self, episodes: int, alive: bool) -> None:
        """So many episodes can be looked at; `alive`: and the run is played.

        Where it isn't, a browser begins with the newest episode.
        """
        options = (LIVE, *(f"episode {index}" for index in reversed(range(episodes))))
        if self._episode.options != options:
            kept = self._episode.value
            self._episode.options = options
            first = len(options) > 1 and not self._offered and not alive
            put(self._episode, options[1] if first else kept)
            self._offered = True

    @property
    def past(self) -> int | None:
        """The finished episode that is looked at; None: live."""
        return self._shown[0] if isinstance(self._shown[0], int) else None

    def advance(self) -> None:
        """Draw what is asked for, if that isn't what is seen already."""
        if self._episode.value not in self._episode.options:  # a browser may send any text
            put(self._episode, LIVE)
        if self._episode.value == LIVE:
            if self._shown != (LIVE,):
                self._go_live()
            return
        index = int(self._episode.value.removeprefix("episode "))
        if self._shown == (index,):
            return  # it can't be read, as has been said
        try:
            self._show(index)
        except HucrlError as error:
            self._shown = (index,)
            self._offer_steps(False)
            self._told.visible = True
            say(self._told, str(error))

    def _show(self, index: int) -> None:
        known = self._memory.episode(index)
        if self._shown[0] != index:
            self._step.max = max(known.steps, 1)
            put(self._step, 0)
            self._offer_steps(True)
            put(self._play, True)
            self._played = time.monotonic()
        if self._play.value:
            self._go_on(known.steps)
        else:
            self._played = time.monotonic()
        wanted = (index, int(self._step.value), known.progress)
        if wanted == self._shown:
            return
        self._shown = wanted
        moment = self._memory.moment(index, int(self._step.value))
        figure = self._past_figure()
        with self._client.atomic():
            figure.pose(moment.state, moment.untold)
            figure.believe(moment.belief)
            figure.happened(moment.way)
        say(self._told, moment.told)

    def _offer_steps(self, visible: bool) -> None:
        for each in (self._step, self._play, self._told):
            each.visible = visible

    def _go_on(self, steps: int) -> None:
        """As far as time has passed since the last call; from the end, to the beginning."""
        passed = int((time.monotonic() - self._played) / self._memory.period)
        if not passed:
            return
        self._played += passed * self._memory.period  # what is left of a period counts, too
        begin = 0 if self._step.value >= steps else int(self._step.value)
        put(self._step, min(begin + passed, steps))
        if self._step.value == steps:
            put(self._play, False)

    def _past_figure(self) -> Figure:
        if self._figure is None:
            # It stands in the place of the live one, for this browser alone.
            self._client.scene.add_frame(Live.root, show_axes=False, visible=False)
            self._figure = Figure(self._client.scene, self._kinematics, "/past")
        return self._figure

    def _go_live(self) -> None:
        self._shown = (LIVE,)
        self._offer_steps(False)
        if self._figure is not None:
            self._client.scene.remove_by_name("/past")
            self._client.scene.remove_by_name(Live.root)
            self._figure = None
