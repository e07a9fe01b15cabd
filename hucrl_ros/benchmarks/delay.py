"""Return against the delay of commands, with and without latency compensation.

Each bundle is played on a robot whose physics never waits: a command acts only after the tick
that chose it and the delay. The clock is simulated and planning has no time limit, so equal seeds
give equal returns on any machine; only --real-time plays through ROS in real time, on simulator
and controller as they are.
"""

import argparse
import itertools
import os
import shlex
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.benchmarks.trials import NODES, run_trial
from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.errors import ConfigError
from hucrl_ros.run.node_list import NodeSpec, Value

if TYPE_CHECKING:
    from hucrl_ros.benchmarks.results import DelayRow
    from hucrl_ros.controller.bundle import Bundle
    from hucrl_ros.robots import MujocoRobot
    from hucrl_ros.tasks import Task

Array = NDArray[np.float64]

MODES = ("never", "auto")
"""Of `control.latency_compensation`."""
LONGEST_MS = 1000.0
TRAINED = "pendulum"
"""The task that is learned first where no bundle is given."""
_ROUNDING = 1e-9
"""[s] Below it, two times are the same."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `hucrl bench delay`."""
    parser.add_argument(
        "bundles",
        type=Path,
        nargs="*",
        metavar="BUNDLE",
        help="folders; default: learn the pendulum first, once with each of --train-seeds",
    )
    parser.add_argument(
        "--train-seeds", type=int, nargs="+", default=[0, 1, 2], metavar="SEED", help="[0 1 2]"
    )
    parser.add_argument(
        "--delays", type=float, nargs="+", default=[0, 20, 50], metavar="MS", help="[0 20 50]"
    )
    parser.add_argument(
        "--tick", type=float, default=2.0, metavar="MS", help="time that a tick takes [2]"
    )
    parser.add_argument("--episodes", type=int, default=3, metavar="N", help="of each [3]")
    parser.add_argument("--seed", type=int, default=0, help="of the first episode [0]")
    parser.add_argument(
        "--real-time", action="store_true", help="through ROS instead, on this machine's clock"
    )
    parser.add_argument(
        "--priority", type=int, default=0, metavar="P", help="with --real-time: SCHED_FIFO [0]"
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="for episodes.csv, a figure and README.md"
    )


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from hucrl_ros.benchmarks import report  # torch
    from hucrl_ros.benchmarks.results import delay_scores
    from hucrl_ros.experiments.evaluation import open_bundle

    _check(args)
    with tempfile.TemporaryDirectory(prefix="hucrl-delay-") as scratch:
        paths = args.bundles or _train(args.train_seeds, Path(scratch))
        entries = [(path, *open_bundle(path)) for path in paths]
        rows = list(_play(args, entries))
    scores = delay_scores(rows)
    print(*([report.as_json(scores)] if args.json else report.DELAYS.text(scores)), sep="\n")
    if args.out is not None:
        files = report.write_delays(args.out, rows, command_line(args), entries[0][2])
        if not args.json:
            print(*files, sep="\n")
    return 0


def command_line(args: argparse.Namespace) -> str:
    """The command that gives the same table."""
    words = ["hucrl", "bench", "delay", *map(os.fspath, args.bundles)]
    if not args.bundles:
        words += ["--train-seeds", *map(str, args.train_seeds)]
    words += ["--delays", *(f"{delay:g}" for delay in args.delays)]
    if args.real_time:
        words += ["--real-time", "--priority", str(args.priority)]
    else:
        words += ["--tick", f"{args.tick:g}"]
    words += ["--episodes", str(args.episodes), "--seed", str(args.seed)]
    words += [] if args.out is None else ["--out", os.fspath(args.out)]
    return shlex.join(words)


def _check(args: argparse.Namespace) -> None:
    """Refuse what makes no sense.

    Raises:
        ConfigError: something does not.
    """
    if args.episodes < 1:
        raise ConfigError(f"--episodes = {args.episodes}: at least 1")
    for seed in (args.seed, *args.train_seeds):
        if not 0 <= seed < 2**31:
            raise ConfigError(f"--seed = {seed}: from 0 to {2**31 - 1}")
    if not 0 <= args.priority <= 99:
        raise ConfigError(f"--priority {args.priority}: from 0 to 99")
    for name, values in (("--delays", args.delays), ("--tick", [args.tick])):
        for value in values:
            if not 0 <= value <= LONGEST_MS:
                raise ConfigError(f"{name} = {value:g}: from 0 to {LONGEST_MS:g} ms")


def _train(seeds: list[int], folder: Path) -> list[Path]:
    """The last bundle of a run with each seed."""
    import torch

    from hucrl_ros.config.files import load_config, task_config_path
    from hucrl_ros.experiments.train import train
    from hucrl_ros.run.folder import RunFolder

    torch.set_num_threads(1)
    paths = []
    for seed in seeds:
        config = load_config(task_config_path(TRAINED), {"seed": seed})
        run_folder = RunFolder.create(folder / f"seed{seed}", config)
        train(config, run_folder)
        paths.append(run_folder.bundle(config.episodes))
    return paths


def _play(
    args: argparse.Namespace, entries: "list[tuple[Path, Bundle, Task]]"
) -> "Iterator[DelayRow]":
    """A row for each episode."""
    from hucrl_ros.benchmarks.results import DelayRow

    seeds = range(args.seed, args.seed + args.episodes)
    for path, bundle, task in entries:
        name = f"{path.absolute().parents[1].name}/{path.name}"
        for delay, mode, seed in itertools.product(args.delays, MODES, seeds):
            control = ControlSettings(
                latency_compensation=mode,
                extra_delay=1e-3 * delay,
                realtime_priority=args.priority,
            )
            if args.real_time:
                total, share, tick_ms = play_real_time(bundle, task, seed, control)
            else:
                played = play_delayed(bundle, task, seed, 1e-3 * delay, 1e-3 * args.tick, control)
                total, share, tick_ms = played.total, played.compensated / task.steps, args.tick
            yield DelayRow(name, delay, tick_ms, mode, seed, total, share)


class DelayedEpisode(NamedTuple):
    """One episode on a simulated clock."""

    total: float
    """Return, of the efforts that acted."""
    states: Array
    """`(T, p)` at the beginning of each control period."""
    actions: Array
    """`(T, q)` mean effort that acted in each period [N m or N]."""
    compensated: int
    """Ticks that planned from a predicted state [1]."""


class SlowBus:
    """A robot behind a bus: each command acts from `delay` [s] after it was sent."""

    def __init__(self, robot: "MujocoRobot", delay: float) -> None:
        self._robot = robot
        self._delay = delay
        self._substep_s: float = robot.spec.period / robot.substeps
        self._command: Array = np.zeros(robot.spec.action_dim)
        self._coming: deque[tuple[float, Array]] = deque()

    def send(self, effort: Array, now: float) -> None:
        """A command `(q,)` is sent at `now` [s]."""
        self._coming.append((now + self._delay, effort))

    def period(self, now: float) -> Array:
        """A control period from `now` [s] on passes; returns the mean effort `(q,)` in it."""
        applied = []
        for k in range(self._robot.substeps):
            while self._coming and self._coming[0][0] <= now + k * self._substep_s + _ROUNDING:
                self._command = self._coming.popleft()[1]
            self._robot.substep(self._command)
            applied.append(self._command)
        return np.asarray(np.mean(applied, axis=0))


def play_delayed(
    bundle: "Bundle",
    task: "Task",
    seed: int,
    delay: float,
    tick_s: float,
    control: ControlSettings,
) -> DelayedEpisode:
    """Play an episode on a simulated clock, on which physics waits for nobody.

    Planning has no time limit, so that the seed decides everything.

    Args:
        bundle: What to play.
        task: Its task.
        seed: Of the start and of planning.
        delay: From the sending of a command until it acts [s].
        tick_s: What a tick takes, on the simulated clock [s].
        control: Says whether and for how long a delay is compensated.
    """
    from hucrl_ros.controller.agent import Agent
    from hucrl_ros.controller.guard import Guard
    from hucrl_ros.controller.latency import DelayCompensation

    spec, robot = task.spec, task.robot()
    agent, guard = Agent(bundle, None), Guard(spec, bundle.manifest.safety)
    compensation = DelayCompensation(spec.period, spec.action_dim, control)
    bus = SlowBus(robot, delay)
    states, actions, compensated = [robot.reset(np.random.default_rng(seed))], [], 0
    agent.start_episode(seed)
    for step in range(task.steps):
        now, state = step * spec.period, states[-1]
        coming = compensation.coming(now)
        compensated += bool(coming)
        effort = guard.check(agent.act(state, coming=coming).action, state).effort
        compensation.ticked(tick_s)
        compensation.sent(effort, now + tick_s)
        bus.send(effort, now + tick_s)
        actions.append(bus.period(now))
        states.append(robot.state)
    played, applied = np.stack(states[:-1]), np.stack(actions)
    total = float(task.rewards(played, applied).sum())
    return DelayedEpisode(total, played, applied, compensated)


class RealTimeEpisode(NamedTuple):
    """One episode through ROS."""

    total: float
    """Return, of the efforts that acted."""
    compensated: float
    """Share of the ticks that planned from a predicted state [1]."""
    tick_ms: float
    """Median [ms]."""


def play_real_time(
    bundle: "Bundle", task: "Task", seed: int, control: ControlSettings
) -> RealTimeEpisode:
    """Play an episode through ROS, with the simulator and the controller in real time.

    Args:
        bundle: What to play.
        task: Its task.
        seed: Of the start and of planning.
        control: Its `extra_delay` is also what the simulator delays commands by.

    Raises:
        ConfigError: the bundle's state holds what no joint state tells.
        RunError: a process ended.
    """
    manifest = bundle.manifest
    if manifest.observed or manifest.context:
        others = ", ".join((*manifest.observed, *manifest.context))
        raise ConfigError(
            f"{bundle.path}: its state holds {others}; --real-time needs one of joint positions "
            "and velocities only"
        )
    settings: dict[str, Value] = {"task": task.name, "mode": "real_time", "seed": seed}
    own: dict[str, Value] = {"bundle": str(bundle.path.absolute())}
    nodes = (
        NodeSpec("simulator", parameters={**settings, "command_delay": control.extra_delay}),
        NodeSpec("episode_logger", parameters=own, package=NODES),
    )
    controller = {
        **settings,
        **own,
        "control.latency_compensation": control.latency_compensation,
        "control.extra_delay": control.extra_delay,
        "control.realtime_priority": control.realtime_priority,
    }
    raw = run_trial(lambda pid: nodes, controller, manifest.steps * manifest.period)
    total = task.rewards(np.array(raw["states"]), np.array(raw["actions"])).sum()
    compensated = int(raw["diagnostics"]["compensated"]) / len(raw["tick_ms"])
    return RealTimeEpisode(float(total), compensated, float(np.median(raw["tick_ms"])))
