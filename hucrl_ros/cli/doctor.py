"""`hucrl doctor`: what is installed, what works here, and what to do about the rest."""

import argparse


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to `hucrl`."""
    parser = subparsers.add_parser(
        "doctor",
        help="say what is installed and what works on this machine",
        description="Check software, DDS, real-time rights, rendering and space. "
        "Exit code 0: everything that is required works; 1: something does not.",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a table of all checks, and advice below it; 0 where nothing required is missing."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from hucrl_ros.doctor import CHECKS, Level, examine

    colours = {Level.OK: "green", Level.NOTE: "yellow", Level.FAULT: "red"}
    console = Console()
    with console.status("checking"):
        findings = {name: examine(name) for name in CHECKS}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("check", "state", "found"):
        table.add_column(column, overflow="fold")
    for name, (level, found, _) in findings.items():
        table.add_row(name, f"[{colours[level]}]{level.value}[/]", escape(found))
    console.print(table)
    for name, (level, _, advice) in findings.items():
        if advice:
            mark = f"[{colours[level]}]{level.value}[/]"
            console.print(f"\n{mark} {name}: {escape(advice)}", highlight=False)
    faults = [name for name, finding in findings.items() if finding.level is Level.FAULT]
    verdict = (
        f"{len(faults)} required check(s) failed: {', '.join(faults)}"
        if faults
        else "everything required works"
    )
    console.print(f"\n{verdict}")
    return 1 if faults else 0
