"""`hucrl optimum`: the best achievable return of a task, or what a planner makes of it."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hucrl_ros.errors import ConfigError
from hucrl_ros.run.prepare import RunOptions, asked_config

if TYPE_CHECKING:
    from hucrl_ros.experiments.optimum import Optimum

METHODS = ("grid", "planner")
PLANNERS = ("icem", "cem", "mppi", "random_shooting")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to `hucrl`."""
    parser = subparsers.add_parser(
        "optimum",
        help="compute a task's best achievable return",
        description="Solve a task by dynamic programming on its equation of motion, then play "
        "the solution in MuJoCo; or plan anew in each control period on MuJoCo's dynamics "
        "themselves, which tells what a learned return can be compared with in any task.",
    )
    parser.add_argument("task", help="with --method grid a task whose equation is known: pendulum")
    parser.add_argument(
        "--action-penalty",
        type=float,
        nargs="+",
        metavar="RHO",
        help="weight of the action's cost; if not given that of the task's settings",
    )
    parser.add_argument(
        "--method", choices=METHODS, default="grid", help="dynamic programming, or planning"
    )
    grid = parser.add_argument_group("--method grid")
    grid.add_argument(
        "--grid", type=int, default=401, metavar="N", help="grid points of each state entry"
    )
    grid.add_argument(
        "--torques", type=int, default=41, metavar="N", help="torques to choose from, odd"
    )
    planner = parser.add_argument_group("--method planner")
    planner.add_argument("--planner", choices=PLANNERS, default="icem", help="which one")
    for name, default, text in (
        ("particles", 128, "trajectories in each iteration"),
        ("horizon", 40, "control periods looked ahead"),
        ("iterations", 3, "refinements in a control period"),
        ("tail", 0, "control periods that the last state's reward counts for"),
        ("episodes", 1, "how many"),
        ("seed", 0, "of the first episode"),
    ):
        planner.add_argument(f"--{name}", type=int, default=default, metavar="N", help=text)
    planner.add_argument(
        "--noise", type=float, default=0.5, help="of the efforts tried, in shares of the limit"
    )
    planner.add_argument("--threads", type=int, metavar="N", help="for MuJoCo; default: all cores")
    planner.add_argument("--csv", type=Path, metavar="FILE", help="append a row for each episode")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a line for each action penalty, or for each planned episode."""
    if args.action_penalty is None:
        args.action_penalty = [asked_config(RunOptions(args.task)).action_penalty]
    return _run_planner(args) if args.method == "planner" else _run_grid(args)


def _run_grid(args: argparse.Namespace) -> int:
    from hucrl_ros.experiments.optimum import find_optimum  # SciPy and torch take seconds
    from hucrl_ros.tasks import make_task

    for penalty in args.action_penalty:
        task = make_task(args.task, penalty)
        found = find_optimum(task, args.grid, args.torques)
        print(_line(penalty, found, args.grid, args.torques), flush=True)
    return 0


def _run_planner(args: argparse.Namespace) -> int:
    from hucrl_ros.config.files import parse_config  # torch takes seconds
    from hucrl_ros.experiments.oracle import OracleRow, append_row, plan_episode
    from hucrl_ros.tasks import make_task

    for name, least in (("tail", 0), ("episodes", 1), ("seed", 0), ("threads", 1)):
        value = getattr(args, name)
        if value is not None and value < least:
            raise ConfigError(f"--{name} = {value}: at least {least}")
    values = {
        "algorithm": args.planner,
        "particles": args.particles,
        "horizon": args.horizon,
        "iterations": args.iterations,
        "elites": max(args.particles // 10, 2),
        "noise": args.noise,
    }
    settings = parse_config({"planner": values}, "hucrl optimum").planner
    for penalty in args.action_penalty:
        task = make_task(args.task, penalty)
        for seed in range(args.seed, args.seed + args.episodes):
            planned = plan_episode(task, settings, args.tail, seed, args.threads)
            row = OracleRow.of(task, settings, args.tail, seed, planned)
            if args.csv is not None:
                append_row(args.csv, row)
            print(row.line(), flush=True)
    return 0


def _line(penalty: float, found: "Optimum", grid: int, torques: int) -> str:
    return (
        f"rho {penalty:g}: achieved in MuJoCo {found.achieved:.2f}, on the grid {found.value:.2f} "
        f"({grid} x {grid} states, {torques} torques, {found.seconds:.0f} s)"
    )
