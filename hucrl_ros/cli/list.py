"""`hucrl list`: what can be chosen, with one line and the source file of each."""

import argparse
import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

from hucrl_ros.config.paths import share_directory
from hucrl_ros.config.task_file import known_tasks, read_description

Member = type | FunctionType
"""A class, or a function that builds an object."""


class Registry(NamedTuple):
    """Where a dict of name → member lies; empty for what YAMLs in `sim/` describe."""

    module: str
    variable: str
    chosen_by: str
    """How a user chooses one."""


REGISTRIES = {
    "tasks": Registry("", "", "hucrl up TASK"),
    "robots": Registry("", "", "by the task"),
    "rewards": Registry("hucrl_ros.tasks.terms", "TERMS", "reward.terms of a robot of your own"),
    "strategies": Registry("hucrl_ros.models.exploration", "STRATEGIES", "--strategy"),
    "models": Registry("hucrl_ros.models", "MODELS", "model.kind"),
    "searches": Registry("hucrl_ros.search", "SEARCHES", "search.algorithm"),
    "planners": Registry("hucrl_ros.planners", "PLANNERS", "planner.algorithm"),
}


class Entry(NamedTuple):
    """One choice."""

    name: str
    summary: str
    """First line of the member's docstring."""
    source: str
    """File of the member, from the package's folder on."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to `hucrl`."""
    parser = subparsers.add_parser(
        "list",
        help="print the tasks, strategies, models, searches, planners to choose from",
        description="Print what can be chosen, with one line and the source file of each.",
    )
    parser.add_argument(
        "kind",
        nargs="?",
        choices=tuple(REGISTRIES),
        metavar="KIND",
        help=f"one of: {', '.join(REGISTRIES)}; default: all",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the entries of one registry or of all."""
    kinds = [args.kind] if args.kind else list(REGISTRIES)
    for number, kind in enumerate(kinds):
        if number:
            print()
        print(f"{kind} ({REGISTRIES[kind].chosen_by})")
        found = entries(kind)
        width = max(len(entry.name) for entry in found)
        for entry in found:
            print(f"  {entry.name:<{width}}  {entry.summary}\n  {'':<{width}}  {entry.source}")
    return 0


def entries(kind: str) -> list[Entry]:
    """The choices of one kind, sorted by name."""
    module, variable, _ = REGISTRIES[kind]
    if not module:
        return _described(kind)
    registry: Mapping[str, Member] = getattr(importlib.import_module(module), variable)
    return [_entry(name, registry[name]) for name in sorted(registry)]


def _described(kind: str) -> list[Entry]:
    found: dict[str, Entry] = {}
    for path in known_tasks().values():
        described = read_description(path)
        part = described.task if kind == "tasks" else described.robot
        name = described.name if kind == "tasks" else described.robot.name
        source = str(path.relative_to(share_directory()))
        found.setdefault(name, Entry(name, part.about, source))
    return [found[name] for name in sorted(found)]


def _entry(name: str, member: Member) -> Entry:
    summary = (inspect.getdoc(member) or "").partition("\n")[0]
    package = Path(__file__).resolve().parents[1]
    source = Path(inspect.getfile(member)).resolve()
    return Entry(name, summary, str(source.relative_to(package.parent)))
