"""A bag's contents as tables."""

from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hucrl_ros.bags.contents import BagContents, RawMessage, read_contents
from hucrl_ros.bags.messages import deserialize
from hucrl_ros.bags.metadata import Outcome
from hucrl_ros.bags.reader import Episode, read_episode
from hucrl_ros.cli.describe_bundle import pairs
from hucrl_ros.config.robot_spec import RobotSpec, sources
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import known_tasks
from hucrl_ros.controller.ticks import Source
from hucrl_ros.controller.topics import GOAL, JOINT_STATES, OBJECT_POSE
from hucrl_ros.errors import BagError, HucrlError
from hucrl_ros.robots import describe
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import Task, make_task

ANY_STEPS = 2**31
"""Where no run says how long an episode is, all of it is read."""


def describe_bag(path: Path) -> RenderableType:
    """Tables that say what a bag holds, and, if there is an episode in it, how it went.

    Raises:
        BagError: it is no bag, or damaged.
    """
    contents = read_contents(path)
    parts: list[RenderableType] = [Text(f"Bag {path}", style="bold"), _state(path, contents), ""]
    parts.append(_topics(contents.messages))
    try:
        task = _task(path)
        spec = task.spec if task else _robot(path, contents.messages)
        episode = read_episode(path, spec, task.steps if task else ANY_STEPS)
    except BagError as error:
        return Group(*parts, Text(f"no episode: {error}", style="yellow"))
    parts += ["", pairs(_episode(episode, spec, task), title="Episode")]
    parts += ["", _joints(episode, spec), ""]
    if spec.observed or spec.context:
        parts += [_others(episode, spec), ""]
    parts += [Text(f"! {event}", style="yellow") for event in episode.events]
    return Group(*parts)


def _state(path: Path, contents: BagContents) -> Text:
    if not contents.whole:
        return Text(
            f"cut off: its recorder was killed; `hucrl inspect {path} --repair` makes a whole one",
            style="yellow",
        )
    if contents.outcome is Outcome.INTERRUPTED:
        return Text("whole, of an episode that was interrupted", style="yellow")
    return Text("whole", style="green")


def _topics(messages: list[RawMessage]) -> Table:
    table = Table("topic", "type", "messages", "rate", box=None)
    counts = Counter((message.topic, message.type) for message in messages)
    for (topic, kind), count in sorted(counts.items()):
        times = [message.received_ns for message in messages if message.topic == topic]
        span = (times[-1] - times[0]) / 1e9
        rate = f"{(count - 1) / span:.1f} Hz" if count > 1 and span > 0 else ""
        table.add_row(topic, kind, str(count), rate)
    return table


def _task(path: Path) -> Task | None:
    """The task of the run that the bag lies in, if it lies in one."""
    for folder in path.absolute().parents:
        try:
            run = RunFolder.open(folder)
            config: Config = run.config
            return make_task(config.task, config.action_penalty, run.robot)
        except HucrlError:
            continue
    return None


def _robot(path: Path, messages: list[RawMessage]) -> RobotSpec:
    """The known robot whose joints are in the bag, and whose object or goal, if it has one."""
    places = {name: any(m.is_of(name) for m in messages) for name in (OBJECT_POSE, GOAL)}
    for message in messages:
        if message.is_of(JOINT_STATES):
            names = deserialize(message.data, message.type).name
            specs = [describe(task).robot.spec for task in known_tasks()]
            for spec in specs:
                told = sources(spec)
                found = {OBJECT_POSE: bool(told.object), GOAL: bool(told.goal)}
                joints = {*spec.joint_names, *told.further}
                if joints <= set(names) and found == places:
                    return spec
            raise BagError(
                f"{path}: joints {', '.join(names)} belong to none of the known robots "
                f"({', '.join(sorted({spec.name for spec in specs}))})"
            )
    raise BagError(f"{path}: holds no joint state")


def _episode(episode: Episode, spec: RobotSpec, task: Task | None) -> dict[str, str]:
    ticks = episode.ticks
    p50, p99, largest = np.percentile(ticks["tick_ms"], [50, 99, 100])
    sources = Counter(Source(int(source)).name.lower() for source in ticks["source"])
    values = {
        "robot": spec.name,
        "steps": _steps(episode, task),
        "ticks": f"{len(ticks)}: p50 {p50:.2f}, p99 {p99:.2f}, max {largest:.2f} ms",
        "answered by": ", ".join(f"{name} {count}" for name, count in sources.most_common()),
        "missed": f"{np.count_nonzero(ticks['missed'])} (period {1e3 * spec.period:g} ms)",
        "clamped": str(np.count_nonzero(ticks["clamped"])),
    }
    if task is not None:
        rewards = task.rewards(episode.states[:-1], episode.actions)
        values["return"] = f"{rewards.sum():.2f} (action penalty {task.action_penalty:g})"
    return values


def _steps(episode: Episode, task: Task | None) -> str:
    steps, gaps = len(episode.actions), int(np.count_nonzero(~episode.contiguous))
    of = f" of {task.steps}" if task else ""
    return f"{steps}{of}, {gaps} of them over a gap" if gaps else f"{steps}{of}"


def _joints(episode: Episode, spec: RobotSpec) -> Table:
    table = Table("joint", "position", "velocity", "effort", box=None)
    joints = len(spec.joint_names)
    for index, name in enumerate(spec.joint_names):
        effort = ""
        if name in spec.actuated_joints and len(episode.actions):
            effort = _range(episode.actions[:, spec.actuated_joints.index(name)])
        table.add_row(
            name,
            _range(episode.states[:, index]),
            _range(episode.states[:, joints + index]),
            effort,
        )
    return table


def _others(episode: Episode, spec: RobotSpec) -> Table:
    """What the state holds besides the joints."""
    table = Table("entry", "value", "", box=None)
    for kind, names in (("observed", spec.observed), ("context", spec.context)):
        for name in names:
            index = 2 * len(spec.joint_names) + (*spec.observed, *spec.context).index(name)
            table.add_row(name, _range(episode.states[:, index]), kind)
    return table


def _range(values: NDArray[np.float64]) -> str:
    return f"{values.min():.3g} … {values.max():.3g}"
