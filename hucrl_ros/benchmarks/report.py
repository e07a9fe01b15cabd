"""Tables of the benchmarks' results, and the pages and files that go with them."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from hucrl_ros.benchmarks import Output, figures
from hucrl_ros.benchmarks.results import (
    ENOUGH,
    POLICY,
    DelayRow,
    DelayScore,
    LoopRow,
    PlannerRow,
    PlannerScore,
    Result,
    TickRow,
    WatchdogRow,
    delay_scores,
    numbers,
    planner_scores,
)
from hucrl_ros.config.files import write_atomically
from hucrl_ros.controller.manifest import Manifest
from hucrl_ros.experiments.presentation import Column, Table, signed, write_csv, write_page
from hucrl_ros.experiments.statistics import Interval
from hucrl_ros.tasks import Task

FEW_DECIMALS = 20.0
"""Returns from this size on are told apart by one decimal."""

TICKS = Table[TickRow](
    (
        Column("system", lambda row: row.case[0], "<26"),
        Column("size", lambda row: row.case[1], ">18"),
        Column("engine", lambda row: row.engine, ">9"),
        Column("threads", lambda row: f"{row.threads}", ">7"),
        Column("ticks", lambda row: f"{row.ticks}", ">6"),
        Column("p50 ms", lambda row: f"{row.p50_ms:.3f}", ">8"),
        Column("p99 ms", lambda row: f"{row.p99_ms:.3f}", ">8"),
        Column("p99.9 ms", lambda row: f"{row.p999_ms:.3f}", ">8"),
        Column("max ms", lambda row: f"{row.max_ms:.3f}", ">8"),
        Column("GFLOP/s", lambda row: f"{row.gflops:.1f}", ">8"),
        Column("peak", lambda row: f"{row.peak_gflops:.1f}", ">8"),
        Column("share", lambda row: f"{row.share:.0%}", ">6"),
        Column("filter", lambda row: f"{row.filter_ms:.3f}" if row.filter_ms else "", ">7"),
    )
)
LOOPS = Table[LoopRow](
    (
        Column("task", lambda row: row.task, ">9"),
        Column("Hz", lambda row: f"{row.rate:g}", ">5"),
        Column("planning", lambda row: row.planning, ">9"),
        Column("latency p50 / p99 / p99.9 / max", lambda row: str(row.latency), ">32"),
        Column("jitter", lambda row: str(row.jitter), ">30"),
        Column("missed", lambda row: f"{row.missed} of {row.states}", ">12"),
        Column("replaced", lambda row: f"{row.replaced}", ">9"),
        Column("CPU", lambda row: f"{row.cpu:.0%}", ">5"),
    )
)
WATCHDOGS = Table[WatchdogRow](
    (
        Column("task", lambda row: row.task, ">9"),
        Column("Hz", lambda row: f"{row.rate:g}", ">5"),
        Column("signal", lambda row: row.signal, ">8"),
        Column("load", lambda row: f"{row.load}", ">5"),
        Column("priority", lambda row: f"{row.priority}", ">8"),
        Column("browsers", lambda row: f"{row.browsers}", ">8"),
        Column("times", lambda row: f"{row.signals}", ">6"),
        Column("ms p50 / p99 / p99.9 / max", lambda row: str(row.time), ">32"),
        Column("worst in periods", lambda row: f"{row.worst_periods:.2f}", ">16"),
        Column("none came", lambda row: f"{row.missing}", ">9"),
    )
)
DELAYS = Table[DelayScore](
    (
        Column("delay", lambda score: f"{score.delay_ms:g} ms", ">8"),
        Column("compensation", lambda score: score.compensation, ">13"),
        Column("return", lambda score: score.return_.text(), ">25"),
        Column("worst episode", lambda score: signed(score.worst), ">13"),
        Column("predicted ticks", lambda score: f"{score.compensated:.0%}", ">15"),
    )
)
PLANNERS = Table[PlannerScore](
    (
        Column("planner", lambda score: score.planner, "<16"),
        Column("size", lambda score: _of_planner(score, str(score.size)), ">6"),
        Column("budget ms", lambda score: f"{score.budget_ms:g}" if score.budget_ms else "", ">9"),
        Column("return", lambda score: _interval(score.return_), ">23"),
        Column("over the policy", lambda score: _of_planner(score, _interval(score.gain)), ">23"),
        Column("p50 ms", lambda score: f"{score.tick_p50_ms:.2f}", ">7"),
        Column("p99 ms", lambda score: f"{score.tick_p99_ms:.2f}", ">7"),
        Column("iterations", lambda score: f"{score.iterations_done:.1f}", ">10"),
        Column("no plan", lambda score: f"{score.unplanned:.1%}" if score.unplanned else "", ">7"),
    )
)


def finish(output: Output, results: Sequence[Result], write: Callable[[Path], list[Path]]) -> None:
    """Print the results as JSON, if that is wanted, and write files, if there is a folder."""
    if output.as_json:
        print(as_json(results))
    if output.folder is not None:
        output.folder.mkdir(parents=True, exist_ok=True)
        output.say(*map(str, write(output.folder)))


def as_json(results: Sequence[Result]) -> str:
    """A list of objects."""
    return json.dumps([numbers(result) for result in results], indent=1, allow_nan=False)


def write_ticks(folder: Path, rows: Sequence[TickRow], output: Output) -> list[Path]:
    """Write `ticks.json`, `ticks.png` and `README.md`; returns them."""
    data = folder / "ticks.json"
    write_atomically(data, f"{as_json(rows)}\n")
    page = write_page(
        folder / "README.md",
        "How long a planning tick takes",
        f"Machine: {output.machine}. Made by",
        output.command,
        "Share: operations of the networks in a tick by its median duration, over the peak rate: "
        "that of a 512 x 512 x 512 matrix product in float32 (torch), measured between the ticks "
        "with as many threads. Critic, reward, sampling and selection take time in a tick but "
        "don't count as operations. Filter: what the safety filter takes on top, in ms, of "
        "a robot with constraints. All numbers are in [ticks.json](ticks.json).",
        "![Median tick of each engine](ticks.png)",
        TICKS.markdown(rows),
    )
    return [data, figures.draw_ticks(folder / "ticks.png", rows), page]


def write_loops(folder: Path, rows: Sequence[LoopRow], output: Output) -> list[Path]:
    """Write `table.csv`, `latency.png` and `README.md`; returns them."""
    page = write_page(
        folder / "README.md",
        f"The control loop: {rows[0].task}",
        f"Machine: {output.machine}. Made by",
        output.command,
        "Two processes over DDS: one publishes joint states at a steady rate and times the "
        "commands that come back, the other is the controller. Times in ms: p50 / p99 / p99.9 / "
        "max. *Missed*: the command wasn't back before the next joint state was due. *Replaced*: "
        "the plan wasn't ready, and the previous one (or π(s)) was sent in time instead.",
        f"The hypervisor gave {sum(row.stolen_s for row in rows):.1f} s of processor time to "
        "other machines meanwhile.",
        LOOPS.markdown(rows),
        "![Latency](latency.png)",
    )
    flat = [numbers(row) for row in rows]
    data = write_csv(folder / "table.csv", flat[0], [row.values() for row in flat])
    return [data, figures.draw_latencies(folder / "latency.png", rows, output.machine), page]


def write_watchdogs(folder: Path, rows: Sequence[WatchdogRow], output: Output) -> list[Path]:
    """Write `table.csv` and `README.md`; returns them."""
    page = write_page(
        folder / "README.md",
        f"Time to the safe command: {rows[0].task}",
        f"Machine: {output.machine}. Made by",
        output.command,
        "From the moment before the controller's process is sent the signal, anywhere in a "
        "control period, to the arrival of the watchdog's first command at a process in the "
        "robot's place, over DDS. After SIGSTOP the same controller goes on; after SIGKILL "
        "another one starts, and another watchdog. *Worst*: p99.9; of fewer than "
        f"{ENOUGH} signals, the largest.",
        WATCHDOGS.markdown(rows),
    )
    flat = [numbers(row) for row in rows]
    return [write_csv(folder / "table.csv", flat[0], [row.values() for row in flat]), page]


def write_delays(folder: Path, rows: Sequence[DelayRow], output: Output, task: Task) -> list[Path]:
    """Write `episodes.csv`, `return_against_delay.png` and `README.md`; returns them."""
    page = write_page(
        folder / "README.md",
        f"{task.name}: return against the delay of commands",
        "Made by",
        output.command,
        "Physics never waits: a command acts after the tick that chose it and the delay. Returns "
        "are those of the efforts that acted; means over "
        f"{len({row.bundle for row in rows})} bundles and "
        f"{len({row.seed for row in rows})} seeds of planning with 95% bootstrap intervals "
        "(BCa). `episodes.csv` holds every episode. "
        f"The tick takes {np.median([row.tick_ms for row in rows]):.3g} ms, the control period "
        f"{1e3 * task.spec.period:g} ms; the controller is told the delay "
        "(`control.extra_delay`).",
        DELAYS.markdown(delay_scores(rows)),
        "![Return against delay](return_against_delay.png)",
    )
    figure = figures.draw_delays(folder / "return_against_delay.png", rows, task)
    return [_write_episodes(folder, rows), figure, page]


def write_planners(
    folder: Path,
    rows: Sequence[PlannerRow],
    output: Output,
    tasks: Mapping[str, Task],
    manifests: Mapping[str, Manifest],
) -> list[Path]:
    """Write `episodes.csv`, `return_against_time.png` and `README.md`; returns them.

    Args:
        folder: Where they go.
        rows: At least one.
        output: What made them.
        tasks: What was played of each bundle, by the names in `rows`; all have one name.
        manifests: Of each bundle.
    """
    seeds = sorted({row.seed for row in rows})
    which = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    fewest, *more = sorted({row.particles for row in rows if row.planner != POLICY}) or [0]
    hollow = f"Filled: {fewest} particles; hollow: {' or '.join(map(str, more))}. " if more else ""
    parts = []
    if len(manifests) > 1:
        parts = ["## All bundles", PLANNERS.markdown(planner_scores(rows))]
    for name, manifest in manifests.items():
        parts += [
            f"## {name}",
            f"{manifest.strategy}, action penalty {manifest.action_penalty:g}, seed "
            f"{manifest.seed}, bundle of episode {manifest.episode}, "
            f"{manifest.planner.horizon} steps of {1e3 * manifest.period:g} ms.",
            PLANNERS.markdown(planner_scores([row for row in rows if row.bundle == name])),
        ]
    page = write_page(
        folder / "README.md",
        f"{next(iter(tasks.values())).name}: return against planning time",
        f"Made on {output.machine} by",
        output.command,
        f"Returns are those of the simulated robot, with {which} for each line; means "
        " with 95% bootstrap intervals (BCa). Size: particles x iterations in a tick. "
        "Times: medians over episodes of their p50 and p99. `episodes.csv` holds every episode.",
        "![Return against time](return_against_time.png)",
        f"{hollow}Dotted: the optimum, where it is known. What is far below is left out.",
        *parts,
    )
    figure = figures.draw_planners(folder / "return_against_time.png", rows, tasks)
    return [_write_episodes(folder, rows), figure, page]


def _write_episodes(folder: Path, rows: Sequence[DelayRow | PlannerRow]) -> Path:
    flat = [numbers(row) for row in rows]
    entries = [
        [f"{entry:.6g}" if isinstance(entry, float) else entry for entry in row.values()]
        for row in flat
    ]
    return write_csv(folder / "episodes.csv", flat[0], entries)


def _of_planner(score: PlannerScore, text: str) -> str:
    """Nothing for the policy, which has no size and no gain over itself."""
    return "" if score.planner == POLICY else text


def _interval(interval: Interval) -> str:
    return interval.text(1 if abs(interval.mean) >= FEW_DECIMALS else 2)
