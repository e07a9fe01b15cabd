"""Tables, page and figure of `hucrl bench soak`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import StrMethodFormatter
from numpy.typing import NDArray

from hucrl_ros.benchmarks import Output
from hucrl_ros.benchmarks.bare_loop import BareLoop
from hucrl_ros.benchmarks.process_samples import Sample, Sampler
from hucrl_ros.benchmarks.soak_results import HOST_SHARE, WARM_UP, Growth, PaceRow, Soak
from hucrl_ros.config.files import write_atomically
from hucrl_ros.experiments.presentation import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    INK,
    VERMILION,
    Column,
    Table,
    drawing,
    overall_title,
    write_page,
)

Array = NDArray[np.float64]
COLOURS = (BLUE, GREEN, VERMILION, AMBER, GREY, INK)
MOMENTS = 120
"""Points of the curve over time: the largest of each part."""


class ProcessRow(NamedTuple):
    """All quantities of one process."""

    process: str
    rss: Growth
    uss: Growth
    threads: Growth
    descriptors: Growth
    segments: Growth


def process_rows(growths: Sequence[Growth]) -> list[ProcessRow]:
    """A row for each process, from growths in the order of `Sample`'s fields."""
    width = len(Sample._fields)
    parts = (growths[at : at + width] for at in range(0, len(growths), width))
    return [ProcessRow(part[0].process, *part) for part in parts]


def _memory(growth: Growth) -> str:
    slope = f"{growth.hourly:+.1f} [{growth.hourly_low:.1f}, {growth.hourly_high:.1f}]"
    return f"{growth.first:.1f} → {growth.last:.1f}, {slope}"


def _count(growth: Growth) -> str:
    return f"{growth.first:g} → {growth.last:g}"


PACES = Table[PaceRow](
    (
        Column("late", lambda row: row.what, "<26"),
        Column("times", lambda row: f"{row.times}", ">8"),
        Column("ms p50 / p99 / p99.9 / max", lambda row: str(row.time), ">32"),
        Column(
            "p99.9, first → last quarter",
            lambda row: f"{row.first_worst_ms:.2f} → {row.last_worst_ms:.2f}",
            ">27",
        ),
        Column("over a period", lambda row: f"{row.missed}", ">13"),
        Column("machine's", lambda row: f"{row.host}", ">9"),
    )
)
PROCESSES = Table[ProcessRow](
    (
        Column("process", lambda row: row.process, "<12"),
        Column("RSS MB, per hour", lambda row: _memory(row.rss), ">38"),
        Column("USS MB, per hour", lambda row: _memory(row.uss), ">38"),
        Column("threads", lambda row: _count(row.threads), ">9"),
        Column("descriptors", lambda row: _count(row.descriptors), ">11"),
        Column("shm", lambda row: _count(row.segments), ">9"),
    )
)


def show(
    found: Soak, sampler: Sampler, due: Array, late: Array, bare: BareLoop, output: Output
) -> None:
    """Print the tables, and write files where there is a folder.

    Args:
        found: The numbers.
        sampler: The samples of all processes.
        due: When joint states were published `(n,)` [s].
        late: When their commands were there, from then on `(n,)` [s].
        bare: The loop beside them.
        output: Where to.
    """
    rows = process_rows(found.growths)
    lines = [*PACES.text(found.paces), "", *PROCESSES.text(rows), "", found.verdict]
    output.say(*lines, *_remarks(found))
    if output.as_json:
        print(json.dumps(found.as_json(), indent=1))
    if output.folder is None:
        return
    folder = output.folder
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "soak.json"
    write_atomically(data, f"{json.dumps(found.as_json(), indent=1)}\n")
    figure = draw(folder / "soak.png", found, sampler, due, late, bare)
    output.say(*map(str, (data, figure, _page(folder, found, rows, output))))


def _remarks(found: Soak) -> list[str]:
    scheduling = f"SCHED_FIFO {found.priority}" if found.realtime else "ordinary scheduling"
    refused = f", {found.refused} overtaken by the next or refused" if found.refused else ""
    return [
        f"{found.swaps} bundles swapped{refused}; the bare loop with {scheduling}; the hypervisor "
        f"gave {found.stolen_s:.1f} s of processor time to others"
    ]


def _page(folder: Path, found: Soak, rows: Sequence[ProcessRow], output: Output) -> Path:
    return write_page(
        folder / "README.md",
        f"Hours of control: {found.task}, {found.rate:g} Hz, {found.minutes:g} minutes",
        f"Machine: {output.machine}. Made by",
        output.command,
        f"**{found.verdict[0].upper()}{found.verdict[1:]}.** {_remarks(found)[0]}.",
        "![Lateness and memory over the hours](soak.png)",
        "Late: from publishing a joint state until its command is back, over DDS; and how late a "
        "loop of machine code wakes up that does nothing else, at the same rate on the same "
        "processors. *Over a period*: of those, later than a control period. *Machine's*: of "
        f"those, while the bare loop was late by more than {HOST_SHARE:g} periods as well.",
        PACES.markdown(found.paces),
        "Medians (of counts, the least) of the first and the last quarter, "
        f"without the first {WARM_UP:.0%} of the time, and the Theil-Sen slope an hour with its "
        "95% interval. Each process with its children. *shm*: files of `/dev/shm` in its memory.",
        PROCESSES.markdown(rows),
    )


def draw(
    path: Path, found: Soak, sampler: Sampler, due: Array, late: Array, bare: BareLoop
) -> Path:
    """How late, how often and when; and memory over time."""
    with drawing(path, (12.0, 4.2)) as figure:
        shares, times, memory = figure.subplots(1, 3)
        for (values, moments), colour, label in (
            ((late, due), BLUE, "command"),
            ((bare.late, bare.due), GREY, "bare loop"),
        ):
            known = np.isfinite(values)
            _survival(shares, values[known], colour, label)
            _over_time(times, moments[known], values[known], colour)
        for axes, line in ((shares, shares.axvline), (times, times.axhline)):
            line(1e3 / found.rate, color=VERMILION, lw=1.4, label="period")
            axes.set_yscale("log")
        shares.set(xlabel="late [ms]", xscale="log", ylabel="share that is later")
        shares.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        times.set(xlabel="time [h]", ylabel="latest in its part of the time [ms]")
        shares.legend(loc="lower left")
        for (name, samples), colour in zip(sampler.samples.items(), COLOURS, strict=False):
            hours = (np.array(sampler.times[name]) - due[0]) / 3600
            own = np.array([sample.uss_mb for sample in samples])
            memory.plot(hours, own, color=colour, lw=1.4, label=name)
        memory.set(xlabel="time [h]", ylabel="memory of its own [MB]", ylim=(0, None))
        memory.legend(loc="best")
        overall_title(figure, f"{found.task} at {found.rate:g} Hz, {found.minutes:g} minutes")
    return path


def _survival(axes: Axes, late: Array, colour: str, label: str) -> None:
    shares = 1.0 - np.arange(len(late)) / len(late)
    axes.plot(1e3 * np.sort(late), shares, color=colour, label=label)


def _over_time(axes: Axes, due: Array, late: Array, colour: str) -> None:
    parts = zip(np.array_split(due, MOMENTS), np.array_split(late, MOMENTS), strict=True)
    points = [(part[0], 1e3 * worst.max()) for part, worst in parts if len(part)]
    hours = (np.array([begin for begin, _ in points]) - due[0]) / 3600
    axes.plot(hours, [worst for _, worst in points], color=colour, lw=1.2)
