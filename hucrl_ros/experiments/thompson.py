"""Why Thompson sampling explores less than optimism (App. Further Experiments on Thompson)."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.ticker import MaxNLocator

from hucrl_ros.controller.bundle import Bundle, load_bundle
from hucrl_ros.experiments.grid import Cell
from hucrl_ros.experiments.presentation import (
    EFFORT_COLOURS,
    STRATEGY_COLOURS,
    STRATEGY_MARKERS,
    drawing,
)
from hucrl_ros.experiments.statistics import Series
from hucrl_ros.experiments.sweep import Sweep
from hucrl_ros.experiments.sweep_report import draw_curve
from hucrl_ros.learning.learner import Learner
from hucrl_ros.models import Ensemble
from hucrl_ros.models.exploration import ThompsonDynamics
from hucrl_ros.robots.mujoco_robot import Array
from hucrl_ros.run.summary import read_summary
from hucrl_ros.search import ActorCritic, InitialStates, make_model_rollout, make_search


class Trace(NamedTuple):
    """One training, episode by episode; NaN where there is nothing."""

    strategy: str
    model: str
    returns: Array
    """`(E,)`."""
    simulated: Array
    """`(E,)` return of the imagined episode."""
    scale: Array
    """`(E,)` epistemic deviation along it, mean over entries and steps, normalised."""


def traces(sweep: Sweep) -> Iterator[Trace]:
    """What the finished trainings say."""
    for cell in sweep.finished:
        run = sweep.run_of(cell)
        episodes = read_summary(run.summary).episodes
        simulated = [e.predicted_return for e in episodes]
        yield Trace(
            cell.config.strategy,
            cell.value,
            np.array([episode.return_ for episode in episodes]),
            np.array([np.nan if value is None else value for value in simulated]),
            np.array([_scale(load_bundle(run.bundle(e.index))) for e in episodes]),
        )


def _scale(bundle: Bundle) -> float:
    """Epistemic deviation along the bundle's imagined episode [deviations of the targets]."""
    if bundle.imagined is None:
        return np.nan
    states, actions = bundle.imagined.states[:-1], bundle.imagined.actions
    inputs = {"state": states.astype(np.float32), "action": actions.astype(np.float32)}
    _, epistemic, _ = bundle.run("dynamics", **inputs)
    return float(np.mean(epistemic / np.array(bundle.manifest.target_std)))


class BestHead(NamedTuple):
    """Simulated returns on the models of one optimistic run."""

    episodes: list[int]
    optimistic: list[float]
    best_head: list[float]
    """The highest of policies that were searched for each head alone."""


def best_head(sweep: Sweep, cell: Cell, episodes: Sequence[int]) -> BestHead:
    """Search a policy for each head of the models that an optimistic run had.

    Args:
        sweep: Holds the run.
        cell: An optimistic training with an ensemble.
        episodes: Models after these episodes.
    """
    run, config = sweep.run_of(cell), cell.config.model_copy(update={"device": "cpu"})
    found = BestHead([], [], [])
    for episode in episodes:
        if not run.checkpoint(episode).is_file():
            continue
        learner = Learner(config, run)
        # Not what the summary says: an older bundle, of another model, may have flown.
        optimistic = learner.last_promise(episode + 1)
        if not optimistic:
            continue
        learner.restore(episode)
        heads = [_simulated_return(learner, head, episode) for head in range(config.model.heads)]
        found.episodes.append(episode)
        found.optimistic.extend(optimistic)
        found.best_head.append(max(heads))
    return found


def _simulated_return(learner: Learner, head: int, episode: int) -> float:
    """Simulated return of a policy that is searched on one head alone."""
    config = learner.config
    assert isinstance(learner.model, Ensemble)
    dynamics = ThompsonDynamics(learner.model, learner.config.exploration)
    learner.model.heads.choice.copy_(torch.eye(config.model.heads)[head])
    generator = torch.Generator().manual_seed(1000 * episode + head)
    actor_critic = ActorCritic(learner.task, 0, config.search, generator)
    starts = InitialStates(learner.task, learner.first, 0.0)
    search = make_search(config.search)
    rollout = make_model_rollout(actor_critic, dynamics)
    result = search.improve(rollout, starts, learner.first, generator, lambda _: None)
    return float(result.episode.rewards.sum(dim=0).mean())


def draw_thompson(path: Path, found: Sequence[Trace], heads: BestHead) -> Path:
    """Six panels: strategies on five heads, Thompson on other models, and the best head."""
    with drawing(path, (13.5, 7.4)) as figure:
        panels = figure.subplots(2, 3)
        base = [trace for trace in found if trace.model == found[0].model]
        for axes, kind, title in (
            (panels[0, 0], "simulated", "simulated return"),
            (panels[0, 1], "scale", "epistemic deviation along it"),
        ):
            for strategy in STRATEGY_COLOURS:
                lines = [getattr(t, kind) for t in base if t.strategy == strategy]
                colour, marker = STRATEGY_COLOURS[strategy], STRATEGY_MARKERS[strategy]
                _curve(axes, lines, Series(strategy, colour, marker))
            axes.set_title(title, loc="left")
        panels[0, 1].set_yscale("log")
        _draw_heads(panels[0, 2], heads)
        sampled = [trace for trace in found if trace.strategy == "thompson"]
        optimistic = [trace for trace in found if trace.strategy == "optimistic"]
        _by_model(panels[1, 0], sampled, lambda name: name.endswith("heads"))
        panels[1, 0].set_title("Thompson: return by number of heads", loc="left")
        first = found[0].model
        _by_model(panels[1, 1], sampled, lambda name: name == first or not name.endswith("heads"))
        panels[1, 1].set_title("Thompson: return with other models", loc="left")
        _by_model(panels[1, 2], optimistic, lambda _: True)
        panels[1, 2].set_title("optimistic: return with each model", loc="left")
        for axes in panels.flat:
            axes.set_xlabel("model after episode" if axes is panels[0, 2] else "episode")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize=8.5)
    return path


def _curve(axes: Axes, lines: Sequence[Array], series: Series) -> None:
    """Mean over seeds, some of which may have fewer episodes, with its interval."""
    if not lines:
        return
    table = np.full((len(lines), max(map(len, lines))), np.nan)
    for row, line in zip(table, lines, strict=True):
        row[: len(line)] = line
    draw_curve(axes, table, series)


def _by_model(axes: Axes, found: Sequence[Trace], wanted: Callable[[str], bool]) -> None:
    """Returns of one strategy, a line for each model."""
    names = [name for name in dict.fromkeys(trace.model for trace in found) if wanted(name)]
    for name, shade in zip(names, np.linspace(0.0, 1.0, len(names)), strict=True):
        lines = [trace.returns for trace in found if trace.model == name]
        marker = STRATEGY_MARKERS[found[0].strategy]
        _curve(axes, lines, Series(name, to_hex(EFFORT_COLOURS(shade)), marker))


def _draw_heads(axes: Axes, heads: BestHead) -> None:
    axes.set_title("simulated return on the same models", loc="left")
    blue, green = STRATEGY_COLOURS["optimistic"], STRATEGY_COLOURS["thompson"]
    axes.plot(heads.episodes, heads.optimistic, "-o", color=blue, label="optimistic")
    axes.plot(heads.episodes, heads.best_head, "-^", color=green, label="best head")
