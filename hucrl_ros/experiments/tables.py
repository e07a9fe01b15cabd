"""Tables of results, their columns declared once: for the terminal, for a page, and as CSV."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from hucrl_ros.config.files import write_atomically

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
