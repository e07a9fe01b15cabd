"""What a sweep trains: every combination of strategy, action penalty, seed and one setting."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hucrl_ros.config import Config
from hucrl_ros.errors import ConfigError
from hucrl_ros.starting import override


@dataclass(frozen=True)
class Cell:
    """One training."""

    config: Config
    setting: str = ""
    """Dotted key of the setting that the sweep varies; empty: none."""
    value: str = ""
    """Its value."""

    @property
    def name(self) -> str:
        """Name of its folder, unique in its sweep."""
        config = self.config
        parts = [config.strategy, f"rho{config.action_penalty:g}"]
        if self.setting:
            parts.append(f"{self.setting}={self.value}")
        parts.append(f"seed{config.seed}")
        return re.sub(r"[^\w.=+-]", "_", "-".join(parts))


@dataclass(frozen=True)
class Variation:
    """A setting and the values it takes."""

    key: str
    """Dotted, e.g. `search.policy_noise`."""
    values: tuple[Any, ...]


def make_cells(
    base: Config,
    strategies: Sequence[str],
    action_penalties: Sequence[float],
    seeds: Sequence[int],
    variation: Variation | None = None,
) -> list[Cell]:
    """All combinations, seed by seed, so that a sweep that was stopped is balanced.

    Raises:
        ConfigError: a setting is wrong, or two cells are the same.
    """
    values = variation.values if variation else ("",)
    cells = []
    for seed in seeds:
        for penalty in action_penalties:
            for strategy in strategies:
                for value in values:
                    changes = {"strategy": strategy, "action_penalty": penalty, "seed": seed}
                    if variation:
                        changes[variation.key] = value
                    config = override(base, changes)
                    key = variation.key if variation else ""
                    cells.append(Cell(config, key, str(value)))
    names = [cell.name for cell in cells]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{name}: the sweep asks for it more than once")
    return cells
