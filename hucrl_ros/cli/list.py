"""`hucrl list`: what can be chosen, with one line and the source file of each."""

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType
from typing import Annotated, Literal, NamedTuple

from typer import Argument

from hucrl_ros.errors import ConfigError

Member = type | FunctionType
"""A class, or a function that builds an object."""


class Registry(NamedTuple):
    """Where a dict of name → member lies; empty for what YAMLs in `sim/` describe."""

    module: str
    variable: str
    chosen_by: str
    """How a user chooses one."""
    plugins: str = ""
    """Kind of the plug-ins that add to it; empty: none can."""


Kind = Literal[
    "tasks", "robots", "rewards", "strategies", "models", "searches", "planners", "settings"
]
SETTINGS: Kind = "settings"
REGISTRIES: dict[Kind, Registry] = {
    "tasks": Registry("", "", "hucrl up TASK"),
    "robots": Registry("", "", "by the task"),
    "rewards": Registry(
        "hucrl_ros.tasks.terms", "TERMS", "reward.terms of a robot of your own", "reward_terms"
    ),
    "strategies": Registry("hucrl_ros.models.exploration", "STRATEGIES", "--strategy"),
    "models": Registry("hucrl_ros.models", "MODELS", "model.kind", "models"),
    "searches": Registry("hucrl_ros.search", "SEARCHES", "search.algorithm", "searches"),
    "planners": Registry("hucrl_ros.planners", "PLANNERS", "planner.algorithm", "planners"),
}


class Entry(NamedTuple):
    """One choice."""

    name: str
    summary: str
    """First line of the member's docstring."""
    source: str
    """File of the member, from the package's folder on; of a plug-in, module and package."""


def run(
    kind: Annotated[
        Kind | None,
        Argument(
            help="all kinds but the settings if not given; settings: each with its default, unit, "
            "range and meaning"
        ),
    ] = None,
) -> None:
    """Print the tasks, strategies, models, searches, planners to choose from.

    Each has one line and its source file.
    """
    if kind == SETTINGS:
        from hucrl_ros.config.defaults import document_defaults

        print(document_defaults(), end="")
        return
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
    from hucrl_ros.config import plugins

    module, variable, _, plugin_kind = REGISTRIES[kind]
    if not module:
        return _described(kind)
    registry: Mapping[str, Member] = getattr(importlib.import_module(module), variable)
    package = Path(__file__).resolve().parents[1]
    found = []
    for name, member in registry.items():
        source = Path(inspect.getfile(member)).resolve().relative_to(package.parent)
        found.append(Entry(name, _summary(member), str(source)))
    if plugin_kind:
        for name, point in plugins.installed(plugin_kind, registry).items():
            try:
                summary = _summary(plugins.load(plugin_kind, name, registry, object))
            except ConfigError as error:
                summary = str(error)
            origin = f"{point.value} of package {plugins.package_of(point)}"
            found.append(Entry(name, summary, origin))
    return sorted(found)


def _described(kind: str) -> list[Entry]:
    from hucrl_ros.config.files import share_directory
    from hucrl_ros.config.task_file import known_tasks, read_description

    found: dict[str, Entry] = {}
    for path in known_tasks().values():
        described = read_description(path)
        part = described.task if kind == "tasks" else described.robot
        name = described.name if kind == "tasks" else described.robot.name
        source = str(path.relative_to(share_directory()))
        found.setdefault(name, Entry(name, part.about, source))
    return [found[name] for name in sorted(found)]


def _summary(member: Member) -> str:
    return (inspect.getdoc(member) or "").partition("\n")[0]
