"""The page's plots: what they are called, their colours, and their data."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from viser import GuiApi, GuiUplotHandle, uplot

from hucrl_ros.page.look import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, Colour, css
from hucrl_ros.page.past import Learned

Array = NDArray[np.float64]
HEIGHT = 150
"""[pixels]"""
NARROWEST, WIDEST = 46, 160
"""Room for the numbers left of a plot [pixels]."""
LETTER, TICK = 7, 17
"""Width of a digit, and of a tick with the gaps beside it [pixels]."""
MARKS = 3
"""Spaces between the numbers of a y axis, as many as uPlot has room for."""
MOST_POINTS = 600
"""Of a line: a browser needn't draw more."""


class Curve(NamedTuple):
    """A line of a plot."""

    label: str
    colour: Colour
    dashed: bool = False
    points: bool = False


RETURNS = (
    Curve("earned", GREEN, points=True),
    Curve("predicted", ORANGE, points=True),
    Curve("best possible", GREY, dashed=True),
)
ERRORS = (Curve("model error", BLUE, points=True), Curve("calibration", PURPLE, points=True))
OPTIMISM = (Curve("β", VERMILION, points=True), Curve("mean |η|", ORANGE, points=True))
TICKS = (
    Curve("tick", BLUE),
    Curve("99%", ORANGE, dashed=True),
    Curve("period", GREY, dashed=True),
)
DOUBT = (Curve("|η|", ORANGE), Curve("doubt Σ", BLUE))


class Plot:
    """A plot on the page."""

    def __init__(self, gui: GuiApi, title: str, below: str, curves: tuple[Curve, ...]) -> None:
        """An empty one; `below` says what its x is."""
        self._width = len(curves) + 1
        self._shown: tuple[bytes, ...] = ()
        self._room = NARROWEST
        self._plot: GuiUplotHandle = gui.add_uplot(
            (np.zeros(0),) * self._width,
            (uplot.Series(label=below), *map(_series, curves)),
            title=title,
            scales={"x": uplot.Scale(time=False, auto=True)},
            axes=_axes(self._room),
            legend=uplot.Legend(live=False),
            height=HEIGHT,
        )

    def show(self, x: Array, *lines: Array) -> None:
        """Draw lines `(T,)` over x `(T,)`; NaN leaves a gap."""
        data = tuple(np.asarray(each, np.float64) for each in (x, *lines))
        key = tuple(each.tobytes() for each in data)
        if key != self._shown:
            self._shown = key
            low, high = bounds(*data[1:])
            if self._room != (needed := room(low, high)):
                self._room, self._plot.axes = needed, _axes(needed)
            self._plot.scales = {"x": uplot.Scale(time=False), "y": {"range": (low, high)}}
            self._plot.data = data


def bounds(*lines: Array) -> tuple[float, float]:
    """Of the y axis for lines `(T,)`: a browser can't tell those of lines with gaps."""
    known = np.concatenate([np.zeros(0), *lines])
    known = known[np.isfinite(known)]
    if not len(known):
        return 0.0, 1.0
    low, high = min(float(known.min()), 0.0), float(known.max())
    room = 0.06 * (high - low) or 1.0
    return low - room * (low < 0.0), high + room


def room(low: float, high: float) -> int:
    """Width of the numbers of a y axis from `low` to `high` [pixels]: what is wider is cut."""
    least = (high - low) / MARKS
    if not 0.0 < least < math.inf:
        return WIDEST
    power = math.floor(math.log10(least))
    step = next((each for each in (1.0, 2.0, 2.5, 5.0) if least <= each * 10.0**power), 10.0)
    digits = max((step == 2.5) - (step == 10.0) - power, 0)
    longest = max(len(f"{end:,.{digits}f}") for end in (low, high))
    return min(max(TICK + LETTER * longest, NARROWEST), WIDEST)


def returns(learned: Learned) -> tuple[Array, ...]:
    """Of `RETURNS`, after x."""
    return learned.episode, learned.earned, learned.predicted, learned.optimum


def errors(learned: Learned) -> tuple[Array, ...]:
    """Of `ERRORS`, after x."""
    return learned.episode, learned.model_error, learned.calibration_error


def optimism(learned: Learned) -> tuple[Array, ...]:
    """Of `OPTIMISM`, after x."""
    return learned.episode, learned.beta, learned.hallucination


def tick_times(ticks: Mapping[str, Array], period: float) -> tuple[Array, ...]:
    """Of `TICKS`, after x; `period` of control [s]."""
    step, tick_ms = ticks["step"], ticks["tick_ms"]
    if not len(step):
        return (np.zeros(0),) * 4
    x, slowest = thinned(step, tick_ms)
    tail = np.full(len(x), np.percentile(tick_ms, 99))
    return x, slowest, tail, np.full(len(x), 1e3 * period)


def doubt(ticks: Mapping[str, Array]) -> tuple[Array, ...]:
    """Of `DOUBT`, after x."""
    x, eta = thinned(ticks["step"], ticks["hallucination"])
    return x, eta, thinned(ticks["step"], ticks["epistemic_std"])[1]


def thinned(x: Array, y: Array) -> tuple[Array, Array]:
    """At most `MOST_POINTS` of x and y `(T,)`: of several neighbours the largest y stays."""
    together = -(-len(x) // MOST_POINTS)
    if together <= 1:
        return x, y
    # The last group may be smaller: the newest points are seen at once.
    return x[::together], np.maximum.reduceat(y, np.arange(0, len(y), together))


def _axes(size: int) -> tuple[uplot.Axis, uplot.Axis]:
    """Of x, and of y with so much room for its numbers [pixels]."""
    grid = uplot.Axis_Grid(stroke="rgba(128,134,145,0.2)")
    return (
        uplot.Axis(stroke=css(GREY), grid=grid),
        uplot.Axis(stroke=css(GREY), grid=grid, size=size),
    )


def _series(curve: Curve) -> uplot.Series:
    return uplot.Series(
        label=curve.label,
        stroke=css(curve.colour),
        width=2.0,
        dash=(6.0, 5.0) if curve.dashed else (),
        points={"show": curve.points, "size": 6.0, "fill": css(curve.colour)},
    )
