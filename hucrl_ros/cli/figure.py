"""`hucrl figure`: the paper's smaller experiments, drawn."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from hucrl_ros.cli.options import LARGEST_SEED, RayAddress, WorkerCount
from hucrl_ros.cli.parsing import folder_to_write
from hucrl_ros.cli.sweep import train
from hucrl_ros.errors import ConfigError, RunError

if TYPE_CHECKING:
    from hucrl_ros.experiments.sweep import Sweep

EPISODES = 6
"""Of the phase plots."""
EVALUATIONS = 20
SNAPSHOTS = (1, 3, 5)
"""Episodes whose models are searched head by head."""


def run(
    name: Annotated[Literal["bandit", "phase", "thompson"], Argument(help="which one")],
    out: Annotated[
        Path, Option(metavar="DIR", callback=folder_to_write, help="for NAME.png")
    ] = Path(),
    seed: Annotated[int, Option(min=0, max=LARGEST_SEED, help="of the bandit's noise")] = 0,
    workers: WorkerCount = None,
    ray: RayAddress = None,
    finished: Annotated[
        bool, Option("--finished", help="train nothing; draw what is there already")
    ] = False,
) -> None:
    """Draw the paper's smaller experiments.

    bandit: expected performance against optimism in one dimension (seconds).

    phase: real against imagined trajectories of the first six episodes (minutes).

    thompson: why Thompson sampling explores less (hours).

    The last two train what config/experiments/NAME.yaml says; stopped, the same command goes on
    where it was.
    """
    trains = {"--workers": workers, "--ray": ray, "--finished": finished}
    for option, typed in (trains if name == "bandit" else {"--seed": seed}).items():
        if typed:
            raise ConfigError(f"{option}: not of {name}, which has no use for it")
    path = out / f"{name}.png"
    if name == "bandit":
        _bandit(path, seed)
    elif name == "phase":
        _phase(path, _trained(name, workers, ray, finished))
    else:
        _thompson(path, _trained(name, workers, ray, finished))
    print(path)


def _bandit(path: Path, seed: int) -> None:
    from hucrl_ros.experiments.bandit import draw_bandit, search

    searches = [search(beta, EVALUATIONS, seed) for beta in (0.0, 2.0)]
    for found in searches:
        print(f"beta {found.beta:g}: {found.regret:.3f} below the optimum")
    draw_bandit(path, searches)


def _phase(path: Path, sweep: "Sweep") -> None:
    from hucrl_ros.experiments.phase import draw_phase_grid, played_run

    draw_phase_grid(path, [played_run(sweep.run_of(cell), EPISODES) for cell in sweep.finished])


def _thompson(path: Path, sweep: "Sweep") -> None:
    import torch

    from hucrl_ros.experiments.thompson import BestHead, best_head, draw_thompson, traces

    torch.set_num_threads(1)  # Small networks: more threads only wait for each other.
    heads = BestHead([], [], [])
    for cell in sweep.finished:
        if cell.config.strategy == "optimistic" and cell.value == sweep.cells[0].value:
            heads = best_head(sweep, cell, SNAPSHOTS)
            break
    draw_thompson(path, list(traces(sweep)), heads)


def _trained(name: str, workers: int | None, ray: str | None, finished: bool) -> "Sweep":
    """The trainings of the figure's experiment.

    Raises:
        RunError: one failed, or there is none.
    """
    from hucrl_ros.config.files import share_directory
    from hucrl_ros.experiments.grid import read_grid
    from hucrl_ros.experiments.sweep import Sweep
    from hucrl_ros.run.prepare import RUNS

    file = share_directory() / "config" / "experiments" / f"{name}.yaml"
    sweep = Sweep(RUNS / f"figure-{name}", read_grid(file).cells())
    failures = [] if finished else train(sweep, workers, ray)
    if failures:
        raise RunError(f"{len(failures)} of {len(sweep.cells)} runs failed: {failures[0]}")
    if not sweep.finished:
        raise RunError(f"{RUNS / f'figure-{name}'}: no finished run to draw")
    return sweep
