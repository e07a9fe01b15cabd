"""From a bag to an episode: states, actions and what the controller said of each tick."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.bags.contents import RawMessage, read_contents
from hucrl_ros.bags.decode import (
    MAX_GAP_PERIODS,
    MIN_GAP_PERIODS,
    Sample,
    decode_poses,
    decode_states,
    decode_ticks,
    decode_trips,
)
from hucrl_ros.bags.metadata import Outcome
from hucrl_ros.config.robot_spec import RobotSpec
from hucrl_ros.controller.topics import GOAL, JOINT_STATES, OBJECT_POSE, TICKS, TRIPPED
from hucrl_ros.errors import BagError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Episode:
    """One recorded episode with T transitions."""

    states: Array
    """`(T + 1, p)` positions [rad or m], velocities [rad/s or m/s], then what the spec calls
    observed, then the context."""
    actions: Array
    """`(T, q)` efforts applied [N m or N]."""
    contiguous: NDArray[np.bool_]
    """`(T,)` whether states k and k + 1 are one control period apart."""
    stamps_ns: NDArray[np.int64]
    """`(T + 1,)` stamps of the states [ns]."""
    ticks: NDArray[np.void]
    """`(N,)` structured: `stamp_ns` and the fields of `hucrl_ros.controller.ticks.TickRecord`."""
    interrupted: bool
    """The recording ended before the episode did."""
    events: list[str]
    """What a person should know of, one line each."""


def read_episode(path: Path, spec: RobotSpec, steps: int) -> Episode:
    """Read an episode by the rules of `docs/contracts.md`, also from a cut-off bag.

    Args:
        path: The bag's folder, or an MCAP file.
        spec: The robot that must be in it.
        steps: Control periods in an episode; later states are not read.

    Raises:
        BagError: the bag is damaged, of another robot, or holds no tick.
    """
    contents = read_contents(path)
    ticks = decode_ticks(path, _select(contents.messages, TICKS), spec)
    if not len(ticks):
        raise BagError(f"{path}: holds no tick of a controller, so it holds no episode")
    start_ns = int(ticks["stamp_ns"][0])
    heard = {name: _select(contents.messages, name) for name in (JOINT_STATES, OBJECT_POSE, GOAL)}
    poses = decode_poses(heard[OBJECT_POSE], heard[GOAL])
    samples, refused = decode_states(heard[JOINT_STATES], poses, spec, start_ns, steps + 1)
    if not samples or samples[0].stamp_ns != start_ns:
        reason = f" ({refused[0]})" if refused else ""
        raise BagError(
            f"{path}: no usable joint state with the first tick's stamp "
            f"{start_ns / 1e9:.9f} s{reason}"
        )
    interrupted = contents.outcome is Outcome.INTERRUPTED
    stamps = np.array([sample.stamp_ns for sample in samples], dtype=np.int64)
    gaps = np.diff(stamps) / 1e9 / spec.period
    contiguous = (gaps >= MIN_GAP_PERIODS) & (gaps <= MAX_GAP_PERIODS)
    events = [
        *decode_trips(_select(contents.messages, TRIPPED)),
        *refused,
        *_gaps(stamps, contiguous, ticks),
        *(["the recording was interrupted"] if interrupted else []),
    ]
    return Episode(
        states=np.stack([sample.state for sample in samples]),
        actions=_actions(samples, ticks, spec),
        contiguous=contiguous,
        stamps_ns=stamps,
        ticks=ticks,
        interrupted=interrupted,
        events=events,
    )


def _select(messages: list[RawMessage], name: str) -> list[RawMessage]:
    return [message for message in messages if message.is_of(name)]


def _actions(samples: list[Sample], ticks: NDArray[np.void], spec: RobotSpec) -> Array:
    """What was applied in each transition, or, where the robot doesn't say, what was sent."""
    stamps = [sample.stamp_ns for sample in samples[:-1]]
    newest = np.searchsorted(ticks["stamp_ns"], stamps, side="right") - 1
    sent = ticks["action"][newest]
    applied = [
        command if sample.effort is None else sample.effort
        for sample, command in zip(samples[1:], sent, strict=True)
    ]
    return np.array(applied, dtype=np.float64).reshape(-1, spec.action_dim)


def _gaps(
    stamps: NDArray[np.int64], contiguous: NDArray[np.bool_], ticks: NDArray[np.void]
) -> list[str]:
    events = []
    for k in np.flatnonzero(~contiguous):
        gap = (stamps[k + 1] - stamps[k]) / 1e6
        events.append(f"step {k}: {gap:.1f} ms until the next joint state; left out")
    if ticks["step"][0] != 0:
        events.append(f"the first recorded tick is that of step {ticks['step'][0]}")
    jumps = np.flatnonzero(np.diff(ticks["step"]) != 1)
    for k in jumps:
        before, after = ticks["step"][k], ticks["step"][k + 1]
        events.append(f"step {before}: the next recorded tick is that of step {after}")
    return events
