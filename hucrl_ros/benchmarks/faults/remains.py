"""What a run leaves behind, so that two runs can be compared to the last bit."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from hucrl_ros.bags.contents import read_contents
from hucrl_ros.bags.messages import RawMessage, deserialize, stamp_ns, to_tick
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.controller.manifest import MANIFEST, read_manifest
from hucrl_ros.controller.topics import JOINT_STATES, TICKS
from hucrl_ros.errors import HucrlError
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import read_summary

TIMES = ("fit_s", "search_s", "tick_ms", "misses")
"""What differs between equal runs: how long it took."""
ROUNDED = "return"
"""It follows from states and actions; where a robot has no torch it is added up in float32."""


def remains_of(run: RunFolder) -> dict[str, str]:
    """Every result of a run: its name, and what tells it apart from any other, to the last bit.

    States and actions of each finished episode, the files of each bundle and the learner's
    weights, and what the summary says; times are left out.

    Raises:
        HucrlError: a file of it can't be read.
    """
    found: dict[str, str] = {}
    for index in range(run.finished_episodes()):
        spec = read_manifest(run.bundle(index)).spec
        steps = read_manifest(run.bundle(index)).steps
        episode = read_episode(run.bag(index), spec, steps, run.config)
        found[f"states of episode {index}"] = _digest(episode.states.tobytes())
        found[f"actions of episode {index}"] = _digest(episode.actions.tobytes())
    for path in sorted([*run.bundles.glob("*/*"), *run.checkpoints.glob("*")]):
        name = str(path.relative_to(run.root))
        data = _timeless_manifest(path) if path.name == MANIFEST else path.read_bytes()
        found[name] = _digest(data)
    for told in read_summary(run.summary).model_dump(by_alias=True)["episodes"]:
        kept = {name: value for name, value in told.items() if name not in (*TIMES, ROUNDED)}
        found[f"summary of episode {told['index']}"] = json.dumps(kept, sort_keys=True)
    return found


def differences(expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Names of what is missing, what is there besides, and what differs."""
    lines = [f"{name} is missing" for name in expected if name not in found]
    lines += [f"{name} is left over" for name in found if name not in expected]
    lines += [
        f"{name} differs" for name in expected if name in found and expected[name] != found[name]
    ]
    return lines


def recorded_since(run: RunFolder, since: float) -> tuple[set[tuple[int, int]], set[int]]:
    """Stamp and step of each tick, and stamps of the joint states [ns], of the newest bags.

    Args:
        run: The run.
        since: Bags that nobody has written to from then on are left out [s since the epoch].
    """
    ticks: set[tuple[int, int]] = set()
    states: set[int] = set()
    for path in run.episodes.glob("*/*.mcap"):
        if path.stat().st_mtime < since:
            continue
        for message in _messages(path):
            if message.is_of(TICKS):
                tick = to_tick(deserialize(message.data, message.type))
                ticks.add((tick.stamp_ns, tick.step))
            elif message.is_of(JOINT_STATES):
                states.add(stamp_ns(deserialize(message.data, message.type).header))
    return ticks, states


def _messages(path: Path) -> list[RawMessage]:
    try:
        return read_contents(path.parent).messages
    except HucrlError:
        return []  # what can't be read is lost


def _timeless_manifest(path: Path) -> bytes:
    values = yaml.safe_load(path.read_text())
    del values["revision"]  # Somebody may work on the software while a campaign goes on.
    values["report"] = {k: v for k, v in values["report"].items() if k not in TIMES}
    return json.dumps(values, sort_keys=True, default=str).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
