"""`hucrl`: every command that a person types."""

import importlib
import os
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated

import hucrl_ros
from hucrl_ros.errors import ConfigError, HucrlError

if TYPE_CHECKING:
    from typer import Typer

COMMANDS = {
    "up": "runs.up",
    "train": "runs.train",
    "check": "check.run",
    "teach": "teach.run",
    "learn": "learn.run",
    "learner": "learner.run",
    "evaluate": "evaluate.run",
    "inspect": "inspect.run",
    "watch": "watch.run",
    "replay": "replay.run",
    "export": "export.run",
    "card": "card.run",
    "sign": "sign.run",
    "sweep": "sweep.run",
    "figure": "figure.run",
    "optimum": "optimum.run",
    "bench": "bench.app",
    "fault": "fault.run",
    "tune": "tune.run",
    "list": "list.run",
    "doctor": "doctor.run",
}
"""Module and function of each here, or the `app` of several commands."""
OLD_NAMES = {"experiment": "sweep"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit code."""
    try:
        code = _run([*(sys.argv[1:] if argv is None else argv)])
        sys.stdout.flush()
    except KeyboardInterrupt:  # also while modules are being imported
        return 130
    except BrokenPipeError:  # Its reader has seen enough: `hucrl list | head`.
        # At its end Python would flush once more, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def commands(names: Collection[str] = COMMANDS) -> "Typer":
    """`hucrl` with some of its commands: one needn't wait for what the others import."""
    import typer

    from hucrl_ros.cli.parsing import Command

    # Its own options load pydantic, and none of them was typed where a command comes first.
    whole = names is COMMANDS
    short = {"help_option_names": ["--help", "-h"]}  # also of every command below
    app = typer.Typer(add_completion=whole, add_help_option=whole, context_settings=short)

    @app.callback()
    def hucrl(
        version: Annotated[
            bool, typer.Option("--version", is_eager=True, callback=_print_version)
        ] = False,
    ) -> None:
        """Teach a robot a task in tens of episodes, through ROS 2."""

    for name in names:
        module, _, member = COMMANDS[name].partition(".")
        command = getattr(importlib.import_module(f"hucrl_ros.cli.{module}"), member)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, cls=Command)(command)
    return app


def _run(words: "list[str]") -> int:
    import typer
    from typer.main import get_command

    from hucrl_ros.cli.parsing import problem

    for old, new in OLD_NAMES.items():
        if words[:1] == [old]:
            print(f"hucrl {old}: it is called `hucrl {new}` now", file=sys.stderr)
            words[0] = new
    known = words[:1] and words[0] in COMMANDS
    command = get_command(commands(words[:1] if known else COMMANDS))
    name = f"hucrl {words[0]}" if known else "hucrl"
    try:
        return command.main(words, "hucrl", standalone_mode=False) or 0
    except typer.TyperException as error:
        print(f"{name}: {problem(error)}", file=sys.stderr)
        return 2
    except HucrlError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk, a file that somebody took away
        where = "" if error.filename is None else f"{error.filename}: "
        print(f"{name}: {where}{error.strerror or error}", file=sys.stderr)
        return 1


def _print_version(wanted: bool) -> None:
    if wanted:
        import typer

        print(hucrl_ros.__version__)
        raise typer.Exit
