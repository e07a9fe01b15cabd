"""From a bag to an episode: states, actions and what the controller said of each tick."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.bags import remarks
from hucrl_ros.bags.contents import BagContents, about, read_contents
from hucrl_ros.bags.course import (
    REPORTED,
    Course,
    Heard,
    clocked_course,
    contiguous,
    stepped_course,
)
from hucrl_ros.bags.decode import (
    Sample,
    by_clock_of_ticks,
    decode_commands,
    decode_poses,
    decode_states,
    decode_ticks,
    decode_trips,
    heard_of,
    on_one_clock,
    select,
    told_setup,
    with_actions,
)
from hucrl_ros.bags.messages import RawMessage, deserialize, stamp_ns
from hucrl_ros.bags.metadata import Outcome
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import LEAST_SURPRISE, Config
from hucrl_ros.controller.passage import MAX_GAP_PERIODS
from hucrl_ros.controller.state_reader import velocity_age
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.controller.topics import (
    COMMANDS,
    GOAL,
    JOINT_STATES,
    OBJECT_POSE,
    SETUP,
    TICKS,
    TRIPPED,
)
from hucrl_ros.errors import BagError

Array = NDArray[np.float64]


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
    answers = select(contents.messages, TICKS)
    ticks = decode_ticks(path, answers, spec)
    if not len(ticks):
        raise BagError(f"{path}: holds no tick of a controller, so it holds no episode")
    start_ns = int(ticks["stamp_ns"][0])
    stepped = contents.stepped
    if stepped is None:
        stepped = config is None or config.mode == "lockstep"
    clocked = None if stepped else config
    heard = {name: select(contents.messages, name) for name in (JOINT_STATES, OBJECT_POSE, GOAL)}
    heard[JOINT_STATES] = by_clock_of_ticks(heard[JOINT_STATES], answers, spec.period)
    if contents.outcome is Outcome.INTERRUPTED:
        heard[JOINT_STATES] = on_one_clock(heard[JOINT_STATES], start_ns, spec.period)
    poses = decode_poses(
        heard[OBJECT_POSE], heard[GOAL], heard[JOINT_STATES], start_ns, spec.period
    )
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
        commands = select(contents.messages, COMMANDS)
        played = _played(samples, ticks, spec, clocked)
        in_force = decode_commands(commands, played, spec, clocked.control.extra_delay)
        course = clocked_course(played, in_force, spec.period, steps, clocked.driver)
        course, drifted = with_actions(course, spec), remarks.drifted(played, spec.period)
    interrupted = contents.outcome is Outcome.INTERRUPTED
    reached, surprise = int(ticks["step"][-1]) + 1, float(ticks["surprise"][-1])
    # No episode ends at less: this one is of a task with fewer steps, or its last tick was lost.
    cut = reached < steps and surprise >= LEAST_SURPRISE and not interrupted
    rough = clocked is not None and clocked.driver.velocity == "measured"
    events = [
        *drifted,
        *([] if first_ns == start_ns else [remarks.begins_late(first_ns - start_ns)]),
        *(remarks.rough_velocities(course, spec) if rough else []),
        *decode_trips(select(contents.messages, TRIPPED)),
        *refused,
        *remarks.gaps(course.stamps_ns, course.contiguous, spec.period, ticks),
        *(["the recording was interrupted"] if interrupted else []),
        *([remarks.cut(reached, steps, surprise)] if cut else []),
    ]
    return Episode(
        **course._asdict(),
        ticks=ticks,
        cut=cut,
        interrupted=interrupted,
        events=events,
        bundle=_bundle(select(contents.messages, SETUP)),
    )


def _heard_at(stamp: int, joint_states: list[RawMessage]) -> bool:
    """Whether one of the joint states has a stamp [ns]."""
    return any(stamp_ns(deserialize(raw.data, raw.type).header) == stamp for raw in joint_states)


def _bundle(setups: list[RawMessage]) -> str:
    """Name of the bundle that the episode began with; what was latched before comes first."""
    begun = [told for told in map(told_setup, setups) if told and told.get("step") == 0]
    return str(begun[-1].get("bundle", "")) if begun else ""


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
