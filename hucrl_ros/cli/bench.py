"""`hucrl bench`: measure this machine."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from hucrl_ros.cli import options
from hucrl_ros.cli.options import EpisodeCount, FirstSeed, Json, Machine, PageFolder, Settings
from hucrl_ros.cli.parsing import Command, above_zero, command_line, one_of
from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    from hucrl_ros.benchmarks import Output

app = typer.Typer(
    help="Measure the planning tick, the control loop and hours of it, the watchdog, the page, "
    "planners, learning.\n\n"
    "Each benchmark prints a table."
)
ENGINES = ["compiled", "onnx"]
TICKS = ["64x5x3", "200x10x3"]
NOISE_DRAWS = ["0", "2", "4", "8"]
THREADS = [1, 2]
RATES = [80.0, 250.0, 500.0]
PLANNING = ["off", "on"]
TRAIN_SEEDS = [0, 1, 2]
DELAYS = [0.0, 20.0, 50.0]
LONGEST_MS = 1000
SIZES = ["64x1", "64x3", "192x1", "192x3"]
"""Three iterations, and one with three times the particles, cost the same."""
EPISODES = [10, 50, 200]
PagePort = Annotated[int, Option(min=1024, max=65535, help="of the page")]


@app.command(cls=Command)
def tick(
    ctx: typer.Context,
    bundle: Annotated[
        Path | None, Argument(metavar="BUNDLE", help="its folder; default: untrained ones")
    ] = None,
    sizes: Annotated[
        list[str], Option(metavar="NxHxI...", help="particles x horizon x iterations")
    ] = TICKS,
    noise_draws: Annotated[
        list[str],
        Option(
            metavar=f"<{'|'.join(NOISE_DRAWS)}>...",
            callback=one_of(*NOISE_DRAWS),
            help="planner.noise_draws",
        ),
    ] = NOISE_DRAWS[:2],
    threads: Annotated[list[int], Option(metavar="T...", min=1, help="of the engine")] = THREADS,
    engines: Annotated[
        list[str],
        Option(
            metavar=f"<{'|'.join(ENGINES)}>...", callback=one_of(*ENGINES), help="which to measure"
        ),
    ] = ENGINES,
    seconds: Annotated[
        float, Option(metavar="S", callback=above_zero, help="for each line of the table")
    ] = 2.0,
    as_json: Json = False,
    out: PageFolder = None,
    machine: Machine = None,
) -> None:
    """How long a planning tick takes, beside what the processor can do.

    A tick is particles x horizon x iterations, for each draw of noise, of policies, every head of
    the model, the imagined step, reward and critic, and the planner's sampling and selection. The
    peak rate is that of a 512 x 512 x 512 matrix product in float32 by torch, measured between the
    ticks with as many threads. Without a bundle, untrained ones are measured: the pendulum with
    5 x (64, 64), the arm of the reacher with 5 x (200, 200) and 5 x (200, 200, 200, 200).
    """
    from hucrl_ros.benchmarks.tick import run

    run(bundle, sizes, [int(n) for n in noise_draws], threads, engines, seconds, _output(ctx))


@app.command(cls=Command)
def loop(
    ctx: typer.Context,
    bundle: Annotated[Path | None, Option(metavar="BUNDLE", help="its folder")] = None,
    task: Annotated[Literal["pendulum", "arm"], Option(help="without --bundle")] = "pendulum",
    rates: Annotated[
        list[float], Option(metavar="HZ...", min=1, max=2000, help="of joint states")
    ] = RATES,
    planning: Annotated[
        list[str],
        Option(metavar="<off|on>...", callback=one_of(*PLANNING), help="off: policy alone"),
    ] = PLANNING,
    seconds: Annotated[float, Option(metavar="S", min=2, max=86400, help="of each")] = 20.0,
    background_load: Annotated[
        bool, Option("--background-load", "--hog", help="keep one core busy beside it")
    ] = False,
    priority: options.Priority = 0,
    settings: Settings = None,
    as_json: Json = False,
    out: PageFolder = None,
    machine: Machine = None,
) -> None:
    """Latency and jitter from joint state to command, between two processes over DDS.

    One process publishes joint states at a steady rate and times the commands that come back; the
    other is the controller as it is. A period is missed where the command isn't back before the
    next joint state is due. Without --bundle, networks of the task's size are made; their weights
    are random, which doesn't change how long they take.
    """
    from hucrl_ros.benchmarks.loop import run

    changes = options.parse_settings(settings)
    output = _output(ctx, "bundle" if bundle is None else "task")
    run(bundle, task, rates, planning, seconds, background_load, priority, changes, output)


@app.command(cls=Command)
def watchdog(
    ctx: typer.Context,
    bundle: Annotated[Path | None, Option(metavar="BUNDLE", help="its folder")] = None,
    task: Annotated[Literal["pendulum", "arm"], Option(help="without --bundle")] = "pendulum",
    kills: Annotated[int, Option(metavar="N", min=1, help="controllers that are killed")] = 20,
    stops: Annotated[int, Option(metavar="N", min=0, help="times that one is stopped")] = 200,
    load: Annotated[int, Option(metavar="N", min=0, help="busy processes beside it")] = 0,
    priority: options.Priority = 0,
    browsers: Annotated[
        int, Option(metavar="N", min=0, max=100, help="that look at the page of hucrl watch")
    ] = 0,
    port: PagePort = 8089,
    seed: FirstSeed = 0,
    as_json: Json = False,
    out: PageFolder = None,
    machine: Machine = None,
) -> None:
    """How soon the safe command is at the robot when the controller is killed or stopped.

    Joint states come at the task's rate. The controller's process is stopped (SIGSTOP), and goes
    on when the safe command has come; in the end it is killed (SIGKILL). Each killed one takes
    some seconds to be replaced. Of fewer than a thousand signals no p99.9 is told. With --browsers
    the page of `hucrl watch` is open meanwhile.
    """
    from hucrl_ros.benchmarks.watchdog import run

    if browsers and task == "arm" and bundle is None:
        raise ConfigError("--browsers: the arm is made up and can't be drawn; name a bundle")
    output = _output(ctx, "bundle" if bundle is None else "task")
    run(bundle, task, kills, stops, load, priority, browsers, port, seed, output)


@app.command(cls=Command)
def soak(
    ctx: typer.Context,
    task: Annotated[Literal["pendulum", "arm"], Option(help="what is controlled")] = "pendulum",
    minutes: Annotated[float, Option(metavar="M", min=0.2, max=10080, help="how long")] = 120.0,
    rate: Annotated[
        float | None,
        Option(metavar="HZ", min=1, max=2000, show_default="80; arm: 50", help="of joint states"),
    ] = None,
    swap_every: Annotated[
        float, Option(metavar="S", min=1, max=86400, help="between two bundles")
    ] = 60.0,
    learning: Annotated[bool, Option(help="learn beside it, all the time")] = True,
    priority: options.Priority = 0,
    settings: Settings = None,
    as_json: Json = False,
    out: PageFolder = None,
    machine: Machine = None,
) -> None:
    """Hours of control: what grows, and which late commands are the machine's.

    Joint states come at a steady rate, the controller answers, the watchdog stands by, bundles are
    swapped, a learner learns. Beside them a loop of machine code does nothing but wake up at the
    same rate: what holds that one up is the machine's. Memory, threads, descriptors and shared
    memory of each process are looked at some hundred times. For a night: `--minutes 600`.
    """
    from hucrl_ros.benchmarks.soak import run

    changes = options.parse_settings(settings)
    run(task, rate, minutes, swap_every, learning, priority, changes, _output(ctx))


@app.command(cls=Command)
def page(
    ctx: typer.Context,
    minutes: Annotated[float, Option(metavar="M", min=0.5, max=1440, help="how long")] = 10.0,
    browsers: Annotated[int, Option(metavar="N", min=1, max=100, help="that look at it")] = 10,
    port: PagePort = 8089,
    priority: options.Priority = 0,
    settings: Settings = None,
    as_json: Json = False,
    out: PageFolder = None,
    machine: Machine = None,
) -> None:
    """What the page of `hucrl watch` costs: ticks with and without it, processor time, memory.

    A controller answers joint states at 80 Hz. Beside it the page works and stands still in turn,
    some seconds each, so that both are measured in one run. Browsers that come and go hear all
    that it sends, and draw nothing, as if they were on other machines.
    """
    from hucrl_ros.benchmarks.page import run

    run(minutes, browsers, port, priority, options.parse_settings(settings), _output(ctx))


@app.command(cls=Command)
def delay(
    ctx: typer.Context,
    bundles: Annotated[
        list[Path] | None,
        Argument(metavar="BUNDLE", help="default: learn the pendulum with each of --train-seeds"),
    ] = None,
    train_seeds: Annotated[
        list[int],
        Option(metavar="SEED...", min=0, max=options.LARGEST_SEED, help="without BUNDLE"),
    ] = TRAIN_SEEDS,
    delays: Annotated[
        list[float], Option(metavar="MS...", min=0, max=LONGEST_MS, help="of commands")
    ] = DELAYS,
    tick_ms: Annotated[
        float, Option("--tick", metavar="MS", min=0, max=LONGEST_MS, help="time that a tick takes")
    ] = 2.0,
    episodes: EpisodeCount = 3,
    seed: FirstSeed = 0,
    real_time: Annotated[
        bool, Option("--real-time", help="through ROS instead, on this machine's clock")
    ] = False,
    priority: options.Priority = 0,
    as_json: Json = False,
    out: PageFolder = None,
) -> None:
    """Return against the delay of commands, with and without latency compensation.

    Each bundle is played on a robot whose physics never waits: a command acts only after the tick
    that chose it and the delay. The clock is simulated and planning has no time limit, so equal
    seeds give equal returns on any machine; only --real-time plays through ROS in real time, on
    simulator and controller as they are.
    """
    from hucrl_ros.benchmarks.delay import run

    unused = ["tick_ms"] if real_time else ["priority"]
    output = _output(ctx, *unused, *(["train_seeds"] if bundles else []))
    seeds = range(seed, seed + episodes)
    run(bundles or [], train_seeds, delays, tick_ms, seeds, real_time, priority, output)


@app.command(cls=Command)
def planners(
    ctx: typer.Context,
    bundles: Annotated[
        list[Path], Argument(metavar="BUNDLE", help="folders; LABEL=FOLDER names one")
    ],
    names: Annotated[
        list[str] | None,
        Option("--planners", metavar="NAME...", help="which to compare", show_default="all"),
    ] = None,
    sizes: Annotated[
        list[str], Option(metavar="NxI...", help="particles x iterations in a tick")
    ] = SIZES,
    budget_ms: Annotated[
        list[float] | None,
        Option(
            metavar="MS...",
            callback=above_zero,
            help="time for planning in a tick, which cuts iterations; default: no limit",
        ),
    ] = None,
    episodes: EpisodeCount = 3,
    seed: FirstSeed = 0,
    settings: Settings = None,
    as_json: Json = False,
    out: PageFolder = None,
    machine: Machine = None,
) -> None:
    """Return on the true robot against planning time, planner by planner.

    Each planner plays each bundle's task in the simulator, physics waiting for every command. With
    --budget-ms iterations are cut when the time is up, as they are on a robot; without it, equal
    seeds give equal returns.
    """
    from hucrl_ros.benchmarks.planners import make_comparison, run

    changes = options.parse_settings(settings)
    run(make_comparison(bundles, names, sizes, budget_ms, episodes, seed, changes), _output(ctx))


@app.command(cls=Command)
def learning(
    task: Annotated[str, Option(metavar="TASK", help="what to learn")] = "reacher",
    episodes: Annotated[list[int], Option(metavar="N...", min=1, help="of data")] = EPISODES,
    threads: Annotated[int, Option(metavar="T", min=1, help="of torch")] = 1,
    settings: Settings = None,
) -> None:
    """How long fit and search after an episode take, with little and with much data.

    For each number of episodes, that many are played with random efforts; then the model is fitted
    to all of them and policies are searched, as after an episode of `hucrl up`. Nothing else
    should run.
    """
    from hucrl_ros.benchmarks.learning import run

    run(task, episodes, threads, options.parse_settings(settings))


def _output(ctx: typer.Context, *unused: str) -> "Output":
    """Where the table goes, and the command without options that change no number."""
    from hucrl_ros.benchmarks import Output

    given = ctx.params
    command = command_line(ctx, ("as_json", "machine", *unused))
    machine = given.get("machine") or f"{os.cpu_count()} cores"
    return Output(given["as_json"], given["out"], command, machine)
