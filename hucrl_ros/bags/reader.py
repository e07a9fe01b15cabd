"""From a bag to an episode: states, actions and what the controller said of each tick."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.bags.contents import BagContents, about, read_contents
from hucrl_ros.bags.course import (
    REPORTED,
    Course,
    Heard,
    centred,
    clocked_course,
    commands_in_force,
    contiguous,
    drift,
    roughness,
    stepped_course,
)
from hucrl_ros.bags.messages import Message, RawMessage, deserialize, stamp_ns, to_tick
from hucrl_ros.bags.metadata import Outcome
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import LEAST_SURPRISE, Config, DriverSettings
from hucrl_ros.controller.pace import OVERTAKEN
from hucrl_ros.controller.passage import MAX_GAP_PERIODS, Signal
from hucrl_ros.controller.state_reader import (
    JointReading,
    Pose,
    PoseBuffer,
    PoseHistory,
    StateReader,
    derived_entries,
    velocity_age,
)
from hucrl_ros.controller.ticks import NANOSECONDS, TickRecord
from hucrl_ros.controller.topics import (
    COMMANDS,
    GOAL,
    JOINT_STATES,
    OBJECT_POSE,
    RECORDED,
    SETUP,
    TICKS,
    TRIPPED,
)
from hucrl_ros.errors import BagError, MessageError, StateError

Array = NDArray[np.float64]
_LEVEL_OK = 0
MOST_GAPS = 1000
"""Gaps that are told one by one."""
LATE = 0.5
"""`drift` that is worth a word [control periods]."""
ROUGH = 0.08
"""`roughness` above which velocities are worth a word."""


class Sample(NamedTuple):
    """The state of one distinct joint state."""

    stamp_ns: int
    state: NDArray[np.float64]
    """`(p,)`"""
    effort: NDArray[np.float64] | None
    """`(q,)` effort in the joint state [N m or N]; None: not reported."""
    recorded_ns: int
    """When it was recorded [ns since the epoch]."""


def decode_ticks(path: Path, messages: list[RawMessage], spec: RobotSpec) -> NDArray[np.void]:
    """Ticks in the order of their stamps, as a structured array.

    Raises:
        BagError: a message is no tick, or one of a robot with another number of efforts.
    """
    rows = []
    for raw in messages:
        tick = to_tick(deserialize(raw.data, raw.type))
        if len(tick.action) != spec.action_dim:
            raise BagError(
                f"{path}: ticks hold {len(tick.action)} efforts; "
                f"{spec.name} takes {spec.action_dim}"
            )
        rows.append((tick.stamp_ns, *tick[2:]))
    rows.sort(key=lambda row: row[0])
    return np.array(rows, dtype=tick_dtype(spec.action_dim))


def tick_dtype(action_dim: int) -> np.dtype[np.void]:
    """Fields of the structured array of ticks: `stamp_ns`, then those of `TickRecord`."""
    kinds = TickRecord.__annotations__
    plain = [(name, np.dtype(kinds[name])) for name in TickRecord._fields[2:-1]]
    return np.dtype([("stamp_ns", np.int64), *plain, ("action", np.float64, (action_dim,))])


def decode_poses(objects: list[RawMessage], goals: list[RawMessage]) -> PoseBuffer:
    """All that was recorded of the object and of the goal."""
    poses = PoseBuffer(kept=None)
    _add_places(poses.object, objects)
    _add_places(poses.goal, goals)
    return poses


def _add_places(places: PoseHistory, messages: list[RawMessage]) -> None:
    for raw in messages:
        message = deserialize(raw.data, raw.type)
        place = message.pose.position
        position = (float(place.x), float(place.y), float(place.z))
        places.add(Pose(stamp_ns(message.header), message.header.frame_id, position))


def decode_states(
    messages: list[RawMessage],
    poses: PoseBuffer,
    spec: RobotSpec,
    start_ns: int,
    count: float,
    driver: DriverSettings | None = None,
) -> tuple[list[Sample], list[str]]:
    """States of the first `count` distinct joint states from `start_ns` on, by their stamps.

    Args:
        messages: Joint states.
        poses: What was recorded of object and goal.
        spec: The robot.
        start_ns: Stamp of the first one [ns].
        count: How many.
        driver: Says where velocities come from; None: from joint states.

    Returns:
        The states, and one line for each that had to be refused.
    """
    decoded = [(deserialize(raw.data, raw.type), raw.received_ns) for raw in messages]
    distinct = {stamp_ns(message.header): (message, ns) for message, ns in reversed(decoded)}
    reader = StateReader(spec, poses, MAX_GAP_PERIODS, driver)
    samples: list[Sample] = []
    refused: list[str] = []
    for stamp in sorted(stamp for stamp in distinct if stamp >= start_ns):
        if len(samples) == count:
            break
        message, recorded_ns = distinct[stamp]
        try:
            state = reader.read(
                JointReading(
                    message.name, message.position.tolist(), message.velocity.tolist(), stamp
                )
            )
        except StateError as error:
            refused.append(f"{(stamp - start_ns) / 1e9:.4f} s: {error}")
            continue
        samples.append(Sample(stamp, state, _effort(message, spec), recorded_ns))
    return samples, refused


def decode_trips(messages: list[RawMessage]) -> list[str]:
    """What the watchdog said when it tripped."""
    decoded = [deserialize(raw.data, raw.type) for raw in messages]
    return [f"watchdog: {m.message}" for m in decoded if m.level != _LEVEL_OK]


def _effort(message: Message, spec: RobotSpec) -> NDArray[np.float64] | None:
    """Efforts `(q,)` of the actuated joints, or None where the robot takes or reports none."""
    if spec.command != "effort":
        return None
    if len(message.effort) != len(message.name):
        return None
    effort = [float(message.effort[message.name.index(name)]) for name in spec.actuated_joints]
    return np.array(effort) if all(map(math.isfinite, effort)) else None


@dataclass(frozen=True)
class Episode:
    """One recorded episode with T transitions."""

    states: Array
    """`(T + 1, p)` positions [rad or m], velocities [rad/s or m/s], then what the spec calls
    observed, then the context."""
    actions: Array
    """`(T, q)` what acted, in the unit of the robot's actions."""
    contiguous: NDArray[np.bool_]
    """`(T,)` whether states k and k + 1 are one control period apart."""
    stamps_ns: NDArray[np.int64]
    """`(T + 1,)` stamps of the states [ns]."""
    ticks: NDArray[np.void]
    """`(N,)` structured: `stamp_ns` and the fields of `hucrl_ros.controller.ticks.TickRecord`."""
    cut: bool
    """The controller ended it before its last step, as the robot surprised too much. So its
    return isn't one of a whole episode."""
    interrupted: bool
    """The recording ended before the episode did."""
    events: list[str]
    """What a person should know of, one line each."""
    acted: str = REPORTED
    """What the actions are."""
    bundle: str = ""
    """Name of the folder of the bundle that began it; empty: the bag doesn't say."""


def read_episode(path: Path, spec: RobotSpec, steps: int, config: Config | None = None) -> Episode:
    """Read an episode by the rules of `docs/contracts.md`, also from a cut-off bag.

    Args:
        path: The bag's folder, or an MCAP file.
        spec: The robot that must be in it.
        steps: Control periods in an episode; later states are not read.
        config: Settings of its run, which say what the robot's driver tells, and whether it was
            played in real time if the bag doesn't; None: as in lockstep.

    Raises:
        BagError: the bag is damaged, of another robot, or holds no tick.
    """
    with about(path):
        return _read_episode(path, read_contents(path), spec, steps, config)


def _read_episode(
    path: Path, contents: BagContents, spec: RobotSpec, steps: int, config: Config | None
) -> Episode:
    ticks = decode_ticks(path, _select(contents.messages, TICKS), spec)
    if not len(ticks):
        raise BagError(f"{path}: holds no tick of a controller, so it holds no episode")
    start_ns = int(ticks["stamp_ns"][0])
    stepped = contents.stepped
    if stepped is None:
        stepped = config is None or config.mode == "lockstep"
    clocked = None if stepped else config
    heard = {name: _select(contents.messages, name) for name in (JOINT_STATES, OBJECT_POSE, GOAL)}
    if contents.outcome is Outcome.INTERRUPTED:
        heard[JOINT_STATES] = _on_one_clock(heard[JOINT_STATES], start_ns, spec.period)
    poses = decode_poses(heard[OBJECT_POSE], heard[GOAL])
    count, driver = (math.inf, clocked.driver) if clocked else (steps + 1, None)
    samples, refused = decode_states(heard[JOINT_STATES], poses, spec, start_ns, count, driver)
    first_ns = samples[0].stamp_ns if samples else None
    # One that made no sense was answered all the same, and the episode went on; a driver that
    # sends as best it can may have told the controller alone.
    may_lack = clocked is not None or _heard_at(start_ns, heard[JOINT_STATES])
    latest_ns = int(ticks["stamp_ns"][-1]) if may_lack else start_ns
    if first_ns is None or first_ns > latest_ns:
        reason = f" ({refused[0]})" if refused else ""
        raise BagError(
            f"{path}: no usable joint state with the first tick's stamp "
            f"{start_ns / 1e9:.9f} s{reason}"
        )
    drifted: list[str] = []
    if clocked is None:
        course = _stepped(samples, ticks, spec)
    else:
        commands = _select(contents.messages, COMMANDS)
        played = _played(samples, ticks, spec, clocked)
        in_force = decode_commands(commands, played, spec, clocked.control.extra_delay)
        course = clocked_course(played, in_force, spec.period, steps, clocked.driver)
        course, drifted = with_actions(course, spec), _drifted(played, spec.period)
    interrupted = contents.outcome is Outcome.INTERRUPTED
    reached, surprise = int(ticks["step"][-1]) + 1, float(ticks["surprise"][-1])
    # No episode ends at less: this one is of a task with fewer steps, or its last tick was lost.
    cut = reached < steps and surprise >= LEAST_SURPRISE and not interrupted
    rough = clocked is not None and clocked.driver.velocity == "measured"
    events = [
        *drifted,
        *([] if first_ns == start_ns else [_begins_late(first_ns - start_ns)]),
        *(_rough_velocities(course, spec) if rough else []),
        *decode_trips(_select(contents.messages, TRIPPED)),
        *refused,
        *_gaps(course.stamps_ns, course.contiguous, ticks),
        *(["the recording was interrupted"] if interrupted else []),
        *([_cut(reached, steps, surprise)] if cut else []),
    ]
    return Episode(
        **course._asdict(),
        ticks=ticks,
        cut=cut,
        interrupted=interrupted,
        events=events,
        bundle=_bundle(_select(contents.messages, SETUP)),
    )


def _heard_at(stamp: int, joint_states: list[RawMessage]) -> bool:
    """Whether one of the joint states has a stamp [ns]."""
    return any(stamp_ns(deserialize(raw.data, raw.type).header) == stamp for raw in joint_states)


def _bundle(setups: list[RawMessage]) -> str:
    """Name of the bundle that the episode began with; what was latched before comes first."""
    begun = [told for told in map(told_setup, setups) if told and told.get("step") == 0]
    return str(begun[-1].get("bundle", "")) if begun else ""


def told_setup(raw: RawMessage) -> dict[str, object] | None:
    """What a message of `controller/setup` tells, unchecked; None: it isn't one."""
    try:
        told = json.loads(deserialize(raw.data, raw.type).data)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def _begins_late(late_ns: int) -> str:
    return (
        f"the first tick's joint state is missing; the episode begins {late_ns / 1e6:.1f} ms later"
    )


def _cut(reached: int, steps: int, surprise: float) -> str:
    return (
        f"ended after {reached} of {steps} steps, at a surprise of {surprise:.1f} standard "
        "deviations; its return doesn't count"
    )


def _on_one_clock(messages: list[RawMessage], start_ns: int, period: float) -> list[RawMessage]:
    """Joint states from the first one up to where their clock went back: that was an outage.

    What follows has stamps of moments that have been, and would pass for what was then.
    """
    stamps = [stamp_ns(deserialize(raw.data, raw.type).header) for raw in messages]
    first = stamps.index(start_ns) if start_ns in stamps else 0
    newest = np.maximum.accumulate(np.array(stamps[first:], dtype=np.int64))
    back = newest - stamps[first:] >= OVERTAKEN * period * NANOSECONDS
    return messages[first : first + int(back.argmax())] if back.any() else messages[first:]


def _select(messages: list[RawMessage], name: str) -> list[RawMessage]:
    """Messages of one of the recorded topics.

    Raises:
        MessageError: one is of another type than the nodes' are.
    """
    (kind,) = (topic.type for topic in RECORDED if topic.name == name)
    found = [message for message in messages if message.is_of(name)]
    if wrong := [message for message in found if message.type != kind]:
        raise MessageError(f"{wrong[0].topic} holds {wrong[0].type}; expected {kind}")
    return found


def decode_commands(
    messages: list[RawMessage], heard: Heard, spec: RobotSpec, dead_time: float
) -> Signal:
    """Commands that fit the robot, by when they were in force.

    Args:
        messages: Of the topic of the commands.
        heard: Joint states of the same recording.
        spec: The robot. Before the first command it is under that of no action.
        dead_time: From a command's arrival until it acts [s].
    """
    efforts = [deserialize(raw.data, raw.type).data for raw in messages]
    count = spec.action_dim
    kept = [k for k, x in enumerate(efforts) if len(x) == count and np.isfinite(x).all()]
    recorded = Signal(
        np.array([messages[k].received_ns for k in kept], dtype=np.int64),
        np.array([efforts[k] for k in kept], dtype=np.float64).reshape(-1, count),
        spec.to_command(np.zeros(count), heard.states[0]),
    )
    return commands_in_force(recorded, heard.stamps_ns, heard.recorded_ns, dead_time)


def heard_of(samples: list[Sample], spec: RobotSpec, age: float = 0.0) -> Heard:
    """Samples, at least one, as arrays; derived velocities are `age` [s] older than the rest."""
    unknown = np.full(spec.action_dim, np.nan)
    heard = Heard(
        np.array([sample.stamp_ns for sample in samples], dtype=np.int64),
        np.stack([sample.state for sample in samples]),
        np.stack([unknown if s.effort is None else s.effort for s in samples]),
        np.array([sample.recorded_ns for sample in samples], dtype=np.int64),
    )
    return centred(heard, derived_entries(spec), age) if age else heard


def _stepped(samples: list[Sample], ticks: NDArray[np.void], spec: RobotSpec) -> Course:
    """Each joint state is a step."""
    heard = heard_of(samples, spec)
    newest = np.searchsorted(ticks["stamp_ns"], heard.stamps_ns[:-1], side="right") - 1
    actions, acted = stepped_course(heard, ticks["action"][newest])
    near = contiguous(heard.stamps_ns, spec.period)
    return Course(heard.stamps_ns, heard.states, actions, near, acted)


def _played(
    samples: list[Sample], ticks: NDArray[np.void], spec: RobotSpec, config: Config
) -> Heard:
    """Joint states up to the end of the last tick's period, by the clock of the stamps."""
    age = velocity_age(config.driver, spec.period)
    after = MAX_GAP_PERIODS * spec.period + age
    end_ns = ticks["stamp_ns"][-1] + round(after * NANOSECONDS)
    return heard_of([sample for sample in samples if sample.stamp_ns <= end_ns], spec, age)


def _drifted(heard: Heard, period: float) -> list[str]:
    late = drift(heard)
    if late <= LATE * period:
        return []
    return [
        f"joint states were recorded up to {1e3 * late:.0f} ms later behind their stamps at one "
        "time than at another, so it isn't known better when commands acted: driver or recorder "
        "are held up (control.realtime_priority), or the driver's clock runs at another speed"
    ]


def with_actions(course: Course, spec: RobotSpec) -> Course:
    """A course of commands, as one of the actions that these are."""
    return course._replace(actions=spec.to_action(course.actions, course.states[:-1]))


def _rough_velocities(course: Course, spec: RobotSpec) -> list[str]:
    shares = roughness(course, len(spec.joint_names), spec.period)
    return [
        f"velocities of joint {joint!r} differ from the slopes of its positions by {share:.0%} of "
        "their own deviation: have them derived, with driver.velocity = derived"
        for joint, share in zip(spec.joint_names, shares, strict=True)
        if share > ROUGH
    ]


def _gaps(
    stamps: NDArray[np.int64], contiguous: NDArray[np.bool_], ticks: NDArray[np.void]
) -> list[str]:
    events = []
    on_grid = len(stamps) > 2 and np.ptp(np.diff(stamps)) <= 1  # [ns], by rounding
    gaps = np.flatnonzero(~contiguous)
    for k in gaps[:MOST_GAPS]:
        gap = (stamps[k + 1] - stamps[k]) / 1e6
        what = (
            "joint states are missing in it"
            if on_grid
            else f"{gap:.1f} ms until the next joint state"
        )
        events.append(f"step {k}: {what}; left out")
    if len(gaps) > MOST_GAPS:
        events.append(f"{len(gaps) - MOST_GAPS} more steps over gaps; left out")
    if ticks["step"][0] != 0:
        events.append(f"the first recorded tick is that of step {ticks['step'][0]}")
    jumps = np.flatnonzero(np.diff(ticks["step"]) != 1)
    for k in jumps:
        before, after = ticks["step"][k], ticks["step"][k + 1]
        events.append(f"step {before}: the next recorded tick is that of step {after}")
    return events
