"""What `hucrl bench` measures."""

from pathlib import Path
from typing import NamedTuple


class Output(NamedTuple):
    """How a benchmark tells what it found."""

    as_json: bool
    """Print JSON in the place of a table."""
    folder: Path | None
    """For numbers, a figure and README.md."""
    command: str
    """What gives the same table, for README.md."""
    machine: str
    """What README.md calls this one."""

    def say(self, *lines: str) -> None:
        """Print lines of the table at once, unless JSON is all that is wanted."""
        if not self.as_json:
            print(*lines, sep="\n", flush=True)


class Size(NamedTuple):
    """Size of a planning tick."""

    particles: int
    horizon: int
    iterations: int

    def __str__(self) -> str:
        return "x".join(str(number) for number in self)
