"""Table, page and figure of the control loop's latency."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter
from numpy.typing import NDArray

from hucrl_ros.config.yaml_files import write_atomically
from hucrl_ros.experiments.style import BLUE, GREEN, VERMILION, save, styled

Array = NDArray[np.float64]
QUANTILES = (50.0, 99.0, 99.9, 100.0)
FALLBACKS = ("ticks_previous", "ticks_policy", "ticks_safe")


class Tail(NamedTuple):
    """Of a distribution [ms]."""

    p50: float
    p99: float
    p999: float
    max: float

    @classmethod
    def of(cls, seconds: Array) -> "Tail":
        """Of times [s]."""
        return cls(*(1e3 * float(q) for q in np.percentile(seconds, QUANTILES)))

    def __str__(self) -> str:
        return f"{self.p50:.2f} / {self.p99:.2f} / {self.p999:.2f} / {self.max:.2f}"


class Row(NamedTuple):
    """One measurement."""

    task: str
    rate: float
    """[Hz]"""
    planning: str
    priority: int
    hog: bool
    states: int
    latency: Tail
    """From publishing a joint state to receiving its command."""
    jitter: Tail
    """Difference between the interval of two successive commands and the period."""
    first_ms: float
    """Latency of the first joint state of the episode."""
    missed: int
    """Joint states whose command wasn't back before the next one was due."""
    skipped: int
    """Joint states that were overtaken by a newer one, of those missed."""
    replaced: int
    """Ticks that sent the previous plan, π(s) or the safe command where planning is on."""
    overruns: int
    """Ticks whose plan wasn't ready at their deadline, of those."""
    unexpected: int
    """Commands without a joint state."""
    cpu: float
    """Share of a core that the controller used [1]."""
    stolen_s: float
    """Processor time that a hypervisor gave to other machines meanwhile [s]."""
    minor_faults: int
    rss_growth_mb: float
    latencies: Array
    """`(states,)` [s]; NaN where no command came."""

    @classmethod
    def of(
        cls,
        task: str,
        rate: float,
        planning: str,
        priority: int,
        hog: bool,
        raw: Mapping[str, Any],
    ) -> "Row":
        """From what `nodes.loop_source` leaves."""
        published, answered = np.array(raw["published"]), np.array(raw["answered"])
        latencies = answered - published
        known = latencies[np.isfinite(latencies)]
        jitter = np.abs(np.diff(answered) - 1 / rate)
        counted = {key: int(value) for key, value in raw["diagnostics"].items() if value.isdigit()}
        policy = planning == "off"
        return cls(
            task=task,
            rate=rate,
            planning=planning,
            priority=priority,
            hog=hog,
            states=len(published),
            latency=Tail.of(known),
            jitter=Tail.of(jitter[np.isfinite(jitter)]),
            first_ms=1e3 * float(latencies[0]),
            missed=int(np.sum(~(latencies <= 1 / rate))),
            skipped=int(np.isnan(latencies).sum()),
            replaced=0 if policy else sum(counted[key] for key in FALLBACKS),
            overruns=counted["overruns"],
            unexpected=int(raw["unexpected_commands"]),
            cpu=float(raw["cpu_s"]) * rate / len(published),
            stolen_s=float(raw["stolen_s"]),
            minor_faults=int(raw["minor_faults"]),
            rss_growth_mb=float(raw["rss_mb"][1] - raw["rss_mb"][0]),
            latencies=latencies,
        )

    def numbers(self) -> dict[str, object]:
        """Flat, for CSV and JSON."""
        flat: dict[str, object] = {}
        for name, value in self._asdict().items():
            if isinstance(value, Tail):
                flat |= {f"{name}_{key}_ms": round(x, 4) for key, x in value._asdict().items()}
            elif not isinstance(value, np.ndarray):
                flat[name] = round(value, 4) if isinstance(value, float) else value
        return flat


COLUMNS = ("task", "Hz", "planning", "latency p50 / p99 / p99.9 / max", "jitter", "missed",
           "replaced", "CPU")  # fmt: skip
WIDTHS = (9, 5, 8, 32, 30, 12, 9, 5)


def text_table(rows: Sequence[Row]) -> list[str]:
    """A header and a line for each row; times in ms."""
    return [_line(COLUMNS), *(_line(_cells(row)) for row in rows)]


def as_json(rows: Sequence[Row]) -> str:
    """A list of objects."""
    return json.dumps([row.numbers() for row in rows], indent=1)


def write(folder: Path, rows: Sequence[Row], command: str, machine: str) -> list[Path]:
    """Write `table.csv`, `latency.png` and `README.md`; returns them."""
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].numbers().keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.numbers() for row in rows)
    data, page = folder / "table.csv", folder / "README.md"
    write_atomically(data, text.getvalue())
    figure = draw(folder / "latency.png", rows, machine)
    write_atomically(page, _page(rows, command, machine, figure.name))
    return [data, figure, page]


def draw(path: Path, rows: Sequence[Row], machine: str) -> Path:
    """How many joint states wait longer than a time for their command, down to the rarest."""
    rates = list(dict.fromkeys(row.rate for row in rows))
    with styled():
        figure = Figure(figsize=(1.6 + 3.4 * len(rates), 4.4), layout="constrained")
        panels = figure.subplots(1, len(rates), squeeze=False)[0]
        for axes, rate in zip(panels, rates, strict=True):
            for row in (row for row in rows if row.rate == rate):
                known = np.sort(row.latencies[np.isfinite(row.latencies)])
                shares = 1.0 - np.arange(len(known)) / len(known)
                colour = BLUE if row.planning == "on" else GREEN
                axes.plot(1e3 * known, shares, color=colour, label=f"planning {row.planning}")
            axes.axvline(1e3 / rate, color=VERMILION, lw=1.4, label="period")
            axes.set(xlabel="latency [ms]", xscale="log", yscale="log")
            axes.set_title(f"{rate:g} Hz")
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        panels[0].set(ylabel="share of joint states that waits longer")
        panels[0].legend(loc="lower left")
        figure.suptitle(f"{rows[0].task}: from joint state to command and back\n{machine}")
        return save(figure, path)


def _page(rows: Sequence[Row], command: str, machine: str, figure: str) -> str:
    lines = [
        f"# The control loop: {rows[0].task}",
        "",
        f"Machine: {machine}. Made by",
        "",
        f"    {command}",
        "",
        "Two processes over DDS: one publishes joint states at a steady rate and times the "
        "commands that come back, the other is the controller. Times in ms: p50 / p99 / p99.9 / "
        "max. *Missed*: the command wasn't back before the next joint state was due. *Replaced*: "
        "the plan wasn't ready, and the previous one (or π(s)) was sent in time instead.",
        "",
        f"The hypervisor gave {sum(row.stolen_s for row in rows):.1f} s of processor time to "
        "other machines meanwhile.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{' --- |' * len(COLUMNS)}",
        *(f"| {' | '.join(_cells(row))} |" for row in rows),
        "",
        f"![Latency]({figure})",
        "",
    ]
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.task,
        f"{row.rate:g}",
        row.planning,
        str(row.latency),
        str(row.jitter),
        f"{row.missed} of {row.states}",
        str(row.replaced),
        f"{row.cpu:.0%}",
    )


def _line(cells: Sequence[str]) -> str:
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))
