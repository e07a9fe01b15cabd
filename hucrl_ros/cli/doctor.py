"""`hucrl doctor`: what is installed, what works here, and what to do about the rest."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from hucrl_ros.doctor import Check, Finding

WIDE = 200
"""Columns of a table that isn't shown on a terminal."""


def run() -> None:
    """Say what is installed and what works on this machine.

    Software, DDS, real-time rights, rendering and space are checked. Exit code 0: everything
    that is required works; 1: something does not.
    """
    from hucrl_ros.doctor import examine

    faults = print_findings(
        ((name, examine(check)) for name, check in checks().items()), "checking"
    )
    if faults:
        print(f"\n{len(faults)} required check(s) failed: {', '.join(faults)}")
        raise typer.Exit(1)
    print("\neverything required works")


def print_findings(findings: "Iterable[tuple[str, Finding]]", doing: str) -> list[str]:
    """A table of all findings, which may take a while, then advice; returns names of faults."""
    from rich.table import Table
    from rich.text import Text

    from hucrl_ros.doctor import Level
    from hucrl_ros.run.terminal import Terminal

    colours = {Level.OK: "green", Level.NOTE: "yellow", Level.FAULT: "red"}
    console = Terminal()
    if not console.is_terminal:  # a log has no edge, and advice is there to be copied
        console.width = max(console.width, WIDE)
    with console.status(doing):
        found = dict(findings)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("check", "state", "found"):
        table.add_column(column, overflow="fold")
    for name, (level, what, _) in found.items():
        table.add_row(name, Text(level.value, style=colours[level]), what)
    console.print(table)
    for name, (level, _, advice) in found.items():
        if advice:
            mark = (level.value, colours[level])
            console.print(Text.assemble("\n", mark, f" {name}: {advice}"), soft_wrap=True)
    return [name for name, finding in found.items() if finding.level is Level.FAULT]


def checks() -> "dict[str, Check]":
    """Every check by its name, in the order in which they are shown."""
    from hucrl_ros.doctor.machine import MACHINE
    from hucrl_ros.doctor.software import SOFTWARE

    return {**SOFTWARE, **MACHINE}
