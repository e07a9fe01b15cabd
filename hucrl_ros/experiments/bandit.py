"""GP-UCB with and without optimism on a function of one number (App. Expected Performance).

Policy search by expected performance is, for a horizon of one step, GP-UCB with β = 0: it stays
with the first parameters that are better than the prior expects.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.linalg
from matplotlib.axes import Axes

from hucrl_ros.experiments.presentation import BLUE, GREY, INK, VERMILION, drawing, headline
from hucrl_ros.robots.mujoco_robot import Array

DOMAIN: Array = np.linspace(-1.0, 1.0, 401, dtype=np.float64)
LENGTH, SIGNAL, NOISE = 0.2, 1.0, 0.05
"""Of the squared-exponential kernel and the observations."""


class Posterior(NamedTuple):
    """Belief about the function on `DOMAIN`."""

    mean: Array
    std: Array


class Search(NamedTuple):
    """What a search did."""

    beta: float
    tried: Array
    """`(n,)` parameters."""
    seen: Array
    """`(n,)` noisy values."""
    posterior: Posterior
    """After the last one."""

    @property
    def regret(self) -> float:
        """How much worse than the optimum the last parameters are."""
        return float(objective(DOMAIN).max() - objective(self.tried[-1:])[0])


def objective(x: Array) -> Array:
    """Performance of parameters `(n,)`: a low hill near the start and a higher one further off."""
    low = 0.6 * np.exp(-0.5 * ((x + 0.45) / 0.14) ** 2)
    high = 1.2 * np.exp(-0.5 * ((x - 0.55) / 0.16) ** 2)
    return low + high - 0.35


def condition(tried: Array, seen: Array) -> Posterior:
    """Exact Gaussian process with a mean of zero, given values `seen` at `tried`."""
    noisy = _kernel(tried, tried) + NOISE**2 * np.eye(len(tried))
    factor = scipy.linalg.cho_factor(noisy, lower=True)
    across = _kernel(DOMAIN, tried)
    mean = across @ scipy.linalg.cho_solve(factor, seen)
    explained = np.einsum("ij,ji->i", across, scipy.linalg.cho_solve(factor, across.T))
    return Posterior(mean, np.sqrt(np.maximum(SIGNAL**2 - explained, 0.0)))


def search(beta: float, evaluations: int, seed: int, start: float = -0.55) -> Search:
    """GP-UCB: always try the maximum of mean + β · deviation.

    Args:
        beta: Weight of the deviation; 0 maximises the expected performance.
        evaluations: How often to try, the start included.
        seed: Of the observation noise.
        start: First parameters.
    """
    rng = np.random.default_rng(seed)
    tried, seen = [start], [_observe(start, rng)]
    for _ in range(evaluations - 1):
        posterior = condition(np.array(tried), np.array(seen))
        upper = posterior.mean + beta * posterior.std
        tried.append(float(DOMAIN[int(np.argmax(upper))]))
        seen.append(_observe(tried[-1], rng))
    points, values = np.array(tried), np.array(seen)
    return Search(beta, points, values, condition(points, values))


def draw_bandit(path: Path, searches: list[Search]) -> Path:
    """One panel for each search."""
    with drawing(path, (4.8 * len(searches), 3.9)) as figure:
        panels = figure.subplots(1, len(searches), sharey=True, squeeze=False)[0]
        for axes, found in zip(panels, searches, strict=True):
            _draw(axes, found)
        panels[0].set_ylabel("performance")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return path


def _draw(axes: Axes, found: Search) -> None:
    mean, std = found.posterior
    axes.fill_between(
        DOMAIN,
        mean - 2 * std,
        mean + 2 * std,
        color=BLUE,
        alpha=0.15,
        lw=0,
        label="± 2 deviations",
    )
    axes.plot(DOMAIN, mean, color=BLUE, label="expected")
    axes.plot(DOMAIN, objective(DOMAIN), color=INK, lw=1.5, ls=(0, (4, 3)), label="true")
    axes.plot(found.tried, found.seen, "x", color=VERMILION, ms=8, mew=2, label="tried")
    axes.axhline(0.0, color=GREY, lw=0.8)
    axes.set_xlabel("parameter")
    reached = f"after {len(found.tried)} trials {found.regret:.2f} below the optimum"
    headline(axes, f"β = {found.beta:g}", reached)


def _kernel(a: Array, b: Array) -> Array:
    away: Array = np.subtract.outer(a, b) / LENGTH
    return np.asarray(SIGNAL**2 * np.exp(-0.5 * away**2))


def _observe(x: float, rng: np.random.Generator) -> float:
    return float(objective(np.array([x]))[0] + NOISE * rng.standard_normal())
