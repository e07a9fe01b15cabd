"""`metadata.yaml` of a rosbag2 folder, version 9."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import yaml

from hucrl_ros.bags.bounds import open_regular
from hucrl_ros.bags.messages import type_hash
from hucrl_ros.config.yaml_reader import parse_mapping
from hucrl_ros.controller.topics import RecordedTopic
from hucrl_ros.errors import BagError

FILE_NAME = "metadata.yaml"
VERSION = 9
LARGEST = 2**18
"""[bytes] Some hundred topics."""
_INFINITE = {"sec": 9223372036, "nsec": 854775807}
_OUTCOME = "hucrl_outcome"
_STEPPED = "hucrl_stepped"


class Outcome(Enum):
    """How the recording of an episode ended."""

    FINISHED = "finished"
    """It was closed because the episode was over."""
    INTERRUPTED = "interrupted"
    """It was closed before that, or rewritten from a cut-off file."""


@dataclass(frozen=True)
class Contents:
    """What a bag's only file holds."""

    file_name: str
    counts: Mapping[RecordedTopic, int]
    """Messages of each topic, which stands here by its resolved name."""
    start_ns: int
    """Receive time of the first message [ns]."""
    end_ns: int
    """Receive time of the last message [ns]."""
    outcome: Outcome
    stepped: bool | None = None
    """Each joint state is a step, as in lockstep; False: their stamps tell; None: not known."""


def qos_profiles(latched: bool) -> list[dict[str, Any]]:
    """Quality of service of a topic's publishers, as rosbag2 writes it."""
    return [
        {
            "history": "keep_last",
            "depth": 1 if latched else 100,
            "reliability": "reliable",
            "durability": "transient_local" if latched else "volatile",
            "deadline": dict(_INFINITE),
            "lifespan": dict(_INFINITE),
            "liveliness": "automatic",
            "liveliness_lease_duration": dict(_INFINITE),
            "avoid_ros_namespace_conventions": False,
        }
    ]


def dump_metadata(contents: Contents) -> str:
    """Text of `metadata.yaml`."""
    return yaml.safe_dump({"rosbag2_bagfile_information": _information(contents)}, sort_keys=False)


def dump_information(contents: Contents) -> str:
    """What rosbag2 keeps inside the MCAP file, so that it opens without `metadata.yaml`."""
    return yaml.safe_dump(_information(contents), sort_keys=False)


class Metadata(NamedTuple):
    """What `metadata.yaml` says of a bag, whoever recorded it."""

    outcome: Outcome
    """How the recording ended; finished where somebody else recorded it."""
    stepped: bool | None
    """Each joint state is a step, as in lockstep; False: their stamps tell; None: not known."""
    storage: str
    """`mcap` or `sqlite3`."""
    files: tuple[str, ...]
    """Names of files in the folder."""
    total: int
    """Number of messages in them."""
    compression: str
    """Of each `message` or `file`, by zstd; empty: none."""


def read_metadata(folder: Path) -> Metadata:
    """What `metadata.yaml` says.

    Raises:
        BagError: it can't be read, or is no bag's.
    """
    path = folder / FILE_NAME
    stream, size = open_regular(path)
    with stream:
        if size > LARGEST:
            raise BagError(f"{path}: {size} bytes, more than the {LARGEST} accepted")
        content = stream.read()
    try:
        document: Any = parse_mapping(content, path, BagError)
        information = document["rosbag2_bagfile_information"]
        custom = information.get("custom_data") or {}
        stepped = custom.get(_STEPPED)
        return Metadata(
            outcome=Outcome(custom.get(_OUTCOME, Outcome.FINISHED.value)),
            stepped=None if stepped is None else stepped == str(True),
            storage=str(information["storage_identifier"]),
            # Old ones name the folder as well; nothing outside of it is ever read.
            files=tuple(PurePath(name).name for name in information["relative_file_paths"]),
            total=int(information["message_count"]),
            compression=str(information.get("compression_mode") or "").lower(),
        )
    except Exception:  # whatever stands in the place of a group or of a number
        raise BagError(f"{path}: damaged; it is not the metadata of a rosbag2 folder") from None


def _information(contents: Contents) -> dict[str, Any]:
    count = sum(contents.counts.values())
    custom = {_OUTCOME: contents.outcome.value}
    if contents.stepped is not None:
        custom[_STEPPED] = str(contents.stepped)
    start = {"nanoseconds_since_epoch": contents.start_ns}
    duration = {"nanoseconds": contents.end_ns - contents.start_ns}
    return {
        "version": VERSION,
        "storage_identifier": "mcap",
        "duration": dict(duration),
        "starting_time": dict(start),
        "message_count": count,
        "topics_with_message_count": _topics(contents.counts),
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [contents.file_name],
        "files": [
            {
                "path": contents.file_name,
                "starting_time": start,
                "duration": duration,
                "message_count": count,
            }
        ],
        "custom_data": custom,
        "ros_distro": "",
    }


def _topics(counts: Mapping[RecordedTopic, int]) -> Sequence[dict[str, Any]]:
    return [
        {
            "topic_metadata": {
                "name": topic.name,
                "type": topic.type,
                "serialization_format": "cdr",
                "offered_qos_profiles": qos_profiles(topic.latched),
                "type_description_hash": type_hash(topic.type),
            },
            "message_count": count,
        }
        for topic, count in counts.items()
    ]
