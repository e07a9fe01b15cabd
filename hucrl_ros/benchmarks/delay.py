"""Return against the delay of commands, with and without latency compensation."""

import itertools
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from hucrl_ros.benchmarks import Output, report
from hucrl_ros.benchmarks.loop import NODES, run_trial
from hucrl_ros.benchmarks.planners import Entry, open_entries
from hucrl_ros.benchmarks.results import DelayRow, delay_scores
from hucrl_ros.config.files import load_config, task_config_path
from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.passage import Passage
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.controller.timing import DelayCompensation
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.train import train
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.node_list import NodeSpec, Value
from hucrl_ros.tasks import Task

MODES = ("never", "auto")
"""Of `control.latency_compensation`."""
TRAINED = "pendulum"
"""The task that is learned first where no bundle is given."""
_ROUNDING = 1e-9
"""[s] Below it, two times are the same."""


def run(
    paths: Sequence[Path],
    train_seeds: Sequence[int],
    delays: Sequence[float],
    tick_ms: float,
    seeds: Sequence[int],
    real_time: bool,
    priority: int,
    output: Output,
) -> None:
    """Print the table; the arguments are the options of `hucrl bench delay`."""
    with tempfile.TemporaryDirectory(prefix="hucrl-delay-") as scratch:
        folders = paths or _train(train_seeds, Path(scratch))
        entries = open_entries(folders)
        if len({entry.task.action_penalty for entry in entries}) > 1:
            raise ConfigError("BUNDLE: of several action penalties; their returns have no mean")
        rows = list(
            _play(
                entries,
                list(dict.fromkeys(delays)),
                None if real_time else tick_ms,
                seeds,
                priority,
            )
        )
    scores = delay_scores(rows)
    output.say(*report.DELAYS.text(scores))
    task = entries[0].task
    report.finish(output, scores, lambda folder: report.write_delays(folder, rows, output, task))


def _train(seeds: Sequence[int], folder: Path) -> list[Path]:
    """The last bundle of a run with each seed."""
    torch.set_num_threads(1)
    paths = []
    for seed in dict.fromkeys(seeds):
        config = load_config(task_config_path(TRAINED), {"seed": seed})
        run_folder = RunFolder.create(folder / f"seed{seed}", config)
        train(config, run_folder)
        paths.append(run_folder.bundle(config.episodes))
    return paths


def _play(
    entries: Sequence[Entry],
    delays: Sequence[float],
    tick_ms: float | None,
    seeds: Sequence[int],
    priority: int,
) -> Iterator[DelayRow]:
    """A row for each episode; in real time where no time of a tick is given."""
    for name, bundle, task in entries:
        for delay, mode, seed in itertools.product(delays, MODES, seeds):
            control = ControlSettings(
                latency_compensation=mode, extra_delay=1e-3 * delay, realtime_priority=priority
            )
            if tick_ms is None:
                played = play_real_time(bundle, task, seed, control)
            else:
                played = play_delayed(bundle, task, seed, 1e-3 * delay, 1e-3 * tick_ms, control)
            *_, compensated, taken = played
            yield DelayRow(name, delay, taken, mode, seed, played.total, compensated)


class DelayedEpisode(NamedTuple):
    """One episode with commands that act late."""

    total: float
    """Return, of the efforts that acted."""
    states: Array
    """`(T, p)` at the beginning of each control period."""
    actions: Array
    """`(T, q)` mean effort that acted in each period [N m or N]."""
    compensated: float
    """Share of the ticks that planned from a predicted state [1]."""
    tick_ms: float
    """Median duration of a tick [ms]."""


class SlowBus:
    """A robot behind a bus: each command acts from `delay` [s] after it was sent."""

    def __init__(self, robot: MujocoRobot, delay: float) -> None:
        self._robot = robot
        self._delay = delay
        self._substep_s: float = robot.spec.period / robot.substeps
        self._command: Array = robot.idle(robot.state)
        self._coming: deque[tuple[float, Array]] = deque()

    def send(self, command: Array, now: float) -> None:
        """A command `(q,)` is sent at `now` [s]."""
        self._coming.append((now + self._delay, command))

    def period(self, now: float) -> Array:
        """A control period from `now` [s] on passes; returns the mean command `(q,)` in it."""
        applied = []
        for k in range(self._robot.substeps):
            while self._coming and self._coming[0][0] <= now + k * self._substep_s + _ROUNDING:
                self._command = self._coming.popleft()[1]
            self._robot.substep(self._command)
            applied.append(self._command)
        return np.asarray(np.mean(applied, axis=0))


def play_delayed(
    bundle: Bundle, task: Task, seed: int, delay: float, tick_s: float, control: ControlSettings
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
    spec, robot = task.spec, task.robot()
    agent, guard = Agent(bundle, None), Guard(spec, bundle.manifest.safety)
    compensation = DelayCompensation(spec.period, spec.action_dim, control)
    passage = Passage(spec, stepped=False, dead_time=control.extra_delay)
    states, actions, compensated = [robot.reset(np.random.default_rng(seed))], [], 0
    bus = SlowBus(robot, delay)
    agent.start_episode(seed)
    for step in range(task.steps):
        now, state = step * spec.period, states[-1]
        coming = compensation.coming(now, robot.idle(state))
        compensated += bool(coming)
        chosen = agent.act(state, coming=coming).action
        command = guard.check(chosen, state).command
        assert command is not None  # a simulated robot's state is always known
        compensation.ticked(tick_s)
        passed = passage.see(round(now * NANOSECONDS), state, now)
        for each in (compensation.sent, passage.sent, bus.send):
            each(command, now + tick_s)
        agent.uncertainty(state, chosen, passed)  # From which predictions have their bias.
        actions.append(spec.to_action(bus.period(now), state))
        states.append(robot.state)
    played, applied = np.stack(states[:-1]), np.stack(actions)
    total = float(task.rewards(played, applied).sum())
    return DelayedEpisode(total, played, applied, compensated / task.steps, 1e3 * tick_s)


def play_real_time(
    bundle: Bundle, task: Task, seed: int, control: ControlSettings
) -> DelayedEpisode:
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
        NodeSpec("simulator", parameters={**settings, "simulator.dead_time": control.extra_delay}),
        NodeSpec("episode_logger", parameters=own, package=NODES),
    )
    controller = {
        **settings,
        **own,
        "control.latency_compensation": control.latency_compensation,
        "control.extra_delay": control.extra_delay,
        "control.realtime_priority": control.realtime_priority,
    }
    raw = run_trial(nodes, controller, manifest.steps * manifest.period)
    states, actions = np.array(raw["states"]), np.array(raw["actions"])
    total = float(task.rewards(states, actions).sum())
    compensated = int(raw["diagnostics"]["compensated"]) / len(raw["tick_ms"])
    return DelayedEpisode(total, states, actions, compensated, float(np.median(raw["tick_ms"])))
