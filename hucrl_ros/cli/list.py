"""`hucrl list`: what can be chosen, with one line and the source file of each."""

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType
from typing import Annotated, Literal, NamedTuple

from typer import Argument

Member = type | FunctionType
"""A class, or a function that builds an object."""


class Registry(NamedTuple):
    """Where a dict of name → member lies."""

    module: str
    variable: str
    chosen_by: str
    """How a user chooses one."""


Kind = Literal["tasks", "robots", "rewards", "strategies", "models", "searches", "planners"]
REGISTRIES: dict[Kind, Registry] = {
    "tasks": Registry("hucrl_ros.tasks", "TASKS", "hucrl up TASK"),
    "robots": Registry("hucrl_ros.robots", "ROBOTS", "by the task"),
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


def run(
    kind: Annotated[Kind | None, Argument(help="all kinds if not given")] = None,
) -> None:
    """Print the tasks, strategies, models, searches, planners to choose from.

    Each has one line and its source file.
    """
    for number, name in enumerate([kind] if kind else REGISTRIES):
        if number:
            print()
        print(f"{name} ({REGISTRIES[name].chosen_by})")
        found = entries(name)
        width = max(len(entry.name) for entry in found)
        for entry in found:
            print(f"  {entry.name:<{width}}  {entry.summary}\n  {'':<{width}}  {entry.source}")


def entries(kind: Kind) -> list[Entry]:
    """The choices of one kind, sorted by name."""
    module, variable, _ = REGISTRIES[kind]
    registry: Mapping[str, Member] = getattr(importlib.import_module(module), variable)
    return [_entry(name, registry[name]) for name in sorted(registry)]


def _entry(name: str, member: Member) -> Entry:
    summary = (inspect.getdoc(member) or "").partition("\n")[0]
    package = Path(__file__).resolve().parents[1]
    source = Path(inspect.getfile(member)).resolve()
    return Entry(name, summary, str(source.relative_to(package.parent)))
