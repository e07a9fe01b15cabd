"""`hucrl sweep`: many trainings, compared in tables and figures."""

import math
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Argument, Option

from hucrl_ros.cli import options
from hucrl_ros.cli.parsing import command_line, folder_to_write, one_of, require_folder
from hucrl_ros.errors import ConfigError, RunError

if TYPE_CHECKING:
    from hucrl_ros.experiments.grid import Cell, Variation
    from hucrl_ros.experiments.sweep import Sweep
    from hucrl_ros.run.processes import Exit

PAPERS = ("greedy", "thompson", "optimistic")
STRATEGIES = (*PAPERS, "sombrl", "opax")
SEEDS = (0, 1, 2, 3, 4)
PENALTIES = {"pendulum": [0.0, 0.1, 0.2]}
"""Action penalties of a sweep where none are given; of other tasks that of their settings."""
GOALS = {"pendulum": 265.0}
"""Returns that count as learned where none is given."""
_PANEL = "With TASK; a FILE says them itself"
_of_task = partial(Option, rich_help_panel=_PANEL)
_ELSEWHERE = ("runs", "workers", "ray", "join", "report")
"""Options that change no number."""


def run(
    ctx: typer.Context,
    task: Annotated[
        str,
        Argument(
            metavar="TASK|FILE",
            help="what to learn: one of `hucrl list tasks`, the YAML of a robot of your own, or "
            "that of a grid, e.g. config/experiments/ablation.yaml",
        ),
    ],
    out: Annotated[
        Path, Option(metavar="DIR", callback=folder_to_write, help="for table and figures")
    ],
    strategies: Annotated[
        list[str] | None,
        _of_task(
            metavar=f"<{'|'.join(STRATEGIES)}>...",
            callback=one_of(*STRATEGIES),
            help="default: the first three",
        ),
    ] = None,
    action_penalties: Annotated[
        list[float] | None,
        _of_task(
            metavar="RHO...",
            help="default: that of the task's settings, of the pendulum 0, 0.1 and 0.2",
        ),
    ] = None,
    seeds: Annotated[
        list[int] | None, _of_task(metavar="SEED...", help="default: 0 1 2 3 4")
    ] = None,
    episodes: Annotated[int | None, _of_task(metavar="N", help="random ones included")] = None,
    vary: Annotated[
        str | None,
        _of_task(metavar="KEY=V1,V2,...", help="also vary one setting, e.g. search.policy_noise"),
    ] = None,
    config: Annotated[Path | None, _of_task(metavar="FILE", help="settings, in YAML")] = None,
    settings: Annotated[
        list[str] | None, _of_task("--set", metavar="KEY=VALUE", help="any other setting")
    ] = None,
    goal: Annotated[
        float | None,
        _of_task(
            metavar="RETURN",
            help="what counts as learned, for the table; default: of the pendulum 265",
        ),
    ] = None,
    runs: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="for the runs; default: runs/sweep-NAME, of a FILE runs/experiment-NAME",
        ),
    ] = None,
    workers: options.WorkerCount = None,
    ray: options.RayAddress = None,
    join: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE...",
            help="returns.csv of runs made elsewhere; what they hold isn't trained again",
        ),
    ] = None,
    report: Annotated[
        bool, Option("--report", help="train nothing; table and figures of what is there")
    ] = False,
) -> None:
    """Train with many seeds and settings, and compare.

    Every combination of strategy, action penalty and seed is trained, or every one that a YAML
    FILE names, each in a process of its own. Stopped at any moment, the same command goes on
    where it was.
    """
    from hucrl_ros.experiments.sweep import Sweep
    from hucrl_ros.run.prepare import RUNS

    if runs is not None and not report:
        require_folder("--runs", runs)
    plan = _of_file(ctx, Path(task)) if is_grid(task) else _of_options(ctx, task)
    sweep = Sweep(runs or RUNS / plan.name, plan.cells, join or ())
    failures = [] if report else train(sweep, workers, ray)
    _write(out, sweep, plan, report)
    if failures:
        raise RunError(f"{len(failures)} of {len(plan.cells)} runs failed: {failures[0]}")


class _Plan(NamedTuple):
    """What to train and to report."""

    name: str
    """Of the runs' folder."""
    cells: "list[Cell]"
    goals: Mapping[str, float | None]
    """By task: the return that counts as learned."""
    command: str
    """For the page."""


def is_grid(task: str) -> bool:
    """Whether what was given as a task is the file of a grid.

    Raises:
        ConfigError: it can't be read.
    """
    from hucrl_ros.config.files import SECTIONS, SETTINGS
    from hucrl_ros.config.task_file import is_description
    from hucrl_ros.config.yaml_reader import read_mapping

    return is_description(task) and not {*SECTIONS, SETTINGS} & set(read_mapping(Path(task)))


def _of_file(ctx: typer.Context, path: Path) -> _Plan:
    from hucrl_ros.config.task_file import task_name
    from hucrl_ros.experiments.grid import read_grid

    for param in ctx.command.params:
        of_task = getattr(param, "rich_help_panel", None) == _PANEL
        if of_task and ctx.params[str(param.name)] not in (None, ()):
            raise ConfigError(f"{param.opts[0]}: {path} says it; leave the option out")
    grid = read_grid(path)
    goals = {task_name(name): task.goal for name, task in grid.tasks.items()}
    command = command_line(ctx, _ELSEWHERE)
    return _Plan(f"experiment-{path.stem}", grid.cells(), goals, command)


def _of_options(ctx: typer.Context, task: str) -> _Plan:
    from hucrl_ros.config.task_file import task_name
    from hucrl_ros.experiments.grid import NOTHING, SWEPT, make_cells
    from hucrl_ros.run.asked import RunOptions, asked_run

    typed = ctx.params
    overrides = options.parse_settings(typed["settings"], {"episodes": typed["episodes"]})
    variation = NOTHING if typed["vary"] is None else parse_variation(typed["vary"])
    for key in overrides:
        if key in SWEPT or key == variation.name:
            own = key == "episodes" and typed["episodes"] is not None
            option = "--episodes" if own else f"--set {key}"
            raise ConfigError(f"{option}: the sweep itself gives it values")
    if variation.name in SWEPT:
        raise ConfigError(f"--vary {variation.name}: the sweep gives it values by other options")
    base, described = asked_run(RunOptions(task, typed["config"], overrides))
    swept: dict[str, Any] = {
        "strategies": typed["strategies"] or PAPERS,
        "action_penalties": typed["action_penalties"]
        or PENALTIES.get(task_name(task), [base.action_penalty]),
        "seeds": typed["seeds"] or SEEDS,
    }
    cells = make_cells(base, **swept, variation=variation, described=described)
    goal = GOALS.get(task_name(task)) if typed["goal"] is None else typed["goal"]
    if goal is not None and not math.isfinite(goal):
        raise ConfigError(f"--goal = {goal}: expected a finite number")
    command = command_line(ctx, _ELSEWHERE, **swept)
    return _Plan(f"sweep-{typed['out'].name}", cells, {task_name(task): goal}, command)


def parse_variation(text: str) -> "Variation":
    """A setting and its values, from `key=v1,v2,...`; values in YAML.

    Raises:
        ConfigError: it has another form.
    """
    from hucrl_ros.config.yaml_reader import parse_value
    from hucrl_ros.errors import shortened
    from hucrl_ros.experiments.grid import one_setting

    key, equals, values = text.partition("=")
    expected = "expected KEY=V1,V2,..., e.g. search.policy_noise=0,0.1,0.2"
    source = f"--vary {shortened(text, 80)}: {expected}"
    parsed = parse_value(f"[{values}]", source)
    if not key.strip() or not equals or not isinstance(parsed, list) or not parsed:
        raise ConfigError(source)
    return one_setting(key.strip(), parsed)


def train(sweep: "Sweep", workers: int | None, ray: str | None) -> list[str]:
    """Run what isn't finished, a line for each; returns a line for each that failed.

    It runs with so many workers on this machine, or on the Ray cluster with the address `ray`.
    """
    from hucrl_ros.experiments.workers import LocalWorkers, RayWorkers
    from hucrl_ros.run.progress import format_number
    from hucrl_ros.run.summary import read_summary

    if ray is not None and workers is not None:
        raise ConfigError("--ray: not allowed with --workers; choose one")
    logs = sweep.logs
    place = LocalWorkers(workers or 1, logs) if ray is None else RayWorkers(ray, logs)
    total = len(sweep.cells)
    print(f"{total - len(sweep.missing)} of {total} runs are finished already", flush=True)

    def report(cell: "Cell", failure: "Exit | None") -> None:
        if failure is None:
            summary = read_summary(sweep.run_of(cell).summary)
            result = f"best return {format_number(summary.best_return)}, {summary.wall_s:.0f} s"
        else:
            result = f"failed: {failure.description}"
        print(f"[{total - len(sweep.missing)}/{total}] {cell.name}: {result}", flush=True)

    return [failure.description for failure in sweep.run(place, report)]


def _write(out: Path, sweep: "Sweep", plan: _Plan, report: bool) -> None:
    """One table of all episodes; figures and a page of each task.

    Raises:
        RunError: there is nothing to report, and nothing else was asked for.
    """
    from hucrl_ros.experiments.statistics import write_rows
    from hucrl_ros.experiments.sweep_report import write_report

    rows = sweep.rows()
    if not rows:
        if report:
            raise RunError(f"{sweep.folder}: no finished run of the sweep lies there")
        return
    out.mkdir(parents=True, exist_ok=True)
    files = [out / "returns.csv"]
    write_rows(files[0], rows)
    for name, goal in plan.goals.items():
        of_task = [row for row in rows if row.task == name]
        if of_task:
            folder = out / name if len(plan.goals) > 1 else out
            # What a robot of one's own can achieve, its description alone tells.
            described = next(c.described for c in plan.cells if c.config.task == name)
            optima = None if described is None else described.task.optima
            files += write_report(folder, of_task, goal, plan.command, optima)
    print("\n".join(map(os.fspath, files)), flush=True)
    if missing := len(sweep.missing):
        print(f"{missing} of {len(sweep.cells)} runs are missing in them", file=sys.stderr)
