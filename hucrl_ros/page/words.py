"""The page's texts as HTML.

What nodes and files tell goes through `escape`: it is strangers' words, and a picture in them
would have the browser ask another machine.
"""

import time
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.constraints import InsideConstraint, OutsideConstraint
from hucrl_ros.config.task_file import Description
from hucrl_ros.page.heard import Event, Now
from hucrl_ros.page.live import SILENT_S, Pace
from hucrl_ros.page.look import (
    EXPECTED,
    GOAL,
    GREEN,
    GREY,
    HAPPENED,
    OPTIMISTIC,
    VERMILION,
    Colour,
    colour_of,
    css,
)
from hucrl_ros.robots.regions import ALLOWED, FORBIDDEN
from hucrl_ros.run.progress import Phase, constrained, format_number, format_ticks
from hucrl_ros.run.summary import EpisodeSummary, Summary

SHOWN_EPISODES = 8
SHOWN_EVENTS, LEAST_NOTES = 14, 4
LEGEND: tuple[tuple[Colour, str], ...] = (
    (OPTIMISTIC, "hoped for, among outcomes the data allow"),
    (EXPECTED, "expected, in a tube of doubt"),
    (HAPPENED, "what happened"),
)
_SMALL = "font-size:0.8em;line-height:1.45"
_ROOM = "padding:0 0.75em 0.3em 0.75em"


def status(now: Now, playing: bool, mute: bool, finished: int, total: int) -> str:
    """What the run does, in two lines.

    Args:
        now: As heard.
        playing: Its nodes can be heard.
        mute: It is played without nodes, as by `hucrl train`.
        finished: Episodes.
        total: The same.
    """
    if mute:
        said, colour = "played without ROS, shown episode by episode", GREEN
    elif not playing:
        done = finished >= total
        said, colour = ("finished" if done else "not played now"), GREY
    elif now.phase == Phase.STOPPED.value:
        said, colour = "given up", VERMILION
    elif now.active and now.tripped:
        said, colour = f"watchdog: {now.tripped}", VERMILION
    elif now.active and (now.state is None or time.monotonic() - now.received > SILENT_S):
        said, colour = "no usable state is heard: the robot is drawn where it was", VERMILION
    elif now.active:
        said, colour = f"step {now.step + 1}", GREEN
    else:
        said, colour = now.phase or "between two episodes", OPTIMISTIC
    bundle = now.bundle.name if now.bundle is not None else ""
    place = f"episode {min(finished, total - 1)} ({min(finished + 1, total)} of {total})"
    if finished >= total:
        place = f"{total} episodes"
    return _block(
        f"{_dot(colour)}<b>{place}</b> · {escape(said)}",
        f"<span style='opacity:0.7'>{escape(bundle)}</span>" if bundle else "",
    )


def counts(now: Now, tick_ms: NDArray[np.float64], period: float) -> str:
    """The present episode's ticks."""
    told = now.counts
    cells = [("ticks", str(told.ticks)), ("period", f"{1e3 * period:g} ms")]
    if len(tick_ms):
        p50, p99 = np.percentile(tick_ms, (50, 99))
        cells += [("p50", f"{p50:.1f} ms"), ("p99", f"{p99:.1f} ms")]
    cells += [
        ("misses", str(told.missed)),
        ("fallbacks", str(told.fallbacks)),
        ("clamps", str(told.clamped)),
        ("filtered", str(told.filtered)),
    ]
    shown = "".join(
        f"<div><span style='opacity:0.65'>{name}</span><br><b>{value}</b></div>"
        for name, value in cells
    )
    grid = "display:grid;grid-template-columns:repeat(4,1fr);gap:0.3em 0.6em"
    return f"<div style='{_SMALL};{_ROOM};{grid}'>{shown}</div>"


def episodes(summary: Summary | None) -> str:
    """A table of the newest episodes."""
    if summary is None or not summary.episodes:
        return _block("no episode is finished yet")
    heads = ("", "return", "pred.", "p99 ms", "misses", "fallb.", "clamps", "filt.")
    rows = [_row(each, summary) for each in summary.episodes[-SHOWN_EPISODES:]]
    best = format_number(summary.best_return)
    optimum = "" if summary.optimum is None else f" of {summary.optimum:g} possible"
    return _block(f"best return <b>{best}</b>{optimum}") + _table(heads, rows)


def events(heard: Sequence[Event], noted: Sequence[str]) -> str:
    """The newest first: those of the run's summary, and those that were heard."""
    live = [
        f"<span style='opacity:0.6'>{time.strftime('%H:%M:%S', time.localtime(each.at))}</span> "
        f"<b>{escape(each.source)}</b> {escape(each.text)}"
        for each in heard
    ]
    # What is heard each second must not hide what the run has noted.
    older = [escape(line) for line in noted[-max(SHOWN_EVENTS - len(live), LEAST_NOTES) :]]
    lines = [*older, *live[len(older) - SHOWN_EVENTS :]]
    if not lines:
        return _block("nothing to tell")
    return _block(*(f"{_dot(VERMILION)}{line}" for line in reversed(lines)))


def pace(found: Pace | None) -> str:
    """How fast the page itself is."""
    if found is None:
        return ""
    return _block(
        f"<span style='opacity:0.65'>this page: {found.rate:.0f} pictures/s, sent "
        f"{found.p50:.0f} ms (99%: {found.p99:.0f} ms) after a joint state came</span>"
    )


def legend(described: Description) -> str:
    """What the colours mean that are drawn of a robot."""
    kinds = {type(limit) for limit in described.constraints}
    lines = [
        *LEGEND,
        *([(GOAL, "goal")] if described.robot.spec.context else []),
        *([(colour_of(ALLOWED), "to stay inside of")] if InsideConstraint in kinds else []),
        *([(colour_of(FORBIDDEN), "to stay outside of")] if OutsideConstraint in kinds else []),
    ]
    return _block(*(f"{_dot(colour)}{meaning}" for colour, meaning in lines))


def _row(episode: EpisodeSummary, summary: Summary) -> tuple[str, ...]:
    best = not episode.cut and episode.return_ == summary.best_return
    earned = format_number(episode.return_)
    return (
        str(episode.index),
        f"<b style='color:{css(GREEN)}'>{earned}</b>" if best else earned,
        format_number(episode.predicted_return),
        format_ticks(episode)[1],
        _count(episode.misses),
        _count(episode.fallbacks),
        _count(episode.clamps),
        constrained(episode)[0],
    )


def _count(number: int | None) -> str:
    return "–" if number is None else str(number)


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    cell = "style='text-align:right;padding:0 0.25em'"
    head = "".join(f"<th {cell}>{text}</th>" for text in heads)
    body = "".join(
        "<tr>" + "".join(f"<td {cell}>{text}</td>" for text in row) + "</tr>" for row in rows
    )
    table = (
        "width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:0.72em"
    )
    return (
        f"<div style='{_ROOM};overflow-x:auto'><table style='{table}'>"
        f"<thead style='opacity:0.65'><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _dot(colour: Colour) -> str:
    return (
        f"<span style='display:inline-block;width:0.7em;height:0.7em;border-radius:50%;"
        f"margin-right:0.45em;background:{css(colour)}'></span>"
    )


def _block(*lines: str) -> str:
    inside = "".join(f"<div>{line}</div>" for line in lines if line)
    return f"<div style='{_SMALL};{_ROOM}'>{inside}</div>"
