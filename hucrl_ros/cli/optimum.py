"""`hucrl optimum`: the best achievable return of a task, or what a planner makes of it."""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from hucrl_ros.cli.options import LARGEST_SEED
from hucrl_ros.cli.parsing import file_to_write
from hucrl_ros.errors import ConfigError

GRID, PLANNER, ILQR = (f"With --method {method}" for method in ("grid", "planner", "ilqr"))
EPISODES = "With --method planner or ilqr"
PANELS = {"grid": (GRID,), "planner": (PLANNER, EPISODES), "ilqr": (ILQR, EPISODES)}
_of_grid = partial(Option, metavar="N", rich_help_panel=GRID)
_of_planner = partial(Option, metavar="N", rich_help_panel=PLANNER)
_of_ilqr = partial(Option, metavar="N", rich_help_panel=ILQR)
_of_episodes = partial(Option, metavar="N", rich_help_panel=EPISODES)


def run(
    ctx: typer.Context,
    task: Annotated[
        str,
        Argument(
            metavar="TASK", help="with --method grid a task whose equation is known: pendulum"
        ),
    ],
    action_penalty: Annotated[
        list[float] | None,
        Option(metavar="RHO...", help="weight of efforts; default: as in the settings"),
    ] = None,
    method: Annotated[
        Literal["grid", "planner", "ilqr"],
        Option(help="dynamic programming, planning, or all of an episode's efforts at once"),
    ] = "grid",
    grid: Annotated[int, _of_grid(min=11, max=2001, help="grid points of each state entry")] = 401,
    torques: Annotated[int, _of_grid(min=3, max=2001, help="torques to choose from, odd")] = 41,
    planner: Annotated[
        Literal["icem", "cem", "mppi", "random_shooting"],
        _of_planner(metavar=None, help="which one"),
    ] = "icem",
    particles: Annotated[int, _of_planner(min=2, help="trajectories in each iteration")] = 128,
    horizon: Annotated[int, _of_planner(min=1, help="control periods looked ahead")] = 40,
    iterations: Annotated[int, _of_planner(min=1, help="refinements in a control period")] = 3,
    tail: Annotated[
        int, _of_planner(min=0, help="control periods that the last state's reward counts for")
    ] = 0,
    noise: Annotated[
        float,
        _of_planner(metavar="SHARE", min=0, help="of the efforts tried, relative to the limit"),
    ] = 0.5,
    refinements: Annotated[int, _of_ilqr(min=1, help="of an episode, at most")] = 100,
    tries: Annotated[
        int, _of_ilqr(min=1, help="beginnings: no effort, then smooth random efforts")
    ] = 5,
    episodes: Annotated[int, _of_episodes(min=1, help="how many of each")] = 1,
    seed: Annotated[int, _of_episodes(min=0, max=LARGEST_SEED, help="of the first episode")] = 0,
    threads: Annotated[int | None, _of_episodes(min=1, help="default: all cores")] = None,
    csv: Annotated[
        Path | None,
        _of_episodes(metavar="FILE", callback=file_to_write, help="append a row for each episode"),
    ] = None,
) -> None:
    """Compute a task's best achievable return.

    A task is solved by dynamic programming on its equation of motion, and the solution is played
    in MuJoCo; or it is planned anew in each control period on MuJoCo's dynamics themselves, which
    tells what a learned return can be compared with in any task; it keeps within the task's
    constraints where it can. Where rewards slope and nothing strikes anything, all efforts of an
    episode improved at once by iLQR come nearer to the optimum; constraints are only counted.
    There is a line for each action penalty, or for each planned episode.
    """
    from hucrl_ros.config.files import COMMAND_LINE, parse_config
    from hucrl_ros.run.asked import RunOptions, asked_config

    for param in ctx.command.params:
        panel, name = getattr(param, "rich_help_panel", None), str(param.name)
        if (
            ctx.params[name] != param.default
            and panel in (GRID, PLANNER, ILQR, EPISODES)
            and panel not in PANELS[method]
        ):
            raise ConfigError(f"{param.opts[0]}: not with --method {method}")
    told = [{}] if action_penalty is None else [{"action_penalty": rho} for rho in action_penalty]
    penalties = [asked_config(RunOptions(task, overrides=each)).action_penalty for each in told]
    from hucrl_ros.experiments.optimum import (
        OracleRow,
        append_row,
        check_columns,
        find_optimum,
        plan_episode,
    )
    from hucrl_ros.experiments.trajectory_optimum import optimise_episode
    from hucrl_ros.tasks import make_task  # SciPy and torch take seconds.

    values = {
        "algorithm": planner,
        "particles": particles,
        "horizon": horizon,
        "iterations": iterations,
        "elites": max(particles // 10, 2),
        "noise": noise,
        "noise_draws": 0,  # The true dynamics have none.
    }
    if method == "grid":
        for penalty in penalties:
            found = find_optimum(make_task(task, penalty), grid, torques)
            print(
                f"rho {penalty:g}: achieved in MuJoCo {found.achieved:.2f}, on the grid "
                f"{found.value:.2f} ({grid} x {grid} states, {torques} torques, "
                f"{found.seconds:.0f} s)",
                flush=True,
            )
        return
    if csv is not None:
        check_columns(csv)
    settings = parse_config({"planner": values}, COMMAND_LINE).planner
    for penalty, episode in product(penalties, range(seed, seed + episodes)):
        played = make_task(task, penalty)
        if method == "ilqr":
            of_all = {"algorithm": "ilqr", "horizon": played.steps, "iterations": refinements}
            settings = settings.model_copy(update={**of_all, "particles": tries, "noise": 0.0})
            planned = optimise_episode(played, refinements, tries, episode, threads)
        else:
            planned = plan_episode(played, settings, tail, episode, threads)
        row = OracleRow.of(played, settings, tail, episode, planned)
        if csv is not None:
            append_row(csv, row)
        print(row.line(), flush=True)
