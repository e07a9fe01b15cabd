"""`hucrl optimum`: the best achievable return of a task."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hucrl_ros.experiments.optimum import Optimum


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to `hucrl`."""
    parser = subparsers.add_parser(
        "optimum",
        help="compute a task's best achievable return",
        description="Solve a task by dynamic programming on its equation of motion, then play "
        "the solution in MuJoCo.",
    )
    parser.add_argument("task", help="a task with a known equation of motion: pendulum")
    parser.add_argument(
        "--action-penalty", type=float, nargs="+", default=[0.2], metavar="RHO", help="ρ [1]"
    )
    parser.add_argument(
        "--grid", type=int, default=401, metavar="N", help="grid points of each state entry"
    )
    parser.add_argument(
        "--torques", type=int, default=41, metavar="N", help="torques to choose from, odd"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a line for each action penalty."""
    from hucrl_ros.experiments.optimum import find_optimum  # SciPy and torch take seconds
    from hucrl_ros.tasks import make_task

    for penalty in args.action_penalty:
        task = make_task(args.task, penalty)
        found = find_optimum(task, args.grid, args.torques)
        print(_line(penalty, found, args.grid, args.torques), flush=True)
    return 0


def _line(penalty: float, found: "Optimum", grid: int, torques: int) -> str:
    return (
        f"rho {penalty:g}: achieved in MuJoCo {found.achieved:.2f}, on the grid {found.value:.2f} "
        f"({grid} x {grid} states, {torques} torques, {found.seconds:.0f} s)"
    )
