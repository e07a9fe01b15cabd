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
