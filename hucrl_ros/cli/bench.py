"""`hucrl bench`: measure this machine."""

import argparse
import importlib

BENCHMARKS = {
    "tick": "how long a planning tick takes, beside what the processor can do",
    "loop": "latency and jitter from joint state to command, between two processes over DDS",
    "delay": "return against the delay of commands, with and without latency compensation",
    "planners": "return on the true robot against planning time, planner by planner",
    "learning": "how long fit and search after an episode take, with little and with much data",
}
"""Each is a module of `hucrl_ros.benchmarks` with `add_arguments(parser)` and `run(args)`."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to `hucrl`."""
    parser = subparsers.add_parser(
        "bench",
        help="measure the planning tick, the control loop, planners, learning",
        description="Measure this machine. Each benchmark prints a table.",
    )
    kinds = parser.add_subparsers(dest="benchmark", required=True, metavar="BENCHMARK")
    for name, summary in BENCHMARKS.items():
        module = importlib.import_module(f"hucrl_ros.benchmarks.{name}")
        benchmark = kinds.add_parser(name, help=summary, description=module.__doc__)
        module.add_arguments(benchmark)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the benchmark."""
    return int(importlib.import_module(f"hucrl_ros.benchmarks.{args.benchmark}").run(args))
