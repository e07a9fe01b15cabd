"""`hucrl`: every command that a person types."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

import hucrl_ros
from hucrl_ros.errors import ConfigError, HucrlError

COMMANDS = (
    "up",
    "train",
    "evaluate",
    "inspect",
    "sweep",
    "experiment",
    "figure",
    "optimum",
    "bench",
    "tune",
    "list",
    "doctor",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit code."""
    try:
        code = _run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:  # also while modules are being imported
        return 130
    except BrokenPipeError:  # Its reader has seen enough: `hucrl list | head`.
        # At its end Python would flush once more, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _run(argv: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="hucrl", description="Teach a robot a task in tens of episodes, through ROS 2."
    )
    parser.add_argument("--version", action="version", version=hucrl_ros.__version__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    arguments = [*(sys.argv[1:] if argv is None else argv)]  # `list` is a command's module here
    # One command must not wait for what another one imports.
    for command in arguments[:1] if arguments[:1] and arguments[0] in COMMANDS else COMMANDS:
        importlib.import_module(f"hucrl_ros.cli.{command}").add_parser(subparsers)
    args = parser.parse_args(arguments)
    try:
        return int(args.run(args))
    except ConfigError as error:
        print(f"hucrl {args.command}: {error}", file=sys.stderr)
        return 2
    except HucrlError as error:
        print(f"hucrl {args.command}: {error}", file=sys.stderr)
        return 1
