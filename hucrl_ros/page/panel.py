"""What everybody reads on the page: numbers, plots, events, and what the colours mean."""

from html import escape

from viser import ViserServer

from hucrl_ros.config.task_file import Description
from hucrl_ros.page import plots, words
from hucrl_ros.page.heard import Heard
from hucrl_ros.page.inputs import write
from hucrl_ros.page.live import Live
from hucrl_ros.page.past import Past
from hucrl_ros.page.repeated import Repeated

SHOW_S = 0.5
"""[s] Between two looks at what was heard, and at the run's folder."""


class Panel:
    """Read-only, the same for everybody."""

    def __init__(
        self,
        server: ViserServer,
        described: Description,
        past: Past,
        heard: Heard,
        live: Live,
    ) -> None:
        """Build it and keep it up to date."""
        self._server, self._heard, self._past, self._live = server, heard, past, live
        self._period = past.period
        self._finished = 0
        self.playing = False
        """Whether the run's nodes can be heard."""
        gui = server.gui
        gui.set_panel_label(f"{past.run.config.task} · {past.run.root.name}")
        # viser has no name for the tab; in Markdown, unlike in HTML, its browser takes a title.
        name = escape(described.robot.spec.name)
        gui.add_markdown(f"<title>{name} - hucrl</title>", order=100)
        self._status = gui.add_html("", order=0)
        gui.add_html(words.legend(described), order=0.2)
        tabs = gui.add_tab_group(order=1)
        with tabs.add_tab("Learning"):
            self._episodes = gui.add_html("")
            self._returns = plots.Plot(gui, "Return", "episode", plots.RETURNS)
            self._errors = plots.Plot(gui, "Model: error and calibration", "episode", plots.ERRORS)
            self._optimism = plots.Plot(gui, "Optimism", "episode", plots.OPTIMISM)
        with tabs.add_tab("Now"):
            self._counts = gui.add_html("")
            self._ticks = plots.Plot(gui, "Tick time [ms]", "step", plots.TICKS)
            self._doubt = plots.Plot(gui, "Optimism and doubt", "step", plots.DOUBT)
            self._pace = gui.add_html("")
        with tabs.add_tab("Events"):
            self._events = gui.add_html("")
        self._thread = Repeated(self.show, SHOW_S, "panel", heard.rhythm)

    def close(self) -> None:
        """Leave it as it is."""
        self._thread.close()

    def show(self) -> None:
        """Bring it up to date."""
        with self._server.atomic():  # sent at once, between two ticks
            self._show()

    def _show(self) -> None:
        now, ticks = self._heard.now, self._heard.ticks()
        player, total = self._past.run.player, self._past.total
        mute = player is not None and player.domain is None
        write(self._status, words.status(now, self.playing, mute, self._finished, total))
        write(self._counts, words.counts(now, ticks["tick_ms"], self._period))
        write(self._pace, words.pace(self._live.pace))
        self._ticks.show(*plots.tick_times(ticks, self._period))
        self._doubt.show(*plots.doubt(ticks))
        summary = self._past.summary()
        self._finished = len(summary.episodes) if summary else 0
        write(self._episodes, words.episodes(summary))
        noted = summary.events if summary else ()
        write(self._events, words.events(self._heard.events(), noted))
        learned = self._past.learned(summary)
        self._returns.show(*plots.returns(learned))
        self._errors.show(*plots.errors(learned))
        self._optimism.show(*plots.optimism(learned))
