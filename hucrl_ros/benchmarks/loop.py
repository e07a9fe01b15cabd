"""Latency and jitter from joint state to command, between two processes over DDS.

One process publishes joint states at a steady rate and times the commands that come back; the
other is the controller as it is. A period is missed where the command isn't back before the next
joint state is due. Without BUNDLE, networks of the given size are made; their weights are random,
which doesn't change how long they take.
"""

import argparse
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hucrl_ros.benchmarks.trials import NODES, run_trial
from hucrl_ros.controller.manifest import MANIFEST, dump_manifest, read_manifest
from hucrl_ros.errors import ConfigError
from hucrl_ros.run.node_list import NodeSpec, Value
from hucrl_ros.run.prepare import parse_setting

if TYPE_CHECKING:
    from hucrl_ros.benchmarks.results import LoopRow

TASKS = ("pendulum", "arm")
LAYERS = {"pendulum": (64, 64), "arm": (200, 200)}
"""Hidden units of each head's layers, for bundles made here."""
PLANNING: dict[str, dict[str, Any]] = {
    "off": {"planner.algorithm": "policy", "planner.horizon": 1},
    "on": {},
}
"""Settings of the controller."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `hucrl bench loop`."""
    parser.add_argument("--bundle", type=Path, metavar="BUNDLE", help="its folder")
    parser.add_argument(
        "--task", choices=TASKS, default=TASKS[0], help="without BUNDLE [pendulum]"
    )
    parser.add_argument(
        "--rates", type=float, nargs="+", default=[80, 250, 500], metavar="HZ", help="[80 250 500]"
    )
    parser.add_argument(
        "--planning", choices=PLANNING, nargs="+", default=list(PLANNING), help="[off on]"
    )
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="of each [20]")
    parser.add_argument(
        "--background-load", "--hog", action="store_true", help="keep one core busy beside it"
    )
    parser.add_argument(
        "--priority", type=int, default=0, metavar="P", help="SCHED_FIFO priority; 0: none [0]"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the controller, e.g. planner.particles=200; repeatable",
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="for table.csv, a figure and README.md"
    )
    parser.add_argument(
        "--machine", default=f"{os.cpu_count()} cores", help="what to call this one in README.md"
    )


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from hucrl_ros.benchmarks import report

    _check(args)
    rows: list[LoopRow] = []
    if not args.json:
        print(report.LOOPS.header, flush=True)
    for row in _measure(args):
        rows.append(row)
        if not args.json:
            print(report.LOOPS.line(row), flush=True)
    if args.json:
        print(report.as_json(rows))
    if args.out is not None:
        files = report.write_loops(args.out, rows, command_line(args), args.machine)
        if not args.json:
            print(*files, sep="\n")
    return 0


def command_line(args: argparse.Namespace) -> str:
    """The command that measures the same."""
    words = ["hucrl", "bench", "loop"]
    words += ["--task", args.task] if args.bundle is None else ["--bundle", str(args.bundle)]
    words += ["--rates", *(f"{rate:g}" for rate in args.rates), "--planning", *args.planning]
    words += ["--seconds", f"{args.seconds:g}", "--priority", str(args.priority)]
    words += ["--background-load"] if args.background_load else []
    for setting in args.set:
        words += ["--set", setting]
    words += [] if args.out is None else ["--out", os.fspath(args.out)]
    return shlex.join(words)


def _check(args: argparse.Namespace) -> None:
    """Refuse what makes no sense.

    Raises:
        ConfigError: something does not.
    """
    for rate in args.rates:
        if not 1 <= rate <= 2000:
            raise ConfigError(f"--rates {rate:g}: from 1 to 2000 Hz")
    if not 2 <= args.seconds <= 86400:
        raise ConfigError(f"--seconds {args.seconds:g}: from 2 to 86400")
    if not 0 <= args.priority <= 99:
        raise ConfigError(f"--priority {args.priority}: from 0 to 99")


def _measure(args: argparse.Namespace) -> "Iterator[LoopRow]":
    """A row for each rate and planning."""
    from hucrl_ros.benchmarks.results import LoopRow

    with tempfile.TemporaryDirectory(prefix="hucrl-loop-") as scratch:
        folder = Path(scratch)
        original = args.bundle or _untrained(args.task, folder / "untrained")
        task = read_manifest(original).task
        for rate in args.rates:
            name = folder / f"{rate:g}"
            bundle = paced(original, name, rate, round(args.seconds * rate))
            for planning in args.planning:
                settings = {**dict(map(parse_setting, args.set)), **PLANNING[planning]}
                raw = play_loop(bundle, args.priority, args.background_load, settings)
                yield LoopRow.of(task, rate, planning, args.priority, args.background_load, raw)


def _untrained(task: str, folder: Path) -> Path:
    """A bundle of random networks."""
    from hucrl_ros.benchmarks.synthetic import make_arm, untrained_bundle
    from hucrl_ros.config.schema import ModelSettings

    made = make_arm(0.1) if task == "arm" else task
    return untrained_bundle(folder, made, ModelSettings(layers=LAYERS[task])).path


def paced(bundle: Path, copy: Path, rate: float, steps: int) -> Path:
    """A copy of a bundle whose robot runs at `rate` [Hz] for `steps` control periods.

    Its model was learned at another rate, but takes as long to compute.
    """
    shutil.copytree(bundle, copy)
    manifest = read_manifest(bundle).model_copy(update={"period": 1 / rate, "steps": steps})
    (copy / MANIFEST).write_text(dump_manifest(manifest))
    return copy


def play_loop(
    bundle: Path, priority: int, background_load: bool, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """An episode of joint states in and commands out; what the node `loop_source` measured.

    Args:
        bundle: Its manifest says task, rate and number of states.
        priority: SCHED_FIFO priority of both processes; 0: ordinary scheduling.
        background_load: Keep one core busy beside them.
        settings: Of the controller, by dotted key.

    Raises:
        RunError: the controller refuses, or a process ends early.
    """
    manifest = read_manifest(bundle)

    def source(pid: int) -> tuple[NodeSpec, ...]:
        own: dict[str, Value] = {"bundle": str(bundle), "pid": pid, "priority": priority}
        return (NodeSpec("loop_source", parameters=own, package=NODES),)

    controller: dict[str, Value] = {
        "task": manifest.task,
        "mode": "real_time",
        "bundle": str(bundle),
        "control.realtime_priority": priority,
        "control.lock_memory": priority > 0,
        **settings,
    }
    return run_trial(source, controller, manifest.steps * manifest.period, background_load)
