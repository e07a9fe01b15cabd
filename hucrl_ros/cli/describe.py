"""What bundles, bags and descriptions of robots hold, as tables."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import mujoco
import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hucrl_ros.bags.contents import BagContents, read_contents
from hucrl_ros.bags.interrupted import sound_part
from hucrl_ros.bags.messages import RawMessage, deserialize
from hucrl_ros.bags.metadata import Outcome
from hucrl_ros.bags.reader import Episode, read_episode
from hucrl_ros.cli.functions import say_functions
from hucrl_ros.config.constraints import PositionConstraint
from hucrl_ros.config.robot import Draw, RobotSpec, StateBound, limited, sources
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import Description, dump_description, known_tasks
from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.controller.manifest import LearningReport, Manifest
from hucrl_ros.controller.ticks import Source
from hucrl_ros.controller.topics import GOAL, JOINT_STATES, OBJECT_POSE
from hucrl_ros.errors import BagError, HucrlError
from hucrl_ros.robots import describe
from hucrl_ros.robots.joint_limits import loose_limits
from hucrl_ros.robots.stopping import promised
from hucrl_ros.run.asked import RunOptions, asked_run
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import Task, make_task
from hucrl_ros.tasks.task import RANGE_SAMPLES
from hucrl_ros.tasks.terms import TERMS

ANY_STEPS = 2**20
"""Where no run says how long an episode is, all of it is read."""
HASH_DIGITS = 12


def describe_bundle(bundle: Bundle) -> RenderableType:
    """Tables that say what a checked bundle is."""
    manifest = bundle.manifest
    title = Text(f"Bundle {bundle.path}", style="bold")
    verified = Text(
        "verified: hashes, shapes, and agreement with torch's outputs within "
        f"{manifest.parity_tolerance:g}",
        style="green",
    )
    tables = [
        _pairs(_purpose(manifest)),
        _motors(manifest),
        _pairs({k: str(v) for k, v in manifest.planner}, "Planner"),
        _pairs({k: str(v) for k, v in manifest.safety}, "Safety"),
        _pairs(_learning(manifest), "Learning"),
    ]
    if bundle.imagined is not None:
        rewards = bundle.imagined.rewards
        text = f"return {rewards.sum():.1f} over {len(rewards)} steps"
        tables.append(_pairs({"imagined episode": text}, "Prediction"))
    hashes = {name: f"{digest[:HASH_DIGITS]}…" for name, digest in manifest.files.items()}
    tables.append(_pairs(hashes, "Files"))
    return Group(title, verified, *(part for table in tables for part in ("", table)))


def _pairs(values: Mapping[str, str], title: str | None = None) -> Table:
    """A table of names and values."""
    table = Table(title=title, show_header=False, box=None, title_justify="left", pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(name, value)
    return table


def _purpose(manifest: Manifest) -> dict[str, str]:
    smooth = f" up to {manifest.random_bandwidth:g} Hz" if manifest.random_bandwidth else ""
    efforts = f"random efforts{smooth}, at most {manifest.random_share:.0%} of the limit"
    plays = efforts if manifest.random else manifest.planner.algorithm
    return {
        "task": f"{manifest.task}, action penalty {manifest.action_penalty:g}",
        "plays": f"episode {manifest.episode} by {plays}",
        "strategy": f"{manifest.strategy}, beta {manifest.beta:g}, seed {manifest.seed}",
        "control": f"{manifest.steps} steps of {1e3 * manifest.period:g} ms",
        "discount": f"{manifest.discount:g}",
        "robot": manifest.robot,
        **({"constraints": "\n".join(limits)} if (limits := manifest.constraints) else {}),
    }


def _motors(manifest: Manifest) -> Table:
    change = "change of position" if manifest.command == "position" else manifest.command
    table = Table("joint", f"{change} limit", "std of targets (position, velocity)", box=None)
    limits = dict(zip(manifest.actuated_joints, manifest.effort_limits, strict=True))
    joints = len(manifest.joint_names)
    for index, name in enumerate(manifest.joint_names):
        limit = f"±{limits[name]:g}" if name in limits else "no motor"
        std = manifest.target_std[index], manifest.target_std[index + joints]
        table.add_row(Text(name), limit, f"{std[0]:.4g}, {std[1]:.4g}")
    return table


def _learning(manifest: Manifest) -> dict[str, str]:
    learned = manifest.report != LearningReport()
    known = {k: f"{v:.5g}" for k, v in manifest.report if learned and v is not None}
    return {
        **({"model": manifest.model} if manifest.model else {}),
        **(known or {"report": "nothing learned yet"}),
        "data": manifest.data_hash[:HASH_DIGITS] or "none",
        "revision": manifest.revision,
        "versions": ", ".join(f"{name} {number}" for name, number in manifest.versions.items()),
    }


def describe_bag(path: Path) -> RenderableType:
    """Tables that say what a bag holds, and, if there is an episode in it, how it went.

    Raises:
        BagError: it is no bag, or damaged.
    """
    contents = read_contents(path)
    parts: list[RenderableType] = [Text(f"Bag {path}", style="bold"), _state(path, contents), ""]
    parts.append(_topics(contents.messages))
    try:
        task, config = _run(path)
        spec = task.spec if task else _robot(path, contents.messages)
        episode = read_episode(path, spec, task.steps if task else ANY_STEPS, config)
    except BagError as error:
        return Group(*parts, Text(f"no episode: {error}", style="yellow"))
    parts += ["", _pairs(_episode(episode, spec, task), "Episode")]
    if task is not None and config is not None and episode.interrupted:
        line = sound_part(path, spec, task.steps, config).line
        parts.append(_pairs({"sound": f"{line}, where model.interrupted = true"}))
    parts += ["", _joints(episode, spec), ""]
    if spec.observed or spec.context:
        parts += [_others(episode, spec), ""]
    parts += [Text(f"! {event}", style="yellow") for event in episode.events]
    return Group(*parts)


def _state(path: Path, contents: BagContents) -> Text:
    if not contents.whole:
        command = f"hucrl inspect {shlex.quote(str(path))} --repair"
        return Text(
            f"cut off: its recorder was killed; `{command}` makes a whole one",
            style="yellow",
        )
    if contents.outcome is Outcome.INTERRUPTED:
        return Text("whole, of an episode that was interrupted", style="yellow")
    return Text("whole", style="green")


def _topics(messages: list[RawMessage]) -> Table:
    table = Table("topic", "type", "messages", "rate", box=None)
    times: dict[tuple[str, str], list[int]] = {}
    for message in messages:
        times.setdefault((message.topic, message.type), []).append(message.received_ns)
    for (topic, kind), received in sorted(times.items()):
        count, span = len(received), (received[-1] - received[0]) / 1e9
        rate = f"{(count - 1) / span:.1f} Hz" if count > 1 and span > 0 else ""
        table.add_row(Text(topic), Text(kind), str(count), rate)
    return table


def _run(path: Path) -> tuple[Task, Config] | tuple[None, None]:
    """Task and settings of the run that the bag lies in, if it lies in one."""
    for folder in path.absolute().parents:
        try:
            run = RunFolder.open(folder)
            config = run.config
            say_functions("inspect", config.task, run.robot)
            return make_task(config.task, config.action_penalty, run.robot), config
        except HucrlError:
            continue
    return None, None


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
    ticks, gaps = episode.ticks, int(np.count_nonzero(~episode.contiguous))
    of = f" of {task.steps}" if task else ""
    p50, p99, largest = np.percentile(ticks["tick_ms"], [50, 99, 100])
    sources = Counter(Source(int(source)).name.lower() for source in ticks["source"])
    largest_surprise = float(np.fmax.reduce(ticks["surprise"]))
    values = {
        "robot": spec.name,
        "steps": f"{len(episode.actions)}{of}" + (f", {gaps} of them left out" if gaps else ""),
        "ticks": f"{len(ticks)}: p50 {p50:.2f}, p99 {p99:.2f}, max {largest:.2f} ms",
        "answered by": ", ".join(f"{name} {count}" for name, count in sources.most_common()),
        "missed": f"{np.count_nonzero(ticks['missed'])} (period {1e3 * spec.period:g} ms)",
        "clamped": str(np.count_nonzero(ticks["clamped"])),
        "filtered": str(np.count_nonzero(ticks["filtered"])),
        "surprise": "–" if np.isnan(largest_surprise) else f"at most {largest_surprise:.1f}",
        "actions": episode.acted,
    }
    if task is not None:
        rewards = task.rewards(episode.states[:-1], episode.actions)
        values["return"] = f"{rewards.sum():.2f} (action penalty {task.action_penalty:g})"
    return values


def _joints(episode: Episode, spec: RobotSpec) -> Table:
    actions = {"effort": "effort", "velocity": "commanded", "position": "commanded change"}
    table = Table("joint", "position", "velocity", actions[spec.command], box=None)
    joints, acted = len(spec.joint_names), episode.actions.T
    efforts = dict(zip(spec.actuated_joints, acted, strict=True)) if acted.size else {}
    for index, name in enumerate(spec.joint_names):
        position, velocity = (_range(episode.states[:, index + k]) for k in (0, joints))
        table.add_row(
            Text(name), position, velocity, _range(efforts[name]) if name in efforts else ""
        )
    return table


def _others(episode: Episode, spec: RobotSpec) -> Table:
    """What the state holds besides the joints."""
    table = Table("entry", "value", "", box=None)
    kinds = {**dict.fromkeys(spec.observed, "observed"), **dict.fromkeys(spec.context, "context")}
    for index, (name, kind) in enumerate(kinds.items(), 2 * len(spec.joint_names)):
        table.add_row(Text(name), _range(episode.states[:, index]), kind)
    return table


def _range(values: NDArray[np.float64]) -> str:
    return f"{values.min():.3g} … {values.max():.3g}"


def describe_robot(path: Path) -> RenderableType:
    """Check a description as the start of a run does, and say all that it means.

    Raises:
        ConfigError: something in it is wrong.
    """
    config, described = asked_run(RunOptions(str(path)))
    robot, task = described.robot, Task(described, config.action_penalty)
    unseen, loose = task.robot().unseen, loose_limits(described)
    physics = f", physics in steps of {1e3 * robot.timestep:g} ms" if robot.timestep else ""
    facts = {
        "model": str(described.model),
        "control": f"{robot.steps} steps of {1e3 * robot.period:g} ms{physics}",
        limited(robot.command): ", ".join(_commands(task)),
        **_reward(described),
        **_idle_reward(task),
        **_geometry(task),
        **(
            {"unseen": ", ".join(unseen) + ": not in the state, though it moves"} if unseen else {}
        ),
        **{f"topic {name}": other for name, other in robot.topics.items()},
        **_light_joints(task),
        **_tight_starts(task),
        **({"! loose": loose} if loose else {}),
    }
    return Group(
        Text(f"Robot {described.name}", style="bold"),
        Text("checked: model, joints, constraints, reward, export to ONNX", style="green"),
        "",
        _pairs(facts),
        "",
        _entries(described, task),
        *(("", _constraints(task)) if task.constraint_names else ()),
        "",
        Text("All of it, as a run keeps it", style="italic"),
        Text(dump_description(described)),
    )


def _commands(task: Task) -> Iterator[str]:
    """The largest of each motor, and what it comes to at the joint if that is something else."""
    robot = task.described.robot
    for joint, limit in zip(robot.actuated, robot.action_limits, strict=True):
        gear = task.view.gear(joint)
        yield f"{joint} ±{limit:g}" + (
            "" if gear == 1.0 else f" (gear {gear:g}: ±{abs(gear) * limit:g} at the joint)"
        )


def _light_joints(task: Task) -> dict[str, str]:
    """Joints that a period of full effort makes faster than their motors can stop."""
    if not task.constraint_names:
        return {}
    robot = task.robot()
    found, model, lines = promised(robot), robot.model, []
    for joint, gained, least in zip(robot.spec.actuated_joints, *found[1:], strict=False):
        if (faster := gained * robot.spec.period) > least:
            slides = model.joint(joint).type[0] == mujoco.mjtJoint.mjJNT_SLIDE
            unit = "m/s" if slides else "rad/s"
            lines.append(
                f"{joint}: a period of full effort makes it {faster:.3g} {unit}, and motors can "
                f"stop it from {least:.3g}"
            )
    if not lines:
        return {}
    hint = (
        "many random actions will be changed: smaller effort_limits, a shorter period or the "
        "rotors' inertia (an MJCF's armature; a URDF has none) help"
    )
    return {"! light": "; ".join([*lines, hint])}


def _tight_starts(task: Task) -> dict[str, str]:
    """Position limits that episodes start at, as a closed gripper does at its stop."""
    if not task.constraint_names:
        return {}
    lines = [
        f"{limit.subject} {limit.limit}: episodes start {room:.1f} margins from the limit"
        for limit, room in zip(task.described.constraints, _least_rooms(task), strict=True)
        if isinstance(limit, PositionConstraint) and room < 1.0
    ]
    if not lines:
        return {}
    hint = (
        "the safety filter changes actions for it, and states count as outside: start further "
        "inside, or leave a joint that the task doesn't need out of robot.joints"
    )
    return {"! start": "; ".join([*lines, hint])}


def _least_rooms(task: Task) -> list[float]:
    """`(K,)` room that starts leave to each constraint at least [margins]."""
    starts = task.starts
    rooms = task.room(starts, torch.zeros(len(starts), task.spec.action_dim))
    return [float(room) for room in rooms.amin(dim=0)]


def _reward(described: Description) -> dict[str, str]:
    reward = described.reward
    lines = {} if reward.terms else {"reward": reward.function}
    for number, term in enumerate(reward.terms or ()):
        summary = ((TERMS.get(term.term) or type(term)).__doc__ or "").partition("\n")[0]
        lines[f"reward {number}"] = f"{term.weight:g} x {term.term}: {summary}"
    if reward.success is not None:
        success = reward.success
        lines["success"] = f"{success.of} within {100 * success.within:g} cm of {success.to}"
    return lines


def _idle_reward(task: Task) -> dict[str, str]:
    """Whether it is the same wherever robot and object are: a wrong site, a weight of 0."""
    states = task.imagined_states(RANGE_SAMPLES, torch.Generator().manual_seed(0))
    states[:, task.spec.predicted_dim :] = states[0, task.spec.predicted_dim :]
    with torch.no_grad():
        rewards = task.reward(states, torch.zeros(len(states), task.spec.action_dim))
    if not (rewards - rewards[0]).abs().max() <= 1e-6 * (1.0 + abs(float(rewards[0]))):
        return {}
    told = f"{float(rewards[0]):g} in each of {len(states)} imagined states"
    return {"! reward": f"{told}, without effort: nothing that happens seems to change it"}


def _geometry(task: Task) -> dict[str, str]:
    vectors = task.geometry.vectors if task.geometry else ()
    seen = ", ".join(f"{site} from {body}" for site, body in vectors)
    found = {"vectors": seen} if seen else {}
    if links := len(task.geometry.touches) if task.geometry else 0:
        found["contact"] = f"of {links} link{'s' * (links > 1)} with {sources(task.spec).object}"
    return found


def _entries(described: Description, task: Task) -> Table:
    robot = described.robot
    table = Table("state", "starts at", "networks see", "imagined up to", box=None)
    stopped = {stop.joint for stop in task.geometry.stops} if task.geometry else set()
    for index, entry in enumerate(robot.entries):
        angle = entry in (robot.angles or ())
        seen = "cosine, sine" if angle else f"in units of {robot.scales[entry]:g}"
        seen += ", stops" if index in stopped else ""
        up_to = "stays" if entry in robot.context else _bound(robot.state_bounds.get(entry))
        table.add_row(entry, _draw(robot.start[entry]), seen, up_to)
    return table


def _constraints(task: Task) -> Table:
    """What must never happen, and how far from it episodes start at least."""
    table = Table("must stay", "", "margin", "least margins at the start", "about", box=None)
    for limit, room in zip(task.described.constraints, _least_rooms(task), strict=True):
        cells = (limit.subject, limit.limit, f"{limit.margin:g}", f"{room:.1f}", limit.about)
        table.add_row(*map(Text, cells))
    return table


def _bound(bound: StateBound) -> str:
    if isinstance(bound, tuple):
        return f"{bound[0]:g} … {bound[1]:g}"
    return "any" if bound is None else f"±{bound:g}"


def _draw(draw: Draw) -> str:
    first = draw.origin + draw.first
    if draw.is_uniform:
        return f"{first:g} … {first + draw.spread:g}"
    return f"{first:g}" + (f" + N(0, {draw.std:g}²)" if draw.std else "")
