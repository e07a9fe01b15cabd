"""How results are shown: tables with columns declared once, pages, and one look of all figures."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from hucrl_ros.config.files import write_atomically

BLUE, VERMILION, GREEN, AMBER = "#0072B2", "#D55E00", "#009E73", "#E69F00"
"""Of the palette of Okabe and Ito."""
INK, GREY, PALE = "#1F2933", "#7B8794", "#CBD2D9"

STRATEGY_COLOURS = {
    "greedy": AMBER, "thompson": GREEN, "optimistic": BLUE, "sombrl": "#56B4E9", "opax": GREY,
    "sac": VERMILION, "td3": "#CC79A7", "mbpo": "#8C564B", "pets": INK,
}  # fmt: skip
STRATEGY_MARKERS = dict(zip(STRATEGY_COLOURS, "s^oP*Dv<X", strict=True))
"""Of our strategies, and of other people's algorithms that they are compared with."""

WORD_COLOURS = (BLUE, AMBER, GREEN, "#CC79A7", VERMILION, "#56B4E9", INK, GREY)
"""Of things without an order."""

EFFORT_COLOURS = LinearSegmentedColormap.from_list(
    "effort", ["#A6CFE5", "#4C8EC6", "#6A4FA3", "#A8277F"]
)
"""From no effort to the limit; darker is more, also without colour."""

_STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E7EB",
    "grid.linewidth": 0.8,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "text.color": INK,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",
}


@contextmanager
def drawing(path: Path, size: tuple[float, float]) -> Iterator[Figure]:
    """A figure of `size` [inch] in the house style, written to `path` when it is drawn."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=160, facecolor="white")


def overall_title(figure: Figure, title: str) -> None:
    """A title at the left above several panels."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")


def headline(axes: Axes, title: str, remark: str = "") -> None:
    """A title at the left, with a quieter remark below it."""
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", pad=26 if remark else 10)
    if remark:
        axes.annotate(
            remark,
            (0, 1),
            (0, 8),
            xycoords="axes fraction",
            textcoords="offset points",
            color=GREY,
            fontsize=10.5,
        )


def draw_optimum(axes: Axes, optimum: float | None, label: str = "optimum") -> None:
    """A dotted line at the highest possible return, where that is known."""
    if optimum is None:
        return
    axes.axhline(optimum, color=INK, lw=1.2, ls=(0, (1, 2)), zorder=1)
    axes.annotate(
        f"{label} {optimum:g}",
        (0, optimum),
        (4, 4),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        color=INK,
        fontsize=10,
    )


def signed(number: float, decimals: int = 1) -> str:
    """A number for a title, with a real minus sign, and none before zero."""
    return f"{round(number, decimals) + 0.0:.{decimals}f}".replace("-", "−")


Row = TypeVar("Row")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column of a table."""

    title: str
    cell: Callable[[Row], str]
    layout: str = ""
    """Side and width on a terminal, in a format's form: `<26` or `>9`."""


@dataclass(frozen=True)
class Table(Generic[Row]):
    """How rows of one kind are shown to people."""

    columns: Sequence[Column[Row]]

    @property
    def header(self) -> str:
        """The titles, for the terminal."""
        return " ".join(f"{column.title:{column.layout}}" for column in self.columns)

    def line(self, row: Row) -> str:
        """A row below the header."""
        return " ".join(f"{column.cell(row):{column.layout}}" for column in self.columns)

    def text(self, rows: Iterable[Row]) -> list[str]:
        """The header and a line for each row."""
        return [self.header, *map(self.line, rows)]

    def markdown(self, rows: Iterable[Row]) -> str:
        """The same for a page."""
        lines = [[column.title for column in self.columns], ["---"] * len(self.columns)]
        lines += [[column.cell(row) for column in self.columns] for row in rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_csv(path: Path, header: Iterable[str], rows: Iterable[Iterable[object]]) -> Path:
    """Write a CSV file; None is an empty entry."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_atomically(path, text.getvalue())
    return path


def write_page(path: Path, title: str, origin: str, command: str, *parts: str) -> Path:
    """Write a page of results.

    Args:
        path: Its file.
        title: Its headline.
        origin: Where and how the results were made; the words before the command.
        command: The command that makes them.
        parts: Paragraphs, tables and pictures, in Markdown; empty ones are left out.
    """
    found = [part for part in parts if part]
    page = "\n\n".join([f"# {title}", origin, f"    {command}", *found])
    write_atomically(path, f"{page}\n")
    return path
