"""`hucrl optimum`: the best achievable return of a task, or what a planner makes of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hucrl_ros.cli.options import EpisodeCount, FirstSeed

if TYPE_CHECKING:
    from hucrl_ros.config.schema import PlannerSettings
    from hucrl_ros.experiments.optimum import Optimum

GRID = "With --method grid"
PLANNER = "With --method planner"


def run(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="with --method grid a task whose equation is known: pendulum",
        ),
    ],
    action_penalty: Annotated[
        list[float] | None,
        typer.Option(
            metavar="RHO...",
            help="weight of the action's cost",
            show_default="that of the task's settings",
        ),
    ] = None,
    method: Annotated[
        Literal["grid", "planner"], typer.Option(help="dynamic programming, or planning")
    ] = "grid",
    grid: Annotated[
        int,
        typer.Option(metavar="N", rich_help_panel=GRID, help="grid points of each state entry"),
    ] = 401,
    torques: Annotated[
        int, typer.Option(metavar="N", rich_help_panel=GRID, help="torques to choose from, odd")
    ] = 41,
    planner: Annotated[
        Literal["icem", "cem", "mppi", "random_shooting"],
        typer.Option(rich_help_panel=PLANNER, help="which one"),
    ] = "icem",
    particles: Annotated[
        int,
        typer.Option(metavar="N", rich_help_panel=PLANNER, help="trajectories in each iteration"),
    ] = 128,
    horizon: Annotated[
        int,
        typer.Option(metavar="N", rich_help_panel=PLANNER, help="control periods looked ahead"),
    ] = 40,
    iterations: Annotated[
        int,
        typer.Option(metavar="N", rich_help_panel=PLANNER, help="refinements in a control period"),
    ] = 3,
    tail: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            rich_help_panel=PLANNER,
            help="control periods that the last state's reward counts for",
        ),
    ] = 0,
    episodes: EpisodeCount = 1,
    seed: FirstSeed = 0,
    noise: Annotated[
        float,
        typer.Option(rich_help_panel=PLANNER, help="of the efforts tried, in shares of the limit"),
    ] = 0.5,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            rich_help_panel=PLANNER,
            help="for MuJoCo",
            show_default="all cores",
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel=PLANNER, help="append a row for each episode"
        ),
    ] = None,
) -> None:
    """Compute a task's best achievable return.

    A task is solved by dynamic programming on its equation of motion, and the solution is played
    in MuJoCo; or it is planned anew in each control period on MuJoCo's dynamics themselves, which
    tells what a learned return can be compared with in any task. There is a line for each action
    penalty, or for each planned episode.
    """
    from hucrl_ros.config.files import parse_config
    from hucrl_ros.run.prepare import RunOptions, asked_config

    penalties = action_penalty or [asked_config(RunOptions(task)).action_penalty]
    if method == "grid":
        _solve(task, penalties, grid, torques)
        return
    values = {
        "algorithm": planner,
        "particles": particles,
        "horizon": horizon,
        "iterations": iterations,
        "elites": max(particles // 10, 2),
        "noise": noise,
    }
    settings = parse_config({"planner": values}, "hucrl optimum").planner
    seeds = range(seed, seed + episodes)
    _plan(task, penalties, settings, tail, seeds, threads, csv)


def _solve(task: str, penalties: list[float], grid: int, torques: int) -> None:
    from hucrl_ros.experiments.optimum import find_optimum  # SciPy and torch take seconds
    from hucrl_ros.tasks import make_task

    for penalty in penalties:
        found = find_optimum(make_task(task, penalty), grid, torques)
        print(_line(penalty, found, grid, torques), flush=True)


def _plan(
    name: str,
    penalties: list[float],
    settings: "PlannerSettings",
    tail: int,
    seeds: range,
    threads: int | None,
    csv: Path | None,
) -> None:
    from hucrl_ros.experiments.oracle import OracleRow, append_row, plan_episode
    from hucrl_ros.tasks import make_task

    for penalty in penalties:
        task = make_task(name, penalty)
        for seed in seeds:
            planned = plan_episode(task, settings, tail, seed, threads)
            row = OracleRow.of(task, settings, tail, seed, planned)
            if csv is not None:
                append_row(csv, row)
            print(row.line(), flush=True)


def _line(penalty: float, found: "Optimum", grid: int, torques: int) -> str:
    return (
        f"rho {penalty:g}: achieved in MuJoCo {found.achieved:.2f}, on the grid {found.value:.2f} "
        f"({grid} x {grid} states, {torques} torques, {found.seconds:.0f} s)"
    )
