"""`hucrl doctor`: what is installed, what works here, and what to do about the rest."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from hucrl_ros.doctor import Check, Finding


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
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from hucrl_ros.doctor import Level

    colours = {Level.OK: "green", Level.NOTE: "yellow", Level.FAULT: "red"}
    console = Console()
    with console.status(doing):
        found = dict(findings)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("check", "state", "found"):
        table.add_column(column, overflow="fold")
    for name, (level, what, _) in found.items():
        table.add_row(name, f"[{colours[level]}]{level.value}[/]", escape(what))
    console.print(table)
    for name, (level, _, advice) in found.items():
        if advice:
            mark = f"[{colours[level]}]{level.value}[/]"
            console.print(f"\n{mark} {name}: {escape(advice)}", highlight=False)
    return [name for name, finding in found.items() if finding.level is Level.FAULT]


def checks() -> "dict[str, Check]":
    """Every check by its name, in the order in which they are shown."""
    from hucrl_ros.doctor.machine import MACHINE
    from hucrl_ros.doctor.software import SOFTWARE

    return {**SOFTWARE, **MACHINE}
