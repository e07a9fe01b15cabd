"""`hucrl figure`: the paper's smaller experiments, drawn."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hucrl_ros.cli.run_sweep import add_worker_arguments, check_worker_arguments
from hucrl_ros.config.paths import share_directory
from hucrl_ros.errors import RunError
from hucrl_ros.run.prepare import RUNS

if TYPE_CHECKING:
    from hucrl_ros.experiments.sweep import Sweep

EPISODES = 6
"""Of the phase plots."""
EVALUATIONS = 20
SNAPSHOTS = (1, 3, 5)
"""Episodes whose models are searched head by head."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to `hucrl`."""
    parser = subparsers.add_parser(
        "figure",
        help="draw the paper's smaller experiments",
        description="bandit: expected performance against optimism in one dimension (seconds). "
        "phase: real against imagined trajectories of the first six episodes (minutes). "
        "thompson: why Thompson sampling explores less (hours). The last two train what "
        "config/experiments/NAME.yaml says; stopped, the same command goes on where it was.",
    )
    parser.add_argument("name", choices=("bandit", "phase", "thompson"))
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="for NAME.png")
    parser.add_argument("--seed", type=int, default=0, help="of the bandit's noise [0]")
    add_worker_arguments(parser)
    parser.add_argument(
        "--finished", action="store_true", help="train nothing; draw what is there already"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Draw one figure."""
    check_worker_arguments(args)
    path = args.out / f"{args.name}.png"
    {"bandit": _bandit, "phase": _phase, "thompson": _thompson}[args.name](args, path)
    print(path)
    return 0


def _bandit(args: argparse.Namespace, path: Path) -> None:
    from hucrl_ros.experiments.bandit import draw_bandit, search

    searches = [search(beta, EVALUATIONS, args.seed) for beta in (0.0, 2.0)]
    for found in searches:
        print(f"beta {found.beta:g}: {found.regret:.3f} below the optimum")
    draw_bandit(path, searches)


def _phase(args: argparse.Namespace, path: Path) -> None:
    from hucrl_ros.experiments.phase import draw_phase_grid, played_run

    sweep = _trained(args)
    draw_phase_grid(path, [played_run(sweep.run_of(cell), EPISODES) for cell in sweep.finished])


def _thompson(args: argparse.Namespace, path: Path) -> None:
    from hucrl_ros.experiments.thompson import BestHead, best_head, draw_thompson, traces

    sweep = _trained(args)
    heads = BestHead([], [], [])
    for cell in sweep.finished:
        if cell.config.strategy == "optimistic" and cell.value == sweep.cells[0].value:
            heads = best_head(sweep, cell, SNAPSHOTS)
            break
    draw_thompson(path, list(traces(sweep)), heads)


def _trained(args: argparse.Namespace) -> "Sweep":
    """The trainings of the figure's experiment.

    Raises:
        RunError: one failed, or there is none.
    """
    from hucrl_ros.cli.run_sweep import train, workers_for
    from hucrl_ros.experiments.grid import read_grid
    from hucrl_ros.experiments.sweep import Sweep

    file = share_directory() / "config" / "experiments" / f"{args.name}.yaml"
    sweep = Sweep(RUNS / f"figure-{args.name}", read_grid(file).cells())
    failures = [] if args.finished else train(sweep, workers_for(sweep, args))
    if failures:
        raise RunError(f"{len(failures)} of {len(sweep.cells)} runs failed: {failures[0]}")
    if not sweep.finished:
        raise RunError(f"{RUNS / f'figure-{args.name}'}: no finished run to draw")
    return sweep
