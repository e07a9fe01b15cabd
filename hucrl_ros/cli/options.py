"""Options that several commands have, declared once each."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

LARGEST_SEED = 2**31 - 1

Bundle = Annotated[Path, typer.Argument(metavar="BUNDLE", help="its folder")]
Task = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="what to learn: one of `hucrl list tasks`, or the YAML of a robot of your own",
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="settings, in YAML")
]
Episodes = Annotated[int | None, typer.Option(metavar="N", help="episodes, random ones included")]
Penalty = Annotated[float | None, typer.Option(metavar="RHO", help="weight of efforts")]
OneStrategy = Annotated[
    Literal["greedy", "thompson", "optimistic"] | None,
    typer.Option("--strategy", help="to explore"),
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="of everything random")]
Device = Annotated[
    Literal["cpu", "cuda"] | None, typer.Option(help="where models and policies learn")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="any other setting, e.g. planner.horizon=30; may be repeated",
    ),
]
RunFolderOption = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="the run's folder")
]
NoFigures = Annotated[bool, typer.Option("--no-figures", help="leave out figures and videos")]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="continue the run in --out DIR, with --episodes N also beyond its end"
    ),
]

EpisodeCount = Annotated[int, typer.Option(metavar="N", min=1, help="how many of each")]
FirstSeed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="of the first episode")]
Json = Annotated[bool, typer.Option("--json", help="print the table as JSON")]
PageFolder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="for numbers, a figure and README.md"),
]
Machine = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="what to call this one in README.md",
        show_default="its number of cores",
    ),
]
Priority = Annotated[
    int, typer.Option(metavar="P", min=0, max=99, help="SCHED_FIFO priority; 0: none")
]

WorkerCount = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=1, help="trainings at a time", show_default="1"),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="train on a Ray cluster instead, as many at a time as it has processors: HOST:PORT, "
        "auto (the one this machine belongs to), or local (one that ends with the command)",
    ),
]


def parse_settings(texts: list[str] | None) -> dict[str, Any]:
    """Keys and values of `--set KEY=VALUE`, all of them.

    Raises:
        ConfigError: one has another form.
    """
    from hucrl_ros.run.prepare import parse_setting

    return dict(parse_setting(text) for text in texts or ())
