"""`hucrl fault`: hurt small runs in every way, and see what comes of it."""

import os
import signal
from typing import Annotated

import typer
from typer import Option

from hucrl_ros.cli.options import FirstSeed, Json, Machine, PageFolder
from hucrl_ros.cli.parsing import command_line, one_of
from hucrl_ros.cli.watch import PORT

PHASES = ["start", "bundle", "reset", "episode", "learning"]
MODES = ["lockstep", "real_time"]


def run(
    ctx: typer.Context,
    only: Annotated[
        list[str] | None,
        Option(
            metavar="FAULT|NODE:FAULT...",
            help="of these alone, e.g. controller:sigstop full_disk",
            show_default="all",
        ),
    ] = None,
    phases: Annotated[
        list[str],
        Option(
            "--phase",
            metavar=f"<{'|'.join(PHASES)}>...",
            callback=one_of(*PHASES),
            help="part of the run in which a fault comes",
        ),
    ] = ["episode"],  # noqa: B006  # typer copies it
    modes: Annotated[
        list[str],
        Option("--mode", metavar=f"<{'|'.join(MODES)}>...", callback=one_of(*MODES)),
    ] = MODES,
    kills: Annotated[
        int,
        Option(
            metavar="N", min=0, help="instead: random processes at random moments of whole runs"
        ),
    ] = 0,
    commands: Annotated[
        int,
        Option(metavar="N", min=0, help="go on with random kills until so many came to the robot"),
    ] = 0,
    episodes: Annotated[int, Option(metavar="N", min=1, help="of each run")] = 2,
    browsers: Annotated[
        int, Option(metavar="N", min=0, help="that look at the page of each run, hucrl up --watch")
    ] = 0,
    seed: FirstSeed = 0,
    as_json: Json = False,
    out: PageFolder = None,
    machine: Machine = None,
) -> None:
    """Hurt small runs of the pendulum in every way, and see what comes of it.

    Each fault hits each of its nodes once in each part of a run: processes killed and stopped, a
    busy machine, no memory, a full and a read-only disk, a clock that jumps, messages dropped,
    late, doubled, out of order and damaged, and a dead and a damaging network to a learner
    elsewhere. The run is continued with --resume; its results in lockstep must be those of a run
    that nothing happened to, to the last bit, and no command may be beyond the limits.

    What needs root (small disks) is left out without it, and told.
    Ctrl-C, or SIGTERM, ends the campaign with the table of what is done.
    """
    from hucrl_ros.benchmarks import Output
    from hucrl_ros.benchmarks.faults.campaign import Campaign, Wish
    from hucrl_ros.benchmarks.faults.schedule import cases

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command = command_line(ctx, ("as_json", "machine"))
    output = Output(as_json, out, command, machine or f"{os.cpu_count()} cores")
    singly = [] if kills or commands else cases(only or [], phases, modes)
    Campaign(Wish(singly, kills, commands, episodes, seed, browsers, PORT), output).run()
