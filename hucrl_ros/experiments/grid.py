"""What a sweep trains: combinations of task, strategy, action penalty, variant and seed.

A `Grid` is an experiment's file, its `Cell`s are the trainings.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from hucrl_ros.config.files import checked, override
from hucrl_ros.config.schema import Config, Settings, StrategyName
from hucrl_ros.config.task_file import Description, is_description
from hucrl_ros.config.yaml_reader import read_mapping
from hucrl_ros.errors import ConfigError
from hucrl_ros.run.asked import RunOptions, asked_run

SWEPT = ("task", "strategy", "action_penalty", "seed")
"""Settings that tell cells apart, whatever else a sweep varies."""


def _not_swept(changes: dict[str, Any]) -> dict[str, Any]:
    for key in changes:
        if key in SWEPT:
            raise ValueError(f"{key}: the experiment gives it values itself")
    return changes


Changes = Annotated[dict[str, Any], AfterValidator(_not_swept)]
"""Dotted settings, e.g. `planner.particles`, and values."""


@dataclass(frozen=True)
class Cell:
    """One training."""

    config: Config
    setting: str = ""
    """What the sweep varies besides strategy, penalty and seed; empty: nothing."""
    value: str = ""
    """Its value."""
    of_many_tasks: bool = False
    """The sweep has other tasks as well."""
    described: Description | None = None
    """The robot, where it is one's own."""

    @property
    def name(self) -> str:
        """Name of its folder, unique in its sweep."""
        config = self.config
        parts = [config.task] if self.of_many_tasks else []
        parts += [config.strategy, f"rho{config.action_penalty:g}"]
        if self.setting:
            parts.append(f"{self.setting}={self.value}")
        parts.append(f"seed{config.seed}")
        return re.sub(r"[^\w.=+-]", "_", "-".join(parts))


@dataclass(frozen=True)
class Variation:
    """What a sweep varies besides strategy, penalty and seed."""

    name: str
    """A setting, e.g. `search.policy_noise`, or a word for several."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By value: dotted keys and what they are set to."""


NOTHING = Variation("", {"": {}})


def one_setting(key: str, values: Sequence[Any]) -> Variation:
    """Give one setting some values.

    Raises:
        ConfigError: one of them is there twice.
    """
    names = [str(value) for value in values]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{key} = {name}: the sweep asks for it more than once")
    return Variation(key, {str(value): {key: value} for value in values})


def make_cells(
    base: Config,
    strategies: Sequence[str],
    action_penalties: Sequence[float],
    seeds: Sequence[int],
    variation: Variation = NOTHING,
    of_many_tasks: bool = False,
    described: Description | None = None,
) -> list[Cell]:
    """All combinations for one task, seed by seed, so that a sweep that was stopped is balanced.

    Raises:
        ConfigError: a setting is wrong, or two cells are the same.
    """
    cells = []
    for seed in seeds:
        for penalty in action_penalties:
            for strategy in strategies:
                for value, settings in variation.options.items():
                    changes = {"strategy": strategy, "action_penalty": penalty, "seed": seed}
                    config = override(base, {**changes, **settings})
                    cells.append(Cell(config, variation.name, value, of_many_tasks, described))
    return each_once(cells)


def each_once(cells: list[Cell]) -> list[Cell]:
    """The same cells, if each has a name of its own.

    Raises:
        ConfigError: two have the same, as of two robots that are called alike.
    """
    for name, count in Counter(cell.name for cell in cells).items():
        if count > 1:
            raise ConfigError(f"{name}: the sweep asks for it more than once")
    return cells


class TaskGrid(Settings):
    """What an experiment does with one task."""

    action_penalties: tuple[float, ...] = Field(min_length=1)
    """ρ."""
    episodes: int | None = Field(None, ge=1)
    """The random ones included; None: as in the task's settings."""
    goal: float | None = None
    """Return that counts as learned, for the table."""
    set: Changes = Field(default_factory=dict)
    """Other settings."""


class Variants(Settings):
    """Settings that the experiment compares."""

    name: str = Field(min_length=1)
    """What to call the comparison in table and figures."""
    options: dict[str, Changes] = Field(min_length=1)
    """By the name of each variant."""
    first_only: tuple[StrategyName, ...] = ()
    """Strategies that are tried with the first option only."""


class Grid(Settings):
    """All of an experiment's file."""

    tasks: dict[str, TaskGrid] = Field(min_length=1)
    """By name, or by the path of the YAML that describes a robot of one's own, relative to the
    experiment's file."""
    strategies: tuple[StrategyName, ...] = ("greedy", "thompson", "optimistic")
    seeds: tuple[int, ...] = Field(min_length=1)
    set: Changes = Field(default_factory=dict)
    """Settings of all tasks."""
    variants: Variants | None = None

    def cells(self) -> list[Cell]:
        """Every training, task by task and seed by seed.

        Raises:
            ConfigError: a setting is wrong, or two trainings are the same.
        """
        variants = self.variants
        variation = Variation(variants.name, variants.options) if variants else NOTHING
        many, cells, called = len(self.tasks) > 1, list[Cell](), dict[str, str]()
        for name, task in self.tasks.items():
            changes = {**self.set, **task.set}
            if task.episodes is not None:
                changes["episodes"] = task.episodes
            base, described = asked_run(RunOptions(name, overrides=changes))
            # Rows know a robot by its name, so those of two would be taken for one's.
            if (other := called.setdefault(base.task, name)) != name:
                raise ConfigError(
                    f"tasks: {other} and {name} are both called {base.task!r}, so the sweep asks "
                    "for it more than once; give one another task.name"
                )
            cells += make_cells(
                base,
                self.strategies,
                task.action_penalties,
                self.seeds,
                variation,
                many,
                described,
            )
        return each_once([cell for cell in cells if self._wanted(cell)])

    @model_validator(mode="after")
    def _first_only_are_strategies(self) -> "Grid":
        unknown = set(self.variants.first_only if self.variants else ()) - set(self.strategies)
        if unknown:
            raise ValueError(
                f"variants.first_only: {', '.join(sorted(unknown))}; expected some of the "
                f"strategies {', '.join(self.strategies)}"
            )
        return self

    def _wanted(self, cell: Cell) -> bool:
        if self.variants is None or cell.value == next(iter(self.variants.options)):
            return True
        return cell.config.strategy not in self.variants.first_only


def read_grid(path: Path) -> Grid:
    """Read an experiment's file.

    Raises:
        ConfigError: it can't be read or doesn't fit.
    """
    grid = checked(Grid, read_mapping(path), path)
    tasks = {
        str(path.parent / name) if is_description(name) else name: task
        for name, task in grid.tasks.items()
    }
    return grid.model_copy(update={"tasks": tasks})
