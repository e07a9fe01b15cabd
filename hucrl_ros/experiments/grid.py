"""An experiment's file: tasks, strategies, action penalties, variants and seeds."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from hucrl_ros.config.schema import Settings
from hucrl_ros.config.task_file import is_description
from hucrl_ros.config.yaml_files import checked, read_mapping
from hucrl_ros.experiments.cells import NOTHING, Cell, Variation, make_cells
from hucrl_ros.run.prepare import RunOptions, asked_run

Strategy = Literal["greedy", "thompson", "optimistic"]
Changes = dict[str, Any]
"""Dotted settings, e.g. `planner.particles`, and values."""


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
    first_only: tuple[Strategy, ...] = ()
    """Strategies that are tried with the first option only."""


class Grid(Settings):
    """All of an experiment's file."""

    tasks: dict[str, TaskGrid] = Field(min_length=1)
    """By name, or by the path of the YAML that describes a robot of one's own, relative to the
    experiment's file."""
    strategies: tuple[Strategy, ...] = ("greedy", "thompson", "optimistic")
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
        many, cells = len(self.tasks) > 1, list[Cell]()
        for name, task in self.tasks.items():
            changes = {**self.set, **task.set}
            if task.episodes is not None:
                changes["episodes"] = task.episodes
            base, described = asked_run(RunOptions(name, overrides=changes))
            cells += make_cells(
                base,
                self.strategies,
                task.action_penalties,
                self.seeds,
                variation,
                many,
                described,
            )
        return [cell for cell in cells if self._wanted(cell)]

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
