"""A sweep's returns, grouped and ordered for tables and figures."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.colors import to_hex

from hucrl_ros.experiments.statistics import Group, Row, group_returns
from hucrl_ros.experiments.style import EFFORT_COLOURS, STRATEGY_COLOURS, STRATEGY_MARKERS
from hucrl_ros.robots.mujoco_robot import Array
from hucrl_ros.tasks import known_optimum

MARKERS = "osD^vP*X"


class Series(NamedTuple):
    """How a line or bar of one strategy (and value) looks."""

    label: str
    colour: str
    marker: str


class Panel(NamedTuple):
    """What is drawn into one pair of axes."""

    title: str
    action_penalty: float
    series: dict[tuple[str, str], Series]
    """By strategy and value."""


class Results(NamedTuple):
    """A sweep's returns, ordered for figures."""

    task: str
    setting: str
    """Dotted key of the varied setting; empty: none."""
    penalties: tuple[float, ...]
    optima: dict[float, float | None]
    """By action penalty."""
    groups: dict[Group, Array]
    """Returns `(seeds, episodes)`."""
    series: dict[tuple[str, str], Series]
    """By strategy and value."""

    @property
    def panels(self) -> list[list[Panel]]:
        """Rows of panels: one for each penalty; where values vary, one for each strategy too."""
        strategies = list(dict.fromkeys(strategy for strategy, _ in self.series))
        if not self.setting or len(strategies) == 1:
            titles = [f"action penalty ρ = {penalty:g}" for penalty in self.penalties]
            panels = zip(titles, self.penalties, strict=True)
            return [[Panel(title, penalty, self.series) for title, penalty in panels]]
        return [
            [
                Panel(
                    f"{strategy}, ρ = {penalty:g}",
                    penalty,
                    {key: series for key, series in self.series.items() if key[0] == strategy},
                )
                for strategy in strategies
            ]
            for penalty in self.penalties
        ]


def collect(rows: Sequence[Row]) -> Results:
    """Group the rows of one sweep."""
    groups = group_returns(rows)
    penalties = tuple(sorted({group.action_penalty for group in groups}))
    strategies = list(dict.fromkeys(group.strategy for group in groups))
    values = list(dict.fromkeys(group.value for group in groups))
    task = rows[0].task
    return Results(
        task=task,
        setting=rows[0].setting,
        penalties=penalties,
        optima={penalty: known_optimum(task, penalty) for penalty in penalties},
        groups=groups,
        series=_series(strategies, values),
    )


def _series(strategies: Sequence[str], values: Sequence[str]) -> dict[tuple[str, str], Series]:
    if len(values) == 1:
        return {
            (name, values[0]): Series(name, STRATEGY_COLOURS[name], STRATEGY_MARKERS[name])
            for name in strategies
        }
    shades = np.linspace(0.0, 1.0, len(values))  # darker is later
    return {
        (name, value): Series(value, to_hex(EFFORT_COLOURS(shade)), MARKERS[k % len(MARKERS)])
        for name in strategies
        for k, (value, shade) in enumerate(zip(values, shades, strict=True))
    }
