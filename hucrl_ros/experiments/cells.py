"""What a sweep trains: every combination of task, strategy, action penalty, variant and seed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hucrl_ros.config.files import override
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import Description
from hucrl_ros.errors import ConfigError


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

    Args:
        base: Settings of all.
        strategies: To combine.
        action_penalties: To combine, ρ.
        seeds: To combine.
        variation: What varies besides.
        of_many_tasks: The sweep has other tasks as well.
        described: The robot, where it is one's own.

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
    names = [cell.name for cell in cells]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{name}: the sweep asks for it more than once")
    return cells
