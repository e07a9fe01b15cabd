"""Options that several commands have, declared once each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from hucrl_ros.cli.parsing import folder_to_write
from hucrl_ros.errors import ConfigError

LARGEST_SEED = 2**31 - 1

Bundle = Annotated[Path, Argument(metavar="BUNDLE", help="its folder")]
Task = Annotated[
    str,
    Argument(
        metavar="TASK",
        help="what to learn: one of `hucrl list tasks`, or the YAML of a robot of your own",
    ),
]
ConfigFile = Annotated[Path | None, Option("--config", metavar="FILE", help="settings, in YAML")]
Episodes = Annotated[int | None, Option(metavar="N", help="episodes, random ones included")]
Penalty = Annotated[float | None, Option(metavar="RHO", help="weight of efforts")]
OneStrategy = Annotated[
    Literal["greedy", "thompson", "optimistic", "sombrl", "opax"] | None,
    Option("--strategy", help="to explore"),
]
Seed = Annotated[int | None, Option(metavar="N", help="of everything random")]
Device = Annotated[Literal["cpu", "cuda"] | None, Option(help="where models and policies learn")]
Settings = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        help="any other setting, e.g. planner.horizon=30; may be repeated",
    ),
]
RunFolderOption = Annotated[Path | None, Option("--out", metavar="DIR", help="the run's folder")]
FromRun = Annotated[
    Path | None,
    Option(
        "--from",
        metavar="RUN",
        help="folder of another run of the task, e.g. in simulation: the new one begins with its "
        "policies and episodes, these weighted by model.from_weight",
    ),
]
NoFigures = Annotated[bool, Option("--no-figures", help="leave out figures and videos")]
Resume = Annotated[
    bool,
    Option(
        "--resume", help="continue the run in --out DIR, with --episodes N also beyond its end"
    ),
]

EpisodeCount = Annotated[int, Option(metavar="N", min=1, help="how many of each")]
FirstSeed = Annotated[int, Option(min=0, max=LARGEST_SEED, help="of the first episode")]
Json = Annotated[bool, Option("--json", help="print the table as JSON")]
PageFolder = Annotated[
    Path | None,
    Option(
        "--out",
        metavar="DIR",
        callback=folder_to_write,
        help="for numbers, a figure and README.md",
    ),
]
Machine = Annotated[
    str | None,
    Option(metavar="NAME", help="what README.md calls this one; default: its number of cores"),
]
Priority = Annotated[int, Option(metavar="P", min=0, max=99, help="SCHED_FIFO priority; 0: none")]

WorkerCount = Annotated[
    int | None, Option("--workers", metavar="N", min=1, help="trainings at a time; default: 1")
]
RayAddress = Annotated[
    str | None,
    Option(
        "--ray",
        metavar="ADDRESS",
        help="train on a Ray cluster instead, as many at a time as it has processors: HOST:PORT, "
        "auto (the one this machine belongs to), or local (one that ends with the command)",
    ),
]


def parse_settings(
    texts: list[str] | None, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Dotted keys and values of `--set KEY=VALUE`, all of them, and of settings with an option.

    Args:
        texts: What follows each `--set`.
        given: By options of their own, which have been left out where None.

    Raises:
        ConfigError: one has another form, or two contradict each other.
    """
    from hucrl_ros.config.files import COMMAND_LINE, dotted
    from hucrl_ros.run.asked import parse_setting

    found = {key: value for key, value in (given or {}).items() if value is not None}
    for text in texts or ():
        for key, value in dotted(dict([parse_setting(text)])).items():
            if found.setdefault(key, value) != value:
                raise ConfigError(
                    f"{COMMAND_LINE}: {key} = {value!r}, but also {found[key]!r}; say it once"
                )
    return found
